"""A fresh API server with nodes and pending pods, and an observer of their bindings."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.volcano_queue import QUEUES
from tests.control_plane import build
from tests.control_plane.api import Answer, Api, Object
from tests.control_plane.cluster import Cluster, own_plane
from tests.control_plane.manifests import GPU, GPU_NAME, node, pod

NAMESPACE: Final = "default"
QUEUE: Final = "bench"
AT_ONCE: Final = 64
"""Requests in flight while nodes and pods are made; that time is not measured."""
PATIENCE_SECONDS: Final = 600.0
TICKS: Final = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100

T = TypeVar("T")


class _Spec(Struct):
    nodeName: str = ""  # noqa: N815 - as Kubernetes writes it


class _Metadata(Struct):
    name: str = ""


class _Pod(Struct):
    metadata: _Metadata
    spec: _Spec


class _Event(Struct):
    type: str
    object: _Pod


class Run(Struct, frozen=True):
    """How long the bindings took, and what they were."""

    bindings: dict[str, str]
    """Pod to node."""
    seconds: float
    """From the first binding to the last, as a watch saw them."""
    cpu_seconds: dict[str, float]
    """What each program used of the processors from the first binding to the last."""

    @property
    def rate(self) -> float:
        """Pods per second: the first binding begins the time and is not counted in it."""
        return (len(self.bindings) - 1) / self.seconds if self.seconds else 0.0


class Arena:
    """A cluster with nothing but nodes and waiting pods in it."""

    def __init__(self, cluster: Cluster, api: Api) -> None:
        assert cluster.plane is not None
        self.cluster = cluster
        self.plane = cluster.plane
        self.api = api
        self.pods = 0
        self._revision = ""

    async def furnish(self, nodes: int, pods: int, scheduler: str) -> None:
        """Make nodes with eight cards each, and pods that ask for one, of a scheduler."""
        await self._make(NODES.path, [node(f"node-{index:05}") for index in range(nodes)])
        await self._make(QUEUES.path, [_queue(nodes)])
        waiting = [_pod(index, scheduler) for index in range(pods)]
        await self._make(PODS.collection_path(NAMESPACE), waiting)
        listed = (await self.api.get(PODS.path, limit="1")).expect(200)
        self._revision = listed["metadata"]["resourceVersion"]
        self.pods = pods

    async def observe(self, pids: dict[str, int]) -> Run:
        """Until every pod has a node. `pids` says whose use of the processors is of interest."""
        decoder = msgspec.json.Decoder(_Event)
        loop = asyncio.get_running_loop()
        bindings: dict[str, str] = {}
        first = last = 0.0
        before: dict[str, float] = {}
        async with (
            asyncio.timeout(PATIENCE_SECONDS),
            self.api.watch(PODS.path, resourceVersion=self._revision) as watch,
        ):
            async for line in watch.raw():
                event = decoder.decode(line)
                name, where = event.object.metadata.name, event.object.spec.nodeName
                if not where or name in bindings:
                    continue
                last = loop.time()
                if not bindings:
                    first, before = last, {key: cpu_seconds(pid) for key, pid in pids.items()}
                bindings[name] = where
                if len(bindings) == self.pods:
                    break
        used = {key: cpu_seconds(pid) - before.get(key, 0.0) for key, pid in pids.items()}
        assert len(bindings) == self.pods, f"the watch ended after {len(bindings)} bindings"
        return Run(bindings, last - first, used)

    async def _make(self, path: str, manifests: Iterable[object]) -> None:
        limit = asyncio.Semaphore(AT_ONCE)

        async def post(manifest: object) -> Answer:
            async with limit:
                return await self.api.post(path, manifest)

        for answer in await asyncio.gather(*(post(one) for one in manifests)):
            answer.expect(201)


def _pod(index: int, scheduler: str) -> Object:
    one = pod(NAMESPACE, f"pod-{index:05}", cards=1, product=GPU, schedulerName=scheduler)
    one["metadata"]["annotations"] = {
        "scheduling.volcano.sh/queue-name": QUEUE,
        "volcano.sh/card.name": GPU_NAME,
    }
    one["spec"]["containers"][0]["resources"]["requests"] |= {"cpu": "4", "memory": "16Gi"}
    return one


def _queue(nodes: int) -> Object:
    """A quota of all there is: it is counted, and holds nothing back."""
    quota = json.dumps({GPU_NAME: nodes * 8})
    metadata = {"name": QUEUE, "annotations": {"volcano.sh/card.quota": quota}}
    capability = {"cpu": str(64 * nodes), "memory": f"{256 * nodes}Gi"}
    return {
        "apiVersion": QUEUES.api_version,
        "kind": QUEUES.kind,
        "metadata": metadata,
        "spec": {"weight": 1, "capability": capability},
    }


@asynccontextmanager
async def arena() -> AsyncIterator[Arena]:
    """A fresh one; nothing of it stays."""
    build.build()
    # No controllers: they would take CPU time from the measured process.
    with own_plane(has_controllers=False) as cluster:
        async with Api.of(cluster.admin) as api:
            yield Arena(cluster, api)


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processors; nothing where the system does not say."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return 0.0
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS
