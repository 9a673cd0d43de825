"""What a tenant does to others with rights in its own namespaces: one attack for each way that was found."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from msgspec import Struct, field

from projections.api_resource import Resource
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from tests.control_plane.api import MERGE, Object
from tests.control_plane.manifests import CARD, GPU
from tests.e2e.attacks import concurrently
from tests.e2e.device_plugin import REAL, DevicePlugins
from tests.e2e.hostile_tenant import STATUS, Tenant, grant
from tests.e2e.neighbour import (
    ACCELERATOR,
    CHIP,
    FORMS,
    QUEUE_NAME,
    SHARING,
    YIELDING,
    Form,
    Neighbour,
)
from tests.e2e.rig import POOL, Rig, is_running, node_of
from tests.e2e.tenant_policies import Policy, queue

NODES_COUNT: Final = 3
"""Nodes for all; there are two more, one that shares its GPUs and one of Ascend chips."""
CHIPS: Final = 8
MISFIT_CPU: Final = "40"
RACING_CPU: Final = "50"
PLUGIN_SECONDS: Final = 0.5
"""Between two reports of a device plugin."""
TIMEOUT: Final = "87600h"
PATIENCE_SECONDS: Final = 60.0
WRITE_SECONDS_MAX: Final = 10.0
"""How long the neighbour's pod may be without the reason why it waits."""
HANDSHAKES: Final = 2_000
HANDSHAKE: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The first bytes of a TLS ClientHello."""
LARGE_PODS: Final = 8
HALF: Final = "half"
"""The label of nodes that says whose preemptions happen there."""
HOPELESS: Final = "hopeless"
KEPT: Final = "kept"
BUDGETS: Final = Resource("PodDisruptionBudget", "poddisruptionbudgets", "policy")


class Scene(Struct, kw_only=True):
    """What an attack has in hand."""

    rig: Rig
    policy: Policy
    tenant: Tenant
    neighbour: Neighbour
    plugins: DevicePlugins
    own_queue: str
    """The queue of the attacker."""
    plain: list[str] = field(default_factory=list)
    """Names of the nodes for all."""
    sharing: str = ""
    ascend: str = ""
    tenants_port: int = 0
    """Where the daemon answers questions of tenants."""
    queues: list[str] = field(default_factory=list)
    """Queues to delete."""
    notes: list[str] = field(default_factory=list)
    """Figures to print."""
    faults: list[str] = field(default_factory=list)
    """What the attack reached, and must not."""

    @property
    def own(self) -> dict[str, str]:
        """The annotations of a pod in the attacker's queue."""
        return {QUEUE_NAME: self.own_queue}


