"""The simulated API server shows people what a real one shows them for the same objects."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from daemon.cluster.server.simulated_api_server import running_server
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from simulator.scenario import Scenario
from tests.control_plane.api import Api, Object
from tests.control_plane.cluster import Cluster
from tests.control_plane.kubectl import Kubectl, needs_kubectl, rows_of
from tests.control_plane.kubelet import FINISH, Kubelet
from tests.control_plane.manifests import binding, node, pod
from tests.control_plane.setup import NAMESPACES

pytestmark = pytest.mark.apiserver

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io"
SETTLE_SECONDS: Final = 30.0
POLL_SECONDS: Final = 0.1

OBJECTS: Final = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: printed}
value: 7
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1", b: "2"}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: printed, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: printed.example
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: printed.example}
spec: {attachRequired: false, podInfoOnMount: true}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: printed}
spec:
  capacity: {storage: 5Gi}
  accessModes: [ReadWriteMany, ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: ""
  claimRef: {namespace: printing, name: bound}
  csi: {driver: printed.example, volumeHandle: h}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: bound}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", volumeName: printed, resources: {requests: {storage: 5Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: waits}
spec: {accessModes: [ReadWriteOnce], storageClassName: printed, resources: {requests: {storage: 1Gi}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 50%, selector: {matchLabels: {app: web}}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: printed}
spec: {weight: 3, parent: root}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train}
spec: {minMember: 4, queue: printed}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: muster
      containers: [{name: main, image: "registry.example/web:1"}, {name: side, image: "registry.example/side:1"}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  completions: 1
  parallelism: 1
  template:
    spec:
      schedulerName: muster
      restartPolicy: Never
      containers: [{name: main, image: "registry.example/once:1"}]
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: leader}
spec: {holderIdentity: one}
"""
EVENT: Final = {
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reason": "Insufficient",
    "note": "no node has a free card",
    "type": "Warning",
    "action": "Scheduling",
    "reportingController": "muster.sh/scheduler",
    "reportingInstance": "m-0",
}
SHOWN: Final = (
    *("pods", "nodes printed", "deployments", "replicasets", "jobs.batch", "configmaps settings"),
    *(
        "pdb",
        "priorityclasses printed",
        "pvc",
        "pv printed",
        "sc printed",
        "csidrivers printed.example",
        "queues printed",
        "podgroups",
        "leases",
        "ns printing",
    ),
    "events --field-selector reason=Insufficient",
)


class Shown:
    """One of the servers, with the same objects."""

    def __init__(self, api: Api, kubectl: Kubectl) -> None:
        self.api = api
        self.kubectl = kubectl

    async def fill(self) -> None:
        """Create the objects, bind what shall run, and wait until it does."""
        meta = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "printing"}}
        await self.api.create(NAMESPACES, meta)
        await self.kubectl("apply --validate=false -n printing -f -", OBJECTS)
        done = pod("printing", "done")
        # Both kubelets: the one of the tests, and the simulated one.
        done["metadata"]["annotations"] = {FINISH: "Succeeded", "muster.sh/run-seconds": "0"}
        for manifest in (pod("printing", "runs"), pod("printing", "waits"), done):
            await self.api.create(PODS, manifest)
        waits = (await self.api.get(PODS.object_path("waits", "printing"))).expect(200)
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": "printing", "name": "waits"}
        event = EVENT | {
            "metadata": {"name": "waits.1", "namespace": "printing"},
            "regarding": about | {"uid": waits["metadata"]["uid"]},
        }
        (await self.api.post("/apis/events.k8s.io/v1/namespaces/printing/events", event)).expect(
            201
        )
        async with asyncio.timeout(SETTLE_SECONDS):
            while True:
                if await self._is_settled():
                    return
                await asyncio.sleep(POLL_SECONDS)

    async def _is_settled(self) -> bool:
        pods = await self.api.items(PODS.collection_path("printing"))
        for one in pods:
            if one["metadata"]["name"] != "waits" and not one["spec"].get("nodeName"):
                path = PODS.object_path(one["metadata"]["name"], "printing", "binding")
                (await self.api.post(path, binding(one, "printed"))).expect(201)
        phases = sorted(one["status"]["phase"] for one in pods)
        path = "/apis/apps/v1/namespaces/printing/deployments/web"
        deployment = (await self.api.get(path)).expect(200)
        is_up = deployment["status"].get("availableReplicas") == 2
        budget = (
            await self.api.get("/apis/policy/v1/namespaces/printing/poddisruptionbudgets/web")
        ).expect(200)
        is_counted = budget.get("status", {}).get("disruptionsAllowed") == 1
        path = "/api/v1/namespaces/printing/persistentvolumeclaims/bound"
        is_bound = (await self.api.get(path)).expect(200)["status"]["phase"] == "Bound"
        are_there = phases == ["Pending", *["Running"] * 4, "Succeeded"]
        return are_there and is_up and is_counted and is_bound

    async def table(self, what: str) -> list[str]:
        """What kubectl prints of some objects, without ages, generated names and widths of columns."""
        printed = await self.kubectl(f"get {what} -n printing -o wide")
        header, *rows = rows_of(printed)
        rows = [one for one in rows if one[0] != "kube-root-ca.crt"]
        return [" | ".join(header), *sorted(_plain(" | ".join(row)) for row in rows)]


