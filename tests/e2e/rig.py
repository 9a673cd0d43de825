"""A cluster with nodes, a kubelet and daemons, in a namespace of the test's own."""

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from daemon.cluster.client.calls import LEASES
from projections.api_resource import Resource
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from projections.kinds.workload import DEPLOYMENT, JOB
from tests.control_plane.api import GONE, Api, Object
from tests.control_plane.cluster import Cluster
from tests.control_plane.kubelet import Kubelet
from tests.control_plane.manifests import GPU, GPU_NAME, pod, pod_spec
from tests.control_plane.setup import NAMESPACE, NAMESPACES
from tests.e2e.daemon import Daemon
from tests.e2e.judge import Verdict, is_settled, judge

LEASE: Final = "muster"
"""The one that muster's role lets it have."""
PATIENCE_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.05
POOL: Final = "muster.test/pool"
"""The label of the test's nodes: its pods go nowhere else, whatever other nodes there are."""
DEDICATED: Final = "muster.sh/dedicated"
PRODUCT: Final = "nvidia.com/gpu.product"

Pods = list[Object]


class Rig:
    """What a test has in hand. `scheduler` is the name by which its pods ask for muster."""

    def __init__(self, cluster: Cluster, api: Api, folder: Path) -> None:
        self.cluster = cluster
        self.api = api
        self.folder = folder
        self.namespace = f"e2e-{secrets.token_hex(3)}"
        self.scheduler = f"muster-{self.namespace}"
        self.kubelet = Kubelet(api)
        self._daemons: list[Daemon] = []
        self._nodes: list[str] = []

    def daemon(
        self,
        kubeconfig: Path | None = None,
        log: str | None = None,
        options: Sequence[str] = (),
        **settings: Any,
    ) -> Daemon:
        """A daemon; it is not started yet. `options` come last on its command line."""
        folder = self.folder / f"daemon-{len(self._daemons)}"
        folder.mkdir()
        given = {
            "scheduler_names": [self.scheduler],
            "lease_name": LEASE,
            "period_seconds": 0.02,
            "snapshot_every": 100,  # Often, so that starts from a snapshot are tried too.
            **settings,
        }
        kubeconfig, log = kubeconfig or self.cluster.muster, log or str(folder / "muster.db")
        made = Daemon(folder, kubeconfig, log, options, **given)
        self._daemons.append(made)
        return made

    async def started(self, kubeconfig: Path | None = None, **settings: Any) -> Daemon:
        """A daemon that leads."""
        made = self.daemon(kubeconfig, **settings)
        await made.start()
        await made.until_ready()
        return made

    async def add_nodes(
        self,
        count: int,
        cards: int = 8,
        prefix: str = "node",
        product: str = GPU_NAME,
        **labels: str,
    ) -> list[str]:
        """Nodes of the test's own, by name."""
        names = [f"{self.namespace}-{prefix}-{index}" for index in range(count)]
        for name in names:
            own = {POOL: self.namespace, DEDICATED: "", PRODUCT: product}
            await self.kubelet.add(name, cards, own | labels)
            self._nodes.append(name)
        return names

    def spec(self, cards: int = 1, **spec: Any) -> Object:
        """The spec of a pod that asks for muster and for the test's nodes."""
        ours = {"schedulerName": self.scheduler, "nodeSelector": {POOL: self.namespace}}
        return pod_spec(cards=cards, **(ours | spec))

    async def pod(self, name: str, cards: int = 1, group: str | None = None, **spec: Any) -> Object:
        """A pod, alone or in a pod group."""
        manifest = {**pod(self.namespace, name), "spec": self.spec(cards, **spec)}
        manifest["metadata"]["annotations"] = grouped(group)
        return await self.api.create(PODS, manifest)

    async def group(self, name: str, least: int, queue: str = "default") -> Object:
        """A pod group that starts whole or not at all."""
        spec = {"minMember": least, "queue": queue}
        return await self.api.create(POD_GROUPS, self._manifest(POD_GROUPS, name, spec))

    async def queue(self, name: str, gpus: int) -> Object:
        """A queue that may hold so many cards of the product `GPU_NAME`."""
        spec = {"weight": 1, "capability": {"cpu": "64", "memory": "256Gi"}}
        manifest = self._manifest(QUEUES, name, spec)
        quota = json.dumps({GPU_NAME: gpus})
        manifest["metadata"]["annotations"] = {"volcano.sh/card.quota": quota}
        return await self.api.create(QUEUES, manifest)

    async def job(self, name: str, pods: int, group: str | None = None, **spec: Any) -> Object:
        """A Job that runs all its pods at a time."""
        card = {"volcano.sh/card.name": GPU_NAME} if spec.get("product") == GPU else {}
        template = {
            "metadata": {"annotations": grouped(group) | card, "labels": {"app": name}},
            "spec": self.spec(restartPolicy="Never", **spec),
        }
        wanted = {"parallelism": pods, "completions": pods, "template": template}
        return await self.api.create(JOB.resource, self._manifest(JOB.resource, name, wanted))

    async def deployment(
        self,
        name: str,
        pods: int,
        cards: int = 1,
        annotations: dict[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        """A Deployment. `annotations` are those of its pods."""
        labels = {"app": name}
        metadata = {"labels": labels, "annotations": annotations or {}}
        template = {"metadata": metadata, "spec": self.spec(cards, **spec)}
        spec = {"replicas": pods, "selector": {"matchLabels": labels}, "template": template}
        return await self.api.create(
            DEPLOYMENT.resource, self._manifest(DEPLOYMENT.resource, name, spec)
        )

    async def scale(self, name: str, pods: int) -> None:
        """Change how many pods a Deployment has."""
        path = DEPLOYMENT.resource.object_path(name, self.namespace)
        (await self.api.patch(path, {"spec": {"replicas": pods}})).expect(200)

    async def cordon(self, nodes: list[str], *, is_closed: bool = True) -> None:
        """Close nodes to new pods, or open them again."""
        for name in nodes:
            patch = {"spec": {"unschedulable": is_closed}}
            (await self.api.patch(NODES.object_path(name), patch)).expect(200)

    async def pods(self, app: str = "") -> Pods:
        """The test's pods, or those of one workload."""
        selector = {"labelSelector": f"app={app}"} if app else {}
        return await self.api.items(PODS.collection_path(self.namespace), **selector)

    async def until(
        self, are_so: Callable[[Pods], bool], app: str = "", seconds: float = PATIENCE_SECONDS
    ) -> Pods:
        """The test's pods, as soon as they are so."""
        found: Pods = []
        try:
            async with asyncio.timeout(seconds):
                while True:
                    with contextlib.suppress(*GONE):
                        found = await self.pods(app)
                        if are_so(found):
                            return found
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"the pods never became so: {self.shown(found)}") from None

    def shown(self, pods: Pods) -> str:
        """Pods with phase and node, and the last that each daemon wrote to stderr, for the message of a failure."""
        lines = [(one["metadata"]["name"], phase_of(one), node_of(one)) for one in pods]
        return f"{lines}\n{[one.told[-2_000:] for one in self._daemons]}"

    async def until_running(self, count: int, app: str = "") -> Pods:
        """Until so many pods run, and there are no others."""

        def are_running(found: Pods) -> bool:
            return len(found) == count and all(is_running(one) for one in found)

        return await self.until(are_running, app)

    async def judged(self, *daemons: Daemon) -> Verdict:
        """Let the daemons see all there is, stop them, and judge."""
        await self.settle(*daemons)
        for daemon in daemons:
            if daemon.is_running:
                await daemon.stop()
        pods, nodes = await self.api.items(PODS.path), await self.api.items(NODES.path)
        return await judge(daemons[0].log, pods, nodes, self.scheduler)

    async def settle(self, *daemons: Daemon) -> None:
        """Until nothing changes, and each log holds a pod that was made after all else, and all outcomes."""
        before: list[str] = []
        while before != (now := _revisions(await self.api.items(PODS.path))):
            before = now
            await asyncio.sleep(POLL_SECONDS * 10)
        manifest = pod(self.namespace, f"last-{secrets.token_hex(2)}", schedulerName="nobody")
        uid = (await self.api.create(PODS, manifest))["metadata"]["uid"]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if await is_settled(daemons[0].log, uid):
                    return
                await asyncio.sleep(POLL_SECONDS)

    async def close(self) -> None:
        """End the daemons, and leave as little as possible in the cluster."""
        for daemon in self._daemons:
            await daemon.kill()
        # The next daemon has another log: an anchor of this one would stop it.
        await self.api.delete(LEASES.object_path(LEASE, NAMESPACE))
        await self.api.delete(NAMESPACES.object_path(self.namespace))
        for name in self._nodes:
            await self.api.delete(NODES.object_path(name))

    def _manifest(self, resource: Resource, name: str, spec: Object) -> Object:
        within = {"namespace": self.namespace} if resource.is_namespaced else {}
        return {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, **within},
            "spec": spec,
        }


@asynccontextmanager
async def rigged(cluster: Cluster, folder: Path) -> AsyncIterator[Rig]:
    """A rig whose kubelet is at work."""
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(Api.of(cluster.admin))
        rig = Rig(cluster, api, folder)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": rig.namespace}}
        await api.create(NAMESPACES, namespace)
        await stack.enter_async_context(rig.kubelet.at_work())
        stack.push_async_callback(rig.close)
        yield rig


def grouped(group: str | None) -> dict[str, str]:
    """The annotations of a pod of a pod group."""
    return {} if group is None else {"scheduling.k8s.io/group-name": group}


def node_of(pod: Object) -> str:
    """Where a pod is; empty for nowhere."""
    return str(pod["spec"].get("nodeName", ""))


def phase_of(pod: Object) -> str:
    """Its phase."""
    return str(pod["status"]["phase"])


def is_running(pod: Object) -> bool:
    """Whether it runs, and is not on its way out."""
    return phase_of(pod) == "Running" and "deletionTimestamp" not in pod["metadata"]


def _revisions(pods: Pods) -> list[str]:
    return sorted(one["metadata"]["uid"] + one["metadata"]["resourceVersion"] for one in pods)