class Attack(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    begin: Callable[[Scene], Awaitable[None]]
    """Makes the attack, and returns when canaries have seen enough of it."""
    settings: dict[str, Any] = {}
    """Of the daemon."""
    creation_timeout: str = ""
    """For how long admitted groups without pods keep their reservation; empty for the default."""
    forms: tuple[str, ...] = ()
    """The canaries meanwhile; empty for all."""
    has_reports: bool = True
    """Whether device plugins report which chips are free: without, pods alone say which are taken."""
    is_bounded: bool = False
    """Whether the policy says which namespaces may use the two queues."""
    policies: tuple[str, ...] = ()
    """Names of the policies to which it can do something; empty for all."""

    def is_for(self, policy: Policy) -> bool:
        """Whether it can do something under a policy."""
        return not self.policies or policy.name in self.policies


def rejecting(scene: Scene, reason: str, label: str) -> None:
    """Let kubelets reject the attacker's pods of a workload, for a reason of their own."""

    def verdict(pod: Object) -> str:
        metadata = pod["metadata"]
        is_his = metadata["namespace"] in scene.tenant.namespaces
        return reason if is_his and metadata.get("labels", {}).get("app") == label else ""

    scene.rig.kubelet.verdict = verdict


async def misfits(scene: Scene) -> None:
    """Deployments of four pods in each namespace of the tenant that no kubelet admits (`TopologyAffinityError`)."""
    rejecting(scene, "TopologyAffinityError", "numa")
    requests = {"cpu": MISFIT_CPU, "memory": "1Gi"}
    for namespace in scene.tenant.namespaces:
        answer = await scene.tenant.deployment(
            "numa", 4, requests, namespace=namespace, annotations=scene.own
        )
        answer.expect(201)
    await asyncio.sleep(20.0)
    scene.notes.append(f"{len(scene.rig.kubelet.rejected)} pods were rejected")


async def racing_pods(scene: Scene) -> None:
    """Pods with a node of their own choice, which race those of a Deployment into the same CPU (`OutOfcpu`)."""
    tenant = scene.tenant
    await tenant.deployment("raced", 6, {"cpu": RACING_CPU}, annotations=scene.own)
    for turn in range(40):
        names: list[str] = []
        for index, node in enumerate(scene.plain):
            namespace = tenant.namespaces[turn % len(tenant.namespaces)]
            name = f"racing-{turn}-{index}"
            await tenant.pod(name, {"cpu": RACING_CPU}, namespace=namespace, nodeName=node)
            names.append(PODS.object_path(name, namespace))
        await asyncio.sleep(0.2)
        for path in names:
            await tenant.api.delete(path, {"gracePeriodSeconds": 0})
        path = PODS.collection_path(tenant.home)
        await tenant.api.ask(
            "DELETE", path, {"gracePeriodSeconds": 0}, {"labelSelector": "app=raced"}
        )
        await asyncio.sleep(0.3)
    scene.notes.append(f"{len(scene.rig.kubelet.rejected)} pods were rejected")


async def rejections_for_ever(scene: Scene) -> None:
    """A pod whose device plugin is broken (`UnexpectedAdmissionError`) on every node, replaced by its Deployment."""
    rejecting(scene, "UnexpectedAdmissionError", "broken")
    requests = {"cpu": "1", GPU: "1"}
    (await scene.tenant.deployment("broken", 1, requests, annotations=scene.own)).expect(201)
    nodes = len(scene.plain) + 2
    await asyncio.sleep(75.0)
    count = len(scene.rig.kubelet.rejected)
    scene.notes.append(f"{count} pods were rejected in 75 s by {nodes} nodes")
    # At once and after 30 s; then the pause has doubled.
    if count > 2 * nodes:
        scene.faults.append(f"{count} rejections by {nodes} nodes: the pause does not double")


async def late_annotations(scene: Scene) -> None:
    """CPU pods on the node with shared GPUs that state shares of them once they run."""
    tenant = scene.tenant
    share = {POOL: scene.rig.namespace, SHARING: "true"}
    for index in range(8):
        answer = await tenant.pod(
            f"thief-{index}", {"cpu": "100m"}, annotations=scene.own, nodeSelector=share
        )
        answer.expect(201)
    await until_running(scene, "thief-", 8)
    keys: list[dict[str, str]] = [
        {"alibabacloud.com/gpu-milli": "1"},
        {"alibabacloud.com/gpu-milli": "1000", "alibabacloud.com/gpu-index": "0-1-2-3-4-5-6-7"},
        {"gpu-fraction": "0.5"},
        {"gpu-memory": "2000"},
        {"alibabacloud.com/gpu-index": "0"},
        {"hami.io/vgpu-devices-allocated": "gpu-0,NVIDIA,80000,100:;"},
        {"hami.io/bind-phase": "allocating", "hami.io/vgpu-node": scene.sharing},
        {"alibabacloud.com/gpu-milli": "many"},
    ]
    for index, annotations in enumerate(keys):
        path = PODS.object_path(f"thief-{index}", tenant.home)
        await tenant.patch(path, {"metadata": {"annotations": annotations}})
        await asyncio.sleep(1.0)
    await asyncio.sleep(4.0)


async def empty_groups(scene: Scene) -> None:
    """PodGroups without pods that ask for all of the neighbour's queue, and of the attacker's own."""
    whole = {"cpu": "128", "memory": "512Gi", GPU: "16", CARD: "4"}
    for index in range(6):
        queue = scene.own_queue if index % 2 else scene.neighbour.queue
        await scene.tenant.group(f"nothing-{index}", queue=queue, minResources=whole)
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "none",
        "uid": "00000000-0000-0000-0000-000000000001",
        "controller": True,
    }
    for index in range(6):
        queue = scene.own_queue if index % 2 else scene.neighbour.queue
        spec = {"minMember": 1, "queue": queue, "minResources": whole}
        made = scene.tenant.manifest(POD_GROUPS, f"owned-{index}", spec)
        made["metadata"]["ownerReferences"] = [owner]
        await scene.tenant.create(POD_GROUPS, made)
    for index in range(24):
        await group_of_neighbour(scene, f"grouped-{index}")
        await asyncio.sleep(0.5)
        if index >= 6:
            # The job is over.
            name = f"grouped-{index - 6}"
            await scene.rig.api.delete(POD_GROUPS.object_path(name, scene.rig.namespace))


