"""Workloads of LeaderWorkerSet, JobSet and Kueue, run by their real controllers: start, lose a pod, recover, end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import trustme

from projections.api_resource import Resource
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.workload import JOB
from tests.control_plane.api import Object
from tests.control_plane.kubelet import FINISH
from tests.control_plane.manifests import GPU
from tests.control_plane.program import free_ports
from tests.control_plane.workload_controllers import (
    JOB_SET,
    KUEUE,
    LEADER_WORKER_SET,
    WorkloadController,
    at_work,
    install,
)
from tests.e2e.rig import PATIENCE_SECONDS, POLL_SECONDS, Pods, Rig, is_running, node_of

LEADER_WORKER_SETS: Final = Resource(
    "LeaderWorkerSet", "leaderworkersets", "leaderworkerset.x-k8s.io"
)
JOB_SETS: Final = Resource("JobSet", "jobsets", "jobset.x-k8s.io", "v1alpha2")
FLAVORS: Final = Resource(
    "ResourceFlavor", "resourceflavors", "kueue.x-k8s.io", "v1beta2", is_namespaced=False
)
CLUSTER_QUEUES: Final = Resource(
    "ClusterQueue", "clusterqueues", "kueue.x-k8s.io", "v1beta2", is_namespaced=False
)
LOCAL_QUEUES: Final = Resource("LocalQueue", "localqueues", "kueue.x-k8s.io", "v1beta2")
MEMBER: Final = "leaderworkerset.sigs.k8s.io/name"


@asynccontextmanager
async def beside(rig: Rig, controller: WorkloadController) -> AsyncIterator[None]:
    """The controller at work on the rig's cluster."""
    authority = trustme.CA()
    (port,) = free_ports(1)
    await install(controller, rig.api, port, authority)
    with at_work(controller, rig.cluster.admin, rig.folder / controller.name, port, authority):
        yield


def manifest(rig: Rig, resource: Resource, name: str, spec: Object, **metadata: object) -> Object:
    """An object in the rig's namespace."""
    within = {"namespace": rig.namespace} if resource.is_namespaced else {}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name, **within, **metadata},
        "spec": spec,
    }


def leader_worker_set(rig: Rig, name: str, **spec: object) -> Object:
    """Two groups of a leader and two workers, two cards each, in the queue `sets`."""
    template = {"spec": rig.spec(2, product=GPU)}
    template["metadata"] = {"annotations": {"volcano.sh/card.name": "NVIDIA-H200"}}
    whole = {
        "replicas": 2,
        "leaderWorkerTemplate": {"size": 3, "workerTemplate": template, **spec},
    }
    annotations = {"scheduling.volcano.sh/queue-name": f"sets-{rig.namespace}"}
    return manifest(rig, LEADER_WORKER_SETS, name, whole, annotations=annotations)


async def groups_of(rig: Rig) -> dict[str, Object]:
    """The pod groups of the rig's namespace, by name."""
    found = await rig.api.items(POD_GROUPS.collection_path(rig.namespace))
    return {one["metadata"]["name"]: one for one in found}


async def until_groups(rig: Rig, are_so: Callable[[dict[str, Object]], bool]) -> dict[str, Object]:
    """The pod groups, as soon as they are so."""
    found: dict[str, Object] = {}
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not are_so(found := await groups_of(rig)):  # noqa: ASYNC110 - only the server knows when
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"the pod groups never became so: {found}") from None
    return found


async def lose(rig: Rig, pod: Object) -> None:
    """Delete a pod, as a drained node or a user does."""
    path = PODS.object_path(pod["metadata"]["name"], rig.namespace)
    (await rig.api.delete(path)).expect(200, 202)


async def finish(rig: Rig, pods: Pods) -> None:
    """Let pods end well."""
    for one in pods:
        path = PODS.object_path(one["metadata"]["name"], rig.namespace)
        (await rig.api.patch(path, {"metadata": {"annotations": {FINISH: "Succeeded"}}})).expect(
            200
        )


