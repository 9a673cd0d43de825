"""One of the servers under contract, and how a test gets at it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from daemon.cluster.client.rbac import cluster_rules, namespace_rules, own_rules
from daemon.cluster.server.simulated_api_server import running_server
from projections.api_resource import Resource
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from simulator.api_server.access_control import Rule, User
from simulator.api_server.api import Behaviour
from simulator.scenario import Scenario
from tests.control_plane.api import STRATEGIC, Api, Object
from tests.control_plane.cluster import Cluster
from tests.control_plane.manifests import binding, node, pod, running
from tests.control_plane.setup import NAMESPACE, NAMESPACES

SETTLE_SECONDS: Final = 20.0
POLL_SECONDS: Final = 0.05
ADMIN, MUSTER = "token-of-the-admin", "token-of-muster"
TEMPLATES: Final = Resource("PodTemplate", "podtemplates")
"""A kind that our API server keeps no cache of: it forgets as soon as etcd does."""


class Served:
    """A server, asked by someone who may do everything, in a namespace of the test's own."""

    def __init__(self, api: Api, namespace: str, kubeconfig: Path) -> None:
        self.api = api
        self.namespace = namespace
        self.kubeconfig = kubeconfig
        self.forgetful = PODS
        """A kind whose old revisions are gone after `forget`."""
        self.forget: Callable[[], object] = lambda: pytest.skip(
            "this cluster is not ours to compact"
        )
        self.snapshot: Callable[[], object] = lambda: pytest.skip(
            "this cluster is not ours to set back"
        )
        self.restore: Callable[[Any], object] = lambda _: None
        """Set the server's data back to a snapshot, and start it again; both may take a while."""
        self.limited: Callable[[], AbstractAsyncContextManager[Api]] = lambda: Api.of(kubeconfig)
        """Someone who may do no more than muster must."""

    def unique(self, name: str) -> str:
        """A name for something that is in no namespace."""
        return f"{self.namespace}-{name}"

    @property
    def pods(self) -> str:
        """Where the pods of the test are."""
        return PODS.collection_path(self.namespace)

    def path(self, pod: Object, subresource: str = "") -> str:
        """Where a pod is."""
        return PODS.object_path(pod["metadata"]["name"], self.namespace, subresource)

    async def node(self, name: str = "node", cards: int = 8) -> Object:
        """A node of the test's own."""
        return await self.api.create(NODES, node(self.unique(name), cards))

    async def pod(
        self, name: str = "pod", labels: dict[str, str] | None = None, **spec: Any
    ) -> Object:
        """A new pod."""
        manifest = pod(self.namespace, name, **spec)
        manifest["metadata"]["labels"] = labels or {}
        return await self.api.create(PODS, manifest)

    async def bind(self, pod: Object, node_name: str) -> None:
        """Bind a pod; it must succeed."""
        (await self.api.post(self.path(pod, "binding"), binding(pod, node_name))).expect(201)

    async def run(self, name: str, node_name: str, labels: dict[str, str] | None = None) -> Object:
        """A pod that runs and is ready."""
        made = await self.pod(name, labels)
        await self.bind(made, node_name)
        path = self.path(made, "status")
        return (await self.api.patch(path, {"status": running()}, STRATEGIC)).expect(200)

    async def read(self, pod: Object) -> Object:
        """A pod as it is now."""
        return (await self.api.get(self.path(pod))).expect(200)

    async def until(self, path: str, is_so: Callable[[Object], bool]) -> Object:
        """An object, as soon as it is as some controller will have made it."""
        async with asyncio.timeout(SETTLE_SECONDS):
            while True:
                found = (await self.api.get(path)).expect(200)
                if is_so(found):
                    return found
                await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def on_real(cluster: Cluster, name: str) -> AsyncIterator[Served]:
    """The real server."""
    async with Api.of(cluster.admin) as api:
        namespace = f"{name}-{secrets.token_hex(3)}"
        served = Served(api, namespace, cluster.admin)
        served.limited = lambda: Api.of(cluster.muster)
        if cluster.plane is not None:
            served.forget, served.forgetful = cluster.plane.compact, TEMPLATES
            served.snapshot, served.restore = cluster.plane.snapshot, cluster.plane.restore
        await _open(served)
        yield served


@asynccontextmanager
async def on_simulated(name: str, folder: Path) -> AsyncIterator[Served]:
    """The simulated server: without kubelets, as the real one."""
    behaviour = Behaviour(has_kubelets=False, has_watch_list=True)
    async with running_server(Scenario(name="contract"), behaviour=behaviour) as server:
        server.access.tokens |= {ADMIN: User("admin"), MUSTER: User(MUSTER, _rules())}
        kubeconfig = server.kubeconfig(folder / "admin.yaml", ADMIN)
        async with Api.of(kubeconfig) as api:
            served = Served(api, name, kubeconfig)
            served.forget = server.api.compact
            served.snapshot, served.restore = server.api.snapshot, server.restore
            served.limited = lambda: Api.of(kubeconfig, MUSTER)
            await _open(served)
            yield served


def _rules() -> tuple[Rule, ...]:
    """Muster's own, as the simulated server has rules."""
    ruled = [("", cluster_rules()), (NAMESPACE, own_rules()), *namespace_rules().items()]
    return tuple(
        Rule(one.verbs, (one.group,), one.resources, namespace, one.names)
        for namespace, rules in ruled
        for one in rules
    )


async def _open(served: Served) -> None:
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": served.namespace}}
    await served.api.create(NAMESPACES, manifest)