async def group_of_neighbour(scene: Scene, name: str) -> None:
    """A canary that asks for a GPU by a PodGroup of its own."""
    metadata = {"name": name, "namespace": scene.rig.namespace}
    least = {"cpu": "100m", GPU: "1"}
    group = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": metadata,
        "spec": {"minMember": 1, "queue": scene.neighbour.queue, "minResources": least},
    }
    await scene.rig.api.create(POD_GROUPS, group)
    annotations = {"scheduling.k8s.io/group-name": name}
    form = Form("gpu", FORMS[1].requests, annotations)
    await scene.neighbour.create(name, form)


async def privileged_keys(scene: Scene) -> None:
    """Gangs larger than what is free, and pods that fill the cluster, with every key that could put them before others."""
    tenant, rig = scene.tenant, scene.rig
    keys: dict[str, str] = {
        "muster.sh/submitted-at": "2000-01-01T00:00:00Z",
        "muster.sh/queue-position": "-1",
        "muster.sh/priority": "99",
        "muster.sh/preemption-timeout": TIMEOUT,
        "muster.sh/preemptible": "false",
        "muster.sh/weight": "1000000",
    }
    for index, (target, annotations) in enumerate(
        [
            (scene.own_queue, keys),
            (scene.own_queue, {"muster.sh/queue-position": "-1"}),
            (scene.own_queue, {"muster.sh/submitted-at": "2000-01-01T00:00:00Z"}),
            (scene.own_queue, {"muster.sh/priority": "99"}),
            (scene.neighbour.queue, keys),
        ]
    ):
        name = f"pushing-{index}"
        spec: Object = {"minMember": 36, "queue": target, "minResources": {GPU: "36"}}
        if index % 2:
            spec["priorityClassName"] = priority_class(rig)
        made = tenant.manifest(POD_GROUPS, name, spec, annotations=annotations)
        made["status"] = {"phase": "Inqueue"}
        await tenant.create(POD_GROUPS, made)
        member = {
            "scheduling.k8s.io/group-name": name,
            "volcano.sh/preemptable": "false",
            **annotations,
        }
        await concurrently(
            tenant.pod(f"{name}-{one}", {"cpu": "100m", GPU: "1"}, annotations=member)
            for one in range(36)
        )
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "all", "namespace": tenant.home},
        "spec": {"maxUnavailable": 0, "selector": {}},
    }
    await tenant.create(BUDGETS, budget)
    await asyncio.sleep(15.0)


async def chips_denied(scene: Scene) -> None:
    """A pod that has four chips states others, fewer and none of them, while the neighbour holds the other four and waits for more."""
    tenant, neighbour = scene.tenant, scene.neighbour
    nodes = {POOL: scene.rig.namespace, ACCELERATOR: "huawei-Ascend910"}
    requests = {"cpu": "100m", CARD: "4"}
    answer = await tenant.pod("liar", requests, annotations=scene.own, nodeSelector=nodes)
    answer.expect(201)
    await until_running(scene, "liar", 1)
    # One of the other four is held by the neighbour's steady pod.
    kept = [f"{KEPT}-{index}" for index in range(CHIPS - 4 - 1)]
    for name in kept:
        await scene.rig.api.create(PODS, neighbour.manifest(name, CHIP))
    await scene.rig.until(lambda found: are_running(found, kept))
    path = PODS.object_path("liar", tenant.home)
    before = (await scene.rig.api.get(path)).expect(200)["metadata"]["annotations"]
    scene.notes.append(f"it has {before[REAL]}")
    chips = {f"Ascend910-{one}" for one in range(CHIPS)}
    patient = [f"patient-{index}" for index in range(3)]
    for name in patient:
        await scene.rig.api.create(PODS, neighbour.manifest(name, CHIP))
    changes: list[dict[str, str | None]] = [
        {REAL: ",".join(sorted(chips - set(before[REAL].split(","))))},
        {REAL: "Ascend910-7"},
        {REAL: ""},
        {REAL: None},
        {REAL: ",".join(sorted(chips))},
        {REAL: None, CARD: "Ascend910-7"},
        {REAL: None, CARD: None, "predicate-time": None},
    ]
    for change in changes:
        await tenant.patch(path, {"metadata": {"annotations": change}})
        await asyncio.sleep(2.5)
    waiting = [one for one in await scene.rig.pods() if one["metadata"]["name"] in patient]
    early = [one["metadata"]["name"] for one in waiting if node_of(one)]
    if early or len(waiting) < len(patient):
        scene.faults.append(
            f"{early} were bound while no chip was free: {scene.rig.shown(waiting)[:1000]}"
        )
    # They get the chips that are free, as soon as there are some.
    for name in kept:
        neighbour.removes(name)
        path = PODS.object_path(name, scene.rig.namespace)
        await scene.rig.api.delete(path, {"gracePeriodSeconds": 0})
    begun = asyncio.get_running_loop().time()
    await scene.rig.until(lambda found: are_running(found, patient))
    waited = asyncio.get_running_loop().time() - begun
    scene.notes.append(f"the neighbour's pods ran {waited:.1f} s after others were gone")