def _plain(text: str) -> str:
    text = re.sub(r"\b(web|once)-[a-z0-9]+(-[a-z0-9]+)?\b", r"\1-GENERATED", text)
    # Simulated controllers find their pods by owner, and add nothing to a selector.
    text = re.sub(r",pod-template-hash=\w+", "", text)
    text = re.sub(r"batch.kubernetes.io/controller-uid=[-\w]+", "<none>", text)
    return re.sub(r"(?<=\| )(\d+[smhd])+(?= \||$)|^(\d+[smhd])+(?= \|)", "AGE", text)


@asynccontextmanager
async def real(cluster: Cluster, folder: Path) -> AsyncIterator[Shown]:
    """The real server, with its controllers and the tests' kubelet."""
    async with Api.of(cluster.admin) as api:
        kubelet = Kubelet(api)
        await kubelet.add("printed")
        async with kubelet.at_work():
            shown = Shown(api, Kubectl(cluster.admin, folder))
            await shown.fill()
            yield shown


@asynccontextmanager
async def simulated(folder: Path) -> AsyncIterator[Shown]:
    """The simulated server, with its own controllers and kubelets."""
    async with running_server(Scenario(name="printing")) as server:
        kubeconfig = server.kubeconfig(folder / "kubeconfig")
        async with Api.of(kubeconfig) as api:
            await api.create(NODES, node("printed"))
            shown = Shown(api, Kubectl(kubeconfig, folder))
            await shown.fill()
            yield shown


@needs_kubectl
async def test_kubectl_prints_the_same_of_both_servers(
    own_cluster: Cluster, tmp_path: Path
) -> None:
    folders = tmp_path / "real", tmp_path / "simulated"
    for folder in folders:
        folder.mkdir()
    async with real(own_cluster, folders[0]) as one, simulated(folders[1]) as other:
        for what in SHOWN:
            wanted = await one.table(what)
            assert len(wanted) > 1, what
            assert await other.table(what) == wanted, what
        for name in ("runs", "waits", "done"):
            command = f"describe pod {name} -n printing"
            told = [_sections(await each.kubectl(command)) for each in (one, other)]
            assert told[1] == told[0], name
            assert told[0].keys() >= {"Status", "Containers", "QoS Class"}
        for command in (
            "wait -n printing --for=condition=Ready pod/runs --timeout=5s",
            "wait -n printing --for=condition=Available deployment/web --timeout=5s",
            "rollout status -n printing deployment/web --timeout=5s",
            "wait --for=condition=Ready node/printed --timeout=5s",
            "wait --for=condition=Established crd/queues.scheduling.volcano.sh --timeout=5s",
            "get --raw /readyz",
        ):
            assert await other.kubectl(command) == await one.kubectl(command)


def _sections(described: str) -> dict[str, list[str]]:
    """The parts of `kubectl describe pod` on containers, conditions and Events, without times."""
    parts = re.split(r"^(\w[\w -]*):", described, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    time = re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun), .*|\b(\d+[smhd])+\b")
    kept = ("Status", "Containers", "Conditions", "QoS Class", "Events")
    return {
        name: [" ".join(time.sub("TIME", line).split()) for line in found[name].splitlines()]
        for name in kept
        if name in found
    }


async def test_every_kind_that_both_serve_has_the_same_columns_and_short_names(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with running_server(Scenario(name="columns")) as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with Api.of(kubeconfig) as simulated, Api.of(cluster.admin) as real:
            compared = []
            for path, resource in [one async for one in _resources(simulated)]:
                theirs = {one["name"]: one for _, one in [x async for x in _of(real, path)]}
                if resource["name"] not in theirs:
                    continue  # Another version of a definition, or one that only we have.
                wanted = theirs[resource["name"]]
                ours = await _columns(simulated, f"{path}/{resource['name']}")
                assert ours == await _columns(real, f"{path}/{resource['name']}"), resource
                assert resource["kind"] == wanted["kind"]
                assert resource["namespaced"] == wanted["namespaced"]
                if path != "/apis/batch.volcano.sh/v1alpha1":
                    assert resource.get("shortNames") == wanted.get("shortNames"), resource
                    assert resource.get("categories") == wanted.get("categories"), resource
                compared.append(resource["name"])
    assert len(compared) >= 18, compared


async def _resources(api: Api) -> AsyncIterator[tuple[str, Object]]:
    groups = (await api.get("/apis")).expect(200)["groups"]
    versions = [one["groupVersion"] for group in groups for one in group["versions"]]
    for path in ("/api/v1", *(f"/apis/{one}" for one in versions)):
        async for found in _of(api, path):
            yield found


async def _of(api: Api, path: str) -> AsyncIterator[tuple[str, Object]]:
    """The resources of a group that can be listed."""
    answer = await api.get(path)
    for one in answer.object["resources"] if answer.status == 200 else []:
        if "/" not in one["name"] and "list" in one["verbs"]:
            yield path, one


async def _columns(api: Api, path: str) -> list[tuple[object, ...]]:
    found = await api.ask("GET", path, accept=TABLE)
    definitions = found.expect(200)["columnDefinitions"]
    return [
        tuple(one[key] for key in ("name", "type", "format", "priority")) for one in definitions
    ]