def replaced(count: int, lost: Object) -> Callable[[Pods], bool]:
    """So many pods run, and the lost one is not among them."""
    uid = lost["metadata"]["uid"]

    def are_so(found: Pods) -> bool:
        return (
            len(found) == count
            and all(is_running(one) for one in found)
            and all(one["metadata"]["uid"] != uid for one in found)
        )

    return are_so


async def test_a_leader_worker_set_starts_loses_a_pod_and_recovers_within_a_full_quota(
    rig: Rig,
) -> None:
    await rig.add_nodes(2)
    daemon = await rig.started()
    await rig.queue(f"sets-{rig.namespace}", gpus=12)
    async with beside(rig, LEADER_WORKER_SET):
        await rig.api.create(
            LEADER_WORKER_SETS,
            leader_worker_set(rig, "serve", restartPolicy="None"),
        )
        running = await rig.until_running(6)
        groups = await until_groups(
            rig, lambda found: {one["status"].get("phase") for one in found.values()} == {"Running"}
        )
        assert sorted(one["spec"]["minMember"] for one in groups.values()) == [3, 3]
        worker = next(
            one
            for one in running
            if one["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/worker-index"] == "1"
        )
        await lose(rig, worker)
        await rig.until(replaced(6, worker))
        await rig.api.delete(LEADER_WORKER_SETS.object_path("serve", rig.namespace))
        await rig.until(lambda found: not found)
        await until_groups(rig, lambda found: not found)
    verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (7, {})


async def test_a_leader_worker_set_that_restarts_whole_and_one_whose_workers_wait_for_the_leader(
    rig: Rig,
) -> None:
    await rig.add_nodes(2)
    daemon = await rig.started()
    await rig.queue(f"sets-{rig.namespace}", gpus=12)
    async with beside(rig, LEADER_WORKER_SET):
        whole = leader_worker_set(rig, "whole", restartPolicy="RecreateGroupOnPodRestart")
        whole["spec"]["replicas"] = 1
        led = leader_worker_set(rig, "led", restartPolicy="None")
        led["spec"] |= {"replicas": 1, "startupPolicy": "LeaderReady"}
        await rig.api.create(LEADER_WORKER_SETS, whole)
        await rig.api.create(LEADER_WORKER_SETS, led)
        running = await rig.until_running(6)
        groups = await groups_of(rig)
        least = {name.partition("-")[0]: one["spec"]["minMember"] for name, one in groups.items()}
        assert least == {"whole": 3, "led": 1}
        worker = next(one for one in running if one["metadata"]["name"].startswith("whole-0-1"))
        await lose(rig, worker)
        gone = {
            one["metadata"]["uid"]
            for one in running
            if one["metadata"]["labels"][MEMBER] == "whole"
        }

        def is_whole_again(found: Pods) -> bool:
            return (
                len(found) == 6
                and all(is_running(one) for one in found)
                and gone.isdisjoint(one["metadata"]["uid"] for one in found)
            )

        await rig.until(is_whole_again)
    verdict = await rig.judged(daemon)
    assert verdict.refused == {}