async def stalled_handshakes(scene: Scene) -> None:
    """TLS handshakes that begin and do not end, at the port for questions of tenants, from many addresses."""
    async with AsyncExitStack() as stack:

        async def stall(index: int) -> None:
            source = (f"127.0.{index % 200 + 1}.2", 0)
            try:
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", scene.tenants_port, local_addr=source
                )
            except OSError:
                return  # The daemon may refuse it.
            stack.callback(writer.close)
            writer.write(HANDSHAKE)

        await concurrently(stall(index) for index in range(HANDSHAKES))
        await asyncio.sleep(10.0)


async def preemptions(scene: Scene) -> None:
    """More preemptions in the attacker's queue than the cluster allows in a minute, beside some in the neighbour's queue."""
    tenant, rig, neighbour = scene.tenant, scene.rig, scene.neighbour
    small = {"cpu": "2"}
    for index, node in enumerate(scene.plain):
        half = {"metadata": {"labels": {HALF: "hers" if index == 0 else "his"}}}
        (await rig.api.patch(NODES.object_path(node), half)).expect(200)
    his = {POOL: rig.namespace, HALF: "his"}
    await concurrently(
        tenant.pod(f"low-{one}", small, annotations=scene.own, nodeSelector=his)
        for one in range(60)
    )
    await until_running(scene, "low-", 60)
    yielding = Form("yielding", {"cpu": "3"}, {}, {HALF: "hers"})
    for one in range(20):
        manifest = neighbour.manifest(f"{YIELDING}-{one}", yielding)
        await rig.api.create(PODS, manifest)
    await rig.until(lambda found: sum(map(is_yielding, found)) == 20)
    urgent: dict[str, Any] = {"priorityClassName": priority_class(rig)}
    await concurrently(
        tenant.pod(f"high-{one}", small, annotations=scene.own, nodeSelector=his, **urgent)
        for one in range(60)
    )
    form = Form("urgent", {"cpu": "8"}, {}, {HALF: "hers"})
    for one in range(4):
        await neighbour.create(f"urgent-{one}", form, **urgent)
        await asyncio.sleep(3.0)


async def hopeless_pods(scene: Scene) -> None:
    """Pods that fit no node, created and deleted as fast as the API server takes them: each asks for a status write."""
    tenant = scene.tenant
    for turn in range(6):
        await concurrently(
            tenant.pod(f"hopeless-{turn}-{one}", {"cpu": f"{1000 + one}"}, annotations=scene.own)
            for one in range(200)
        )
        path = PODS.collection_path(tenant.home)
        await tenant.api.delete(path, {"gracePeriodSeconds": 0})
    # The neighbour has one, too: its owner wants to know why.
    form = Form("none", {"cpu": "100"})
    await scene.rig.api.create(PODS, scene.neighbour.manifest(HOPELESS, form))
    path = PODS.object_path(HOPELESS, scene.rig.namespace)
    begun = asyncio.get_running_loop().time()
    while True:
        status = (await scene.rig.api.get(path)).expect(200)["status"]
        waited = asyncio.get_running_loop().time() - begun
        if any(one["type"] == "PodScheduled" for one in status.get("conditions", [])):
            break
        if waited > WRITE_SECONDS_MAX:
            scene.faults.append(f"no condition on a pod of the neighbour after {waited:.0f} s")
            break
        await asyncio.sleep(0.1)
    scene.notes.append(f"the neighbour's pod had its condition after {waited:.1f} s")
    scene.neighbour.removes(HOPELESS)
    await scene.rig.api.delete(path, {"gracePeriodSeconds": 0})


