"""A kubelet for tests: it keeps the status of pods and runs nothing.

It starts what is bound to its nodes, turns away what does not fit (rule K5.12), ends what is being
deleted, and finishes a pod that carries the annotation `FINISH` with the phase that it names.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

from daemon.clock import WallClock
from events.duration import SECOND
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.quantity import cpu_milli
from tests.control_plane.api import GONE, STRATEGIC, Api, Object, Watch
from tests.control_plane.manifests import CARD, GPU, NODE_CPU, condition, node, running

FINISH: Final = "kubelet.test/finish"
"""On a pod: `Succeeded` or `Failed`."""

CPU: Final = "cpu"
AT_ONCE: Final = 16
WATCH_SECONDS: Final = 3_600.0
AGAIN_SECONDS: Final = 0.2

Verdict = Callable[[Object], str]
"""Why a pod is turned away, such as `OutOfcpu`; empty where it is not."""

Allocate = Callable[[Object], Awaitable[str]]
"""Why a device plugin gives a pod nothing; empty where it does."""


class Kubelet:
    """All nodes' kubelets in one. `delays` holds pods back, for seconds, by name; `delay` all others."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._limit = asyncio.Semaphore(AT_ONCE)
        self._cards: dict[str, int] = {}
        self._holds: dict[str, tuple[str, Counter[str]]] = {}
        """What each pod holds, by UID: its node, and amounts by resource."""
        self._done: set[tuple[str, str]] = set()
        self.delays: Mapping[str, float] = {}
        self.delay = 0.0
        self.verdict: Verdict = lambda _: ""
        self.allocate: Allocate = _nothing
        """Asks the device plugin for the cards of a pod that was admitted."""
        self.stopped: set[str] = set()
        """Nodes whose kubelet does nothing any more: pods there neither start nor end."""
        self.rejected: list[str] = []
        """Pods that were turned away: `namespace/name: reason`."""

    async def add(self, name: str, cards: int = 8, labels: dict[str, str] | None = None) -> Object:
        """A node joins."""
        self._cards[name] = cards
        manifest = node(name, cards, labels)
        manifest["status"]["conditions"] = node_conditions()
        return await self._api.create(NODES, manifest)

    async def remove(self, name: str) -> None:
        """A node leaves; its pods stay until someone collects them."""
        del self._cards[name]
        (await self._api.delete(NODES.object_path(name))).expect(200)

    async def condition(self, name: str, status: str) -> None:
        """Set the condition Ready of a node, as its kubelet or the node lifecycle controller does."""
        reason = "KubeletReady" if status == "True" else "NodeStatusUnknown"
        body = {"status": {"conditions": [condition("Ready", status, reason)]}}
        (await self._api.patch(NODES.object_path(name, "", "status"), body, STRATEGIC)).expect(200)

    def forget(self) -> None:
        """The server is about to be set back: what it says when it returns is what there is."""
        self._holds.clear()
        self._done.clear()

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Look after the pods of its nodes, meanwhile."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work(group))
            try:
                yield
            finally:
                work.cancel()

    async def _work(self, group: asyncio.TaskGroup) -> None:
        while True:
            with contextlib.suppress(*GONE):  # The server may have been killed.
                # As a kubelet does: only pods that have a node. Pending pods may be large and many.
                placed = {"fieldSelector": "spec.nodeName!="}
                answer = await self._api.get(PODS.path, **placed)
                if answer.status == 200:
                    listed = answer.object
                    for pod in listed["items"]:
                        self._look(group, pod)
                    revision = listed["metadata"]["resourceVersion"]
                    async with self._api.watch(
                        PODS.path, resourceVersion=revision, **placed
                    ) as watch:
                        await self._follow(group, watch)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self, group: asyncio.TaskGroup, watch: Watch) -> None:
        while (line := await watch.next(WATCH_SECONDS)) is not None and line.type != "ERROR":
            if line.type == "DELETED":
                self._holds.pop(line.object["metadata"]["uid"], None)
            elif line.type != "BOOKMARK":
                self._look(group, line.object)

    def _look(self, group: asyncio.TaskGroup, pod: Object) -> None:
        """Do what a pod needs, once for each thing."""
        deed = self._deed(pod)
        key = (pod["metadata"]["uid"], deed)
        if deed and key not in self._done:
            self._done.add(key)
            group.create_task(self._carry_out(deed, pod, key))

    def _deed(self, pod: Object) -> str:
        metadata, phase = pod["metadata"], pod["status"]["phase"]
        node = pod["spec"].get("nodeName")
        if node not in self._cards or node in self.stopped:
            return ""
        if metadata.get("deletionTimestamp"):
            return "end"
        if phase in ("Succeeded", "Failed"):
            self._holds.pop(metadata["uid"], None)
            return ""
        if phase == "Pending":
            return "start"
        self._holds.setdefault(metadata["uid"], (pod["spec"]["nodeName"], amounts_of(pod)))
        return "finish" if FINISH in metadata.get("annotations", {}) else ""

    async def _carry_out(self, deed: str, pod: Object, key: tuple[str, str]) -> None:
        if deed == "start":
            await asyncio.sleep(self.delays.get(pod["metadata"]["name"], self.delay))
        try:
            async with self._limit:
                if deed == "start":
                    await self._start(pod)
                elif deed == "finish":
                    phase = pod["metadata"]["annotations"][FINISH]
                    await self._tell(pod, ended(pod, phase))
                else:
                    await self._end(pod)
        except GONE:
            self._done.discard(key)  # At the next look.

    async def _start(self, pod: Object) -> None:
        if reason := self.verdict(pod) or self._admit(pod) or await self.allocate(pod):
            self.rejected.append(f"{name_of(pod)}: {reason}")
            message = f"Pod was rejected: {reason}"
            await self._tell(pod, {"phase": "Failed", "reason": reason, "message": message})
        else:
            await self._tell(pod, started(pod))

    def _admit(self, pod: Object) -> str:
        """Take its cards and CPU, or say why not: a kubelet counts for itself (rule K7.6)."""
        name, asked = pod["spec"]["nodeName"], amounts_of(pod)
        uid = pod["metadata"]["uid"]
        held: Counter[str] = Counter()
        for one, (at, amounts) in self._holds.items():
            if at == name and one != uid:
                held += amounts
        cards = self._cards.get(name, 0)
        for resource, has in ((CARD, cards), (GPU, cards), (CPU, cpu_milli(NODE_CPU))):
            if asked[resource] and held[resource] + asked[resource] > has:
                return f"OutOf{resource}"
        self._holds[uid] = (name, asked)
        return ""

    async def _tell(self, pod: Object, status: Object) -> None:
        path = PODS.object_path(pod["metadata"]["name"], pod["metadata"]["namespace"], "status")
        body = {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status}
        (await self._api.patch(path, body, STRATEGIC)).expect(200, 404, 409)

    async def _end(self, pod: Object) -> None:
        metadata = pod["metadata"]
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata["uid"]}}
        path = PODS.object_path(metadata["name"], metadata["namespace"])
        (await self._api.delete(path, options)).expect(200, 404, 409)
        self._holds.pop(metadata["uid"], None)