async def test_a_job_set_starts_loses_a_pod_recovers_and_completes(rig: Rig) -> None:
    await rig.add_nodes(2)
    daemon = await rig.started()
    queue = f"sets-{rig.namespace}"
    await rig.queue(queue, gpus=8)
    await rig.group("train", least=4, queue=queue)

    def replicated(name: str, pods: int) -> Object:
        metadata = {
            "annotations": {
                "scheduling.k8s.io/group-name": "train",
                "volcano.sh/card.name": "NVIDIA-H200",
            }
        }
        template = {
            "metadata": metadata,
            "spec": rig.spec(2, product=GPU, restartPolicy="Never"),
        }
        job = {"parallelism": pods, "completions": pods, "backoffLimit": 6, "template": template}
        return {"name": name, "replicas": 1, "template": {"spec": job}}

    async with beside(rig, JOB_SET):
        spec = {"replicatedJobs": [replicated("leader", 1), replicated("workers", 3)]}
        await rig.api.create(JOB_SETS, manifest(rig, JOB_SETS, "train", spec))
        running = await rig.until_running(4)
        worker = next(one for one in running if "workers" in one["metadata"]["name"])
        await lose(rig, worker)
        running = await rig.until(replaced(4, worker))
        await finish(rig, running)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                path = JOB_SETS.object_path("train", rig.namespace)
                found = (await rig.api.get(path)).expect(200)
                if found.get("status", {}).get("terminalState") == "Completed":
                    break
                await asyncio.sleep(POLL_SECONDS)
        await until_groups(rig, lambda found: found["train"]["status"]["phase"] == "Completed")
    verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (5, {})


async def test_jobs_and_gated_pods_that_kueue_admits(rig: Rig) -> None:
    await rig.add_nodes(2)
    daemon = await rig.started()
    name = f"cards-{rig.namespace}"
    async with beside(rig, KUEUE):
        flavor = manifest(rig, FLAVORS, name, {})
        await rig.api.create(FLAVORS, flavor)
        quota = [
            {"name": resource, "nominalQuota": amount}
            for resource, amount in (("cpu", "64"), ("memory", "64Gi"), (GPU, "8"))
        ]
        covered = {
            "coveredResources": [one["name"] for one in quota],
            "flavors": [{"name": name, "resources": quota}],
        }
        spec = {"namespaceSelector": {}, "resourceGroups": [covered]}
        await rig.api.create(CLUSTER_QUEUES, manifest(rig, CLUSTER_QUEUES, name, spec))
        await rig.api.create(
            LOCAL_QUEUES, manifest(rig, LOCAL_QUEUES, "team", {"clusterQueue": name})
        )
        for one in ("first", "second"):
            await rig.api.create(JOB.resource, kueue_job(rig, one))
            await rig.until(lambda found: len(found) >= 4, "first")
        running = await rig.until_running(4, "first")
        assert not await rig.pods("second"), "Kueue holds the second job back"
        await lose(rig, running[0])
        running = await rig.until(replaced(4, running[0]), "first")
        await finish(rig, running)
        running = await rig.until_running(4, "second")
        await finish(rig, running)
        # A pod group of Kueue's own: three pods behind its gate until all are there.
        for index in range(3):
            metadata: Object = {
                "labels": {
                    "app": "gated",
                    "kueue.x-k8s.io/queue-name": "team",
                    "kueue.x-k8s.io/pod-group-name": "gated",
                },
                "annotations": {
                    "kueue.x-k8s.io/pod-group-total-count": "3",
                    "volcano.sh/card.name": "NVIDIA-H200",
                },
            }
            pod = {"spec": rig.spec(2, product=GPU, restartPolicy="Never"), "apiVersion": "v1"}
            pod |= {"kind": "Pod", "metadata": metadata}
            metadata |= {"name": f"gated-{index}", "namespace": rig.namespace}
            await rig.api.create(PODS, pod)
        running = await rig.until_running(3, "gated")
        assert all(node_of(one) for one in running)
        await finish(rig, running)
    verdict = await rig.judged(daemon)
    assert verdict.refused == {}
    assert verdict.bound == 4 + 1 + 4 + 3


def kueue_job(rig: Rig, name: str) -> Object:
    """A Job of four pods with two cards each, which takes the whole quota of Kueue's queue."""
    template = {
        "metadata": {
            "labels": {"app": name},
            "annotations": {"volcano.sh/card.name": "NVIDIA-H200"},
        },
        "spec": rig.spec(2, product=GPU, restartPolicy="Never"),
    }
    spec = {"parallelism": 4, "completions": 4, "suspend": True, "template": template}
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    return manifest(rig, JOB.resource, name, spec, labels=labels)