async def large_guarantee(scene: Scene) -> None:
    """A queue whose guarantee is above the cluster: only an operator can make it, by accident."""
    manifest = queue(f"{scene.rig.namespace}-typo")
    manifest["spec"] = {
        "weight": 1,
        "guarantee": {"resource": {"cpu": "100000", "memory": "900Ti", GPU: "4000", CARD: "4000"}},
    }
    await scene.rig.api.create(QUEUES, manifest)
    scene.queues.append(manifest["metadata"]["name"])
    await asyncio.sleep(8.0)


async def large_statuses(scene: Scene) -> None:
    """Pods with 1,000 conditions that fit no node, written again and again by a tenant with the right to write statuses."""
    tenant = scene.tenant
    await grant(scene.rig, STATUS, tenant.name, tenant.namespaces)
    await concurrently(
        tenant.pod(f"large-{one}", {"cpu": f"{1000 + one}"}, annotations=scene.own)
        for one in range(LARGE_PODS)
    )
    # One at a time: each costs the API server seconds, and it shall answer the others.
    for turn in range(3):
        for one in range(LARGE_PODS):
            conditions = [
                {
                    "type": f"example.com/condition-{turn}-{number}",
                    "status": "False",
                    "message": "m" * 200,
                }
                for number in range(1_000)
            ]
            path = PODS.object_path(f"large-{one}", tenant.home, "status")
            await tenant.patch(path, {"status": {"conditions": conditions}}, MERGE)
    await asyncio.sleep(8.0)


async def hoarding(scene: Scene) -> None:
    """Every GPU is held, above what the queue deserves, by pods that state that they may not be evicted."""
    tenant = scene.tenant
    protected = {
        **scene.own,
        "volcano.sh/preemptable": "false",
        "muster.sh/preemptible": "false",
        "muster.sh/preemption-timeout": TIMEOUT,
        "muster.sh/weight": "1000000",
    }
    requests = {"cpu": "100m", GPU: "1"}
    (await tenant.deployment("hoard", 48, requests, annotations=protected)).expect(201)
    await asyncio.sleep(16.0)
    held = await scene.rig.api.items(PODS.collection_path(tenant.home))
    scene.notes.append(f"it holds {sum(map(is_running, held))} GPUs at the end")


async def until_running(scene: Scene, prefix: str, count: int) -> None:
    """Until so many pods of the attacker run."""
    path = PODS.collection_path(scene.tenant.home)
    found: list[Object] = []
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = await scene.rig.api.items(path)
                there = [one for one in found if one["metadata"]["name"].startswith(prefix)]
                if sum(map(is_running, there)) == count:
                    return
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"the attack never began: {scene.rig.shown(found)}") from None


def are_running(pods: list[Object], names: list[str]) -> bool:
    """Whether all pods of these names run."""
    return {one["metadata"]["name"] for one in pods if is_running(one)} >= set(names)


def is_yielding(pod: Object) -> bool:
    """Whether it is a pod of the neighbour that runs and that her own urgent pods may evict."""
    return pod["metadata"]["name"].startswith(YIELDING) and is_running(pod)


def priority_class(rig: Rig) -> str:
    """The name of the class that tenants may use for what is urgent."""
    return f"{rig.namespace}-urgent"


SESSION: Final = ("",)
ATTACKS: Final = (
    Attack(name="misfits", begin=misfits),
    Attack(name="racing pods", begin=racing_pods),
    Attack(name="rejections for ever", begin=rejections_for_ever),
    Attack(name="late annotations", begin=late_annotations),
    Attack(name="empty groups", begin=empty_groups, creation_timeout="1s"),
    Attack(name="privileged keys", begin=privileged_keys, is_bounded=True),
    Attack(
        name="hoarding",
        begin=hoarding,
        # Nothing is reclaimed for shares of GPUs: no queue deserves any, and they are no slots.
        forms=("cpu", "gpu", "chip"),
        policies=("all", "fair_share"),
    ),
    Attack(
        name="chips denied", begin=chips_denied, has_reports=False, forms=("cpu", "gpu", "share")
    ),
    Attack(name="stalled handshakes", begin=stalled_handshakes),
    Attack(
        name="preemptions",
        begin=preemptions,
        settings={"evictions_per_minute": 60},
        policies=("all", "hierarchical drf", "capacity-card"),
    ),
    Attack(name="hopeless pods", begin=hopeless_pods),
    Attack(name="large guarantee", begin=large_guarantee),
    Attack(name="large statuses", begin=large_statuses),
)