async def _nothing(pod: Object) -> str:
    return ""


def node_conditions() -> list[Object]:
    """The conditions of a node that works."""
    return [
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory") | _reported(),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure") | _reported(),
        condition("PIDPressure", "False", "KubeletHasSufficientPID") | _reported(),
        condition("Ready", "True", "KubeletReady") | _reported(),
    ]


def started(pod: Object) -> Object:
    """The status of a pod that runs and is ready, as a kubelet reports it."""
    now = _now()
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
    return running() | {
        "startTime": now,
        "conditions": [condition(kind, "True") | {"lastTransitionTime": now} for kind in kinds],
        "containerStatuses": [
            _container(one, {"running": {"startedAt": now}}, is_ready=True)
            for one in pod["spec"]["containers"]
        ],
    }


def ended(pod: Object, phase: str) -> Object:
    """The status of a pod that has ended, `Succeeded` or `Failed`."""
    now = _now()
    is_done = phase == "Succeeded"
    reason = "PodCompleted" if is_done else "PodFailed"
    state = {
        "terminated": {
            "exitCode": 0 if is_done else 1,
            "reason": "Completed" if is_done else "Error",
            "startedAt": pod["status"].get("startTime", now),
            "finishedAt": now,
        }
    }
    conditions = [
        condition("PodReadyToStartContainers", "False"),
        condition("Initialized", "True", reason if is_done else ""),
        condition("Ready", "False", reason),
        condition("ContainersReady", "False", reason),
    ]
    return {
        "phase": phase,
        "reason": "",
        "message": "",
        "conditions": [one | {"lastTransitionTime": now} for one in conditions],
        "containerStatuses": [_container(one, state) for one in pod["spec"]["containers"]],
    }


def _container(container: Object, state: Object, *, is_ready: bool = False) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": "",
        "ready": is_ready,
        "started": is_ready,
        "restartCount": 0,
        "state": state,
    }


def _reported() -> Object:
    return {"lastHeartbeatTime": _now(), "lastTransitionTime": _now()}


def _now() -> str:
    seconds = WallClock().now_ns() // SECOND
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def name_of(pod: Object) -> str:
    """`namespace/name`"""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def amounts_of(pod: Object) -> Counter[str]:
    """What its containers ask for of the resources that the kubelet counts: cards, and CPU in thousandths."""
    found: Counter[str] = Counter()
    for one in pod["spec"]["containers"]:
        requests = one.get("resources", {}).get("requests", {})
        for product in (CARD, GPU):
            found[product] += int(requests.get(product, "0"))
        found[CPU] += cpu_milli(requests.get(CPU, "0"))
    return found


def cards_of(pod: Object) -> int:
    """How many cards its containers ask for, of whatever product."""
    amounts = amounts_of(pod)
    return amounts[CARD] + amounts[GPU]
