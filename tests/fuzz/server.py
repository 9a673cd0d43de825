"""A small API server for fuzzed histories: it takes any object, shows it as bytes, and does what it is asked.

Time stands still while anything is left to be done, and then leaps, as in `daemon/cluster/stepped.py`. What is
shown goes through the decoding of production: `fetch` for lists, `WatchStream` for the lines of a watch.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import zip_longest
from random import Random
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from daemon.cluster.client.calls import Call
from daemon.cluster.watching.client_protocol import watched_kind
from daemon.cluster.watching.listing import fetch
from daemon.cluster.watching.rate_limit import RateLimit
from daemon.cluster.watching.watch_decoder import WatchStream, whole_list
from events.messages import (
    Accepted,
    AnnotateRequest,
    BindRequest,
    ConfigMapRequest,
    EvictRequest,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    PodMarkRequest,
    QueueStatusRequest,
    Rejected,
    Reply,
    Request,
    ResumePoint,
    WatchMessage,
)
from events.watch import ServerDiscovered, WatchClosed, WatchOpened
from tests.fuzz.case import Case, Change
from tests.fuzz.generator import RESERVED, RESOURCES, ROUNDS
from tests.fuzz.hostile import Json, JsonObject

SECOND_NS: Final = 1_000_000_000
ORIGIN_NS: Final = 1_700_000_000 * SECOND_NS
ROUND_NS: Final = 10 * SECOND_NS
KUBELET_NS: Final = 2 * SECOND_NS
CREATED: Final = "2026-01-01T00:00:00Z"

CANARY: Final = "canary"
CANARY_NODE: Final = "reserved"
CANARY_QUEUE: Final = "canary-queue"

T = TypeVar("T")
Key = tuple[str, str, str]
"""Resource, namespace, name."""


class UnreadableKindError(AssertionError):
    """A list or a line of a watch could not be read: that kind would not be seen any more."""


class Canary(Struct):
    """A plain pod in a queue of its own, for which a node is reserved."""

    created_ns: int
    bound_ns: int = 0


class FuzzServer:
    """The objects of a case. It is the cluster, and the clock, of a loop."""

    def __init__(self, case: Case) -> None:
        self.canaries: dict[str, Canary] = {}
        self.answers: list[tuple[Request, Reply]] = []
        self.now = ORIGIN_NS
        self.until_ns = ORIGIN_NS
        self.is_over = False
        self._case = case
        self._chance = Random(case.seed)
        self._objects: dict[Key, JsonObject] = {}
        self._revision = 100
        self._uids = 0
        self._agenda: list[tuple[int, int]] = []
        """Moments at which something happens, and which round begins then; -1 for the kubelets."""
        self._streams: dict[str, WatchStream] = {}
        self._shown: list[WatchMessage] = []
        self._moved = asyncio.Event()
        self._idle = asyncio.Event()
        self._put_reserved()
        self._round(0)
        self._agenda = [
            (ORIGIN_NS + index * ROUND_NS, index) for index in range(1, len(case.rounds))
        ]
        last = ORIGIN_NS + len(case.rounds) * ROUND_NS
        self._agenda += [(last, len(case.rounds)), (last + ROUND_NS, len(case.rounds) + 1)]

    # What the loop asks of a cluster

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """Show all there is, kind by kind."""
        self._shown = [ServerDiscovered(version="v1.34.0", served=())]
        for name in RESOURCES:
            self._list(name)
        self._stir()

    async def messages(self) -> AsyncIterator[list[WatchMessage]]:
        """What happens, when it happens."""
        while True:
            self._moved.clear()
            if taken := self._shown:
                self._shown = []
                yield taken
            else:
                self._idle.set()
                await self._moved.wait()

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Carry a request out; or refuse it, or forget to answer, as often as the case says."""
        msgspec.json.encode(request)  # As its body would be.
        at = self._chance.randrange(100)
        if at < self._case.refused and not _is_canary(request):
            reply: Reply = Rejected("InternalError", "as the case says")
        else:
            reply = self._perform(request)
            if at < self._case.refused + self._case.unanswered and not _is_canary(request):
                reply = OutcomeUnknown("as the case says")
        self.answers.append((request, reply))
        self._stir()
        return reply, 1

    # The clock

    def now_ns(self) -> int:
        """Nanoseconds since the epoch."""
        return self.now

    def elapsed_ns(self) -> int:
        """The same: nothing takes time here."""
        return self.now

    async def settle(self) -> None:
        """Return when everything that happened has been taken in."""
        await self._idle.wait()

    async def wait(self, until_ns: int | None, woken: asyncio.Event, longest_ns: int) -> None:
        """Leap to the next moment at which something happens or is to be done."""
        await self.settle()
        if woken.is_set():
            return
        moments = [at for at, _ in self._agenda[:1]]
        moments += [] if until_ns is None else [until_ns]
        target = min(moments, default=None)
        if target is None or target > self.until_ns:
            self.is_over = True
            return
        self.now = max(self.now, target)
        while self._agenda and self._agenda[0][0] <= self.now:
            self._happen(self._agenda.pop(0)[1])
        self._stir()

    # What happens

    @property
    def end_ns(self) -> int:
        """When everything of the case has happened, and some time has passed."""
        return ORIGIN_NS + (len(self._case.rounds) + 3) * ROUND_NS

    def begin_ns(self, index: int) -> int:
        """When a round begins."""
        return ORIGIN_NS + index * ROUND_NS

    def _happen(self, index: int) -> None:
        if index < 0:
            self._kubelets()
        elif index == len(self._case.rounds):
            self._clear()
        else:
            self._round(index)

    def _round(self, index: int) -> None:
        changes = self._case.rounds[index] if index < len(self._case.rounds) else []
        for change in changes:
            self._change(change)
        self._canary(f"{CANARY}-{index}")
        self._delete(("Pod", "default", f"{CANARY}-{index - ROUNDS}"))

    def _clear(self) -> None:
        """Delete every object of the case."""
        for key, obj in list(self._objects.items()):
            if not (CANARY in key[2] or key[2] == CANARY_NODE):
                self._delete(key)
                assert obj is not None
        self._canary(f"{CANARY}-{len(self._case.rounds)}")

    def _change(self, change: Change) -> None:
        key = (change.resource, change.namespace, change.name)
        if change.manifest is None:
            self._delete(key)
            return
        there = self._objects.get(key)
        manifest = {**change.manifest, "metadata": dict(_section(change.manifest, "metadata"))}
        if there is not None and change.resource == "Pod":
            _keep_what_cannot_change(manifest, there)
        self._put(key, manifest)

    def _put_reserved(self) -> None:
        taint: JsonObject = {"key": RESERVED, "effect": "NoSchedule"}
        amounts: JsonObject = {"cpu": "1000", "memory": "1000Gi", "pods": "1000"}
        node: JsonObject = {
            "metadata": {"labels": {RESERVED: "true"}},
            "spec": {"taints": [taint]},
            "status": {"allocatable": amounts},
        }
        self._put(("Node", "", CANARY_NODE), node)
        queue: JsonObject = {"metadata": {}, "spec": {"weight": 1, "reclaimable": False}}
        self._put(("Queue", "", CANARY_QUEUE), queue)

    def _canary(self, name: str) -> None:
        annotations: JsonObject = {"scheduling.volcano.sh/queue-name": CANARY_QUEUE}
        resources: JsonObject = {"requests": {"cpu": "1", "memory": "1Gi"}}
        pod: JsonObject = {
            "metadata": {"annotations": annotations, "labels": {CANARY: "true"}},
            "spec": {
                "schedulerName": "muster",
                "nodeSelector": {RESERVED: "true"},
                "tolerations": [{"key": RESERVED, "operator": "Exists"}],
                "containers": [{"name": "main", "image": "image", "resources": resources}],
            },
            "status": {"phase": "Pending"},
        }
        self.canaries[name] = Canary(self.now)
        self._put(("Pod", "default", name), pod)

    def _kubelets(self) -> None:
        """Bound pods run; pods that are to go are gone."""
        for key, obj in list(self._objects.items()):
            if key[0] != "Pod":
                continue
            status, spec = _section(obj, "status"), _section(obj, "spec")
            if "deletionTimestamp" in _section(obj, "metadata"):
                self._delete(key)
            elif spec.get("nodeName") and status.get("phase") == "Pending":
                self._put(key, {**obj, "status": {**status, "phase": "Running"}})

    # Requests

    def _perform(self, request: Request) -> Reply:
        kind = {
            AnnotateRequest: "Pod",
            BindRequest: "Pod",
            EvictRequest: "Pod",
            PodConditionRequest: "Pod",
            PodMarkRequest: "Pod",
            QueueStatusRequest: "Queue",
        }.get(type(request), "PodGroup")
        if isinstance(request, ConfigMapRequest):
            return Accepted()  # Nothing reads it.
        key = (kind, getattr(request, "namespace", ""), request.name)
        obj = self._objects.get(key)
        if obj is None or _section(obj, "metadata")["uid"] != request.uid:
            return Rejected("NotFound", "there is no such object")
        match request:
            case BindRequest():
                return self._bind(key, obj, request)
            case AnnotateRequest():
                there = _section(_section(obj, "metadata"), "annotations")
                self._touch(key, "metadata", {"annotations": {**there, **request.annotations}})
            case PodMarkRequest():
                there = _section(_section(obj, "metadata"), "annotations")
                labels = _section(_section(obj, "metadata"), "labels")
                mark: JsonObject = {
                    "annotations": {**there, **request.annotations},
                    "labels": {**labels, **request.labels},
                }
                self._touch(key, "metadata", mark)
            case EvictRequest():
                self._touch(key, "metadata", {"deletionTimestamp": CREATED})
                self._soon()
            case PodGroupPhaseRequest():
                self._touch(key, "status", {"phase": request.phase})
            case PodGroupCountsRequest():
                counts: JsonObject = {"running": request.running, "failed": request.failed}
                self._touch(key, "status", {**counts, "succeeded": request.succeeded})
            case PodConditionRequest():
                self._condition(key, "PodScheduled", "False", request.reason, request.message)
            case PodGroupConditionRequest():
                self._condition(key, request.type, "True", request.reason, request.message)
            case QueueStatusRequest():
                self._touch(key, "status", {"allocated": dict(request.allocated)})
        return Accepted()

    def _bind(self, key: Key, obj: JsonObject, request: BindRequest) -> Reply:
        node = _section(obj, "spec").get("nodeName")
        if node and node != request.node:
            return Rejected("Conflict", "the pod has another node")
        if ("Node", "", request.node) not in self._objects:
            return Rejected("NotFound", "there is no such node")
        annotations = _section(_section(obj, "metadata"), "annotations")
        self._touch(key, "metadata", {"annotations": {**annotations, **request.annotations}})
        self._touch(key, "spec", {"nodeName": request.node})
        self._soon()
        canary = self.canaries.get(request.name)
        if canary is not None and not canary.bound_ns:
            canary.bound_ns = self.now
        return Accepted()

    def _condition(self, key: Key, kind: str, status: str, reason: str, message: str) -> None:
        told: JsonObject = {"type": kind, "status": status, "reason": reason, "message": message}
        there = _section(self._objects[key], "status").get("conditions")
        kept = [
            one
            for one in (there if isinstance(there, list) else [])
            if not (isinstance(one, dict) and one.get("type") == kind)
        ]
        self._touch(key, "status", {"conditions": [*kept, told]})

    # Objects and what is shown of them

    def _touch(self, key: Key, section: str, values: Mapping[str, Json]) -> None:
        obj = self._objects[key]
        self._put(key, {**obj, section: {**_section(obj, section), **values}})

    def _put(self, key: Key, manifest: JsonObject) -> None:
        resource, namespace, name = key
        self._revision += 1
        there = self._objects.get(key)
        if there is None:
            self._uids += 1
        before = _section(there or {}, "metadata")
        metadata = _section(manifest, "metadata")
        metadata["name"] = name
        if namespace:
            metadata["namespace"] = namespace
        metadata["uid"] = before.get("uid", f"00000000-0000-4000-8000-{self._uids:012}")
        metadata["creationTimestamp"] = before.get("creationTimestamp", CREATED)
        metadata["resourceVersion"] = str(self._revision)
        served = RESOURCES[resource]
        head: JsonObject = {"kind": served.kind, "apiVersion": served.api_version}
        self._objects[key] = {**head, **manifest, "metadata": metadata}
        self._show("ADDED" if there is None else "MODIFIED", key)

    def _delete(self, key: Key) -> None:
        if key in self._objects:
            self._revision += 1
            metadata = _section(self._objects[key], "metadata")
            metadata["resourceVersion"] = str(self._revision)
            self._show("DELETED", key)
            del self._objects[key]

    def _show(self, kind: str, key: Key) -> None:
        stream = self._streams.get(key[0])
        if stream is None:
            return
        line = b'{"type":"%s","object":%s}\n' % (kind.encode(), encode(self._objects[key]))
        cut = self._chance.randrange(len(line)) if self._chance.random() < 0.1 else len(line)
        for chunk in filter(None, (line[:cut], line[cut:])):
            reading = stream.read(chunk)
            if reading.end is not None:
                raise UnreadableKindError(f"{kind} {key}: {str(reading.end)[:300]}")
            self._shown += reading.messages

    def _list(self, resource: str) -> None:
        """List a kind as the reflector does, and open its watch."""
        whole = _at_once(fetch(_Lists(self, resource), watched_kind(RESOURCES[resource]), _pace()))
        revision = whole.resource_version
        if resource in self._streams:
            self._shown.append(
                WatchClosed(resource=resource, resource_version=revision, cause="cut", has_gap=True)
            )
        self._shown += whole_list(resource, revision, whole.raws)
        self._shown.append(WatchOpened(resource=resource, resource_version=revision))
        self._streams[resource] = WatchStream(resource, revision)

    def page(self, resource: str) -> bytes:
        """The list of a kind."""
        items = [Raw(encode(obj)) for key, obj in self._objects.items() if key[0] == resource]
        page = {
            "kind": "List",
            "metadata": {"resourceVersion": str(self._revision)},
            "items": items,
        }
        return msgspec.json.encode(page)

    def _soon(self) -> None:
        """Kubelets act a moment later."""
        at = self.now + KUBELET_NS
        if (at, -1) not in self._agenda:
            self._agenda.append((at, -1))
            self._agenda.sort()

    def _stir(self) -> None:
        self._idle.clear()
        self._moved.set()


class _Lists:
    """The part of a client that a list needs."""

    def __init__(self, server: FuzzServer, resource: str) -> None:
        self._server = server
        self._resource = resource

    async def request(
        self, call: Call, *, query: Mapping[str, str], deadline_seconds: float, namespace: str = ""
    ) -> bytes:
        return self._server.page(self._resource)

    async def pause(self, seconds: float) -> bool:
        raise NotImplementedError

    async def get(self, path: str) -> bytes:
        raise NotImplementedError

    def watch(
        self, call: Call, query: Mapping[str, str], stall_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError


def encode(obj: JsonObject) -> bytes:
    """An object as an API server sends it."""
    return msgspec.json.encode(obj)


def _section(obj: JsonObject, name: str) -> JsonObject:
    """A part of an object; empty where it is nothing of the kind."""
    found = obj.get(name)
    return found if isinstance(found, dict) else {}


def _keep_what_cannot_change(manifest: JsonObject, there: JsonObject) -> None:
    """Of a pod's spec only amounts, tolerations and gates may change; and none comes back from deletion."""
    if there.get("spec") is None:
        manifest.pop("spec", None)
    else:
        manifest["spec"] = _changed_spec(there["spec"], _section(manifest, "spec"))
    deleted_at = _section(there, "metadata").get("deletionTimestamp")
    if deleted_at is not None:
        _section(manifest, "metadata")["deletionTimestamp"] = deleted_at


def _changed_spec(before: Json, after: JsonObject) -> Json:
    if not isinstance(before, dict):
        return before
    spec = dict(before)
    added, removed = after.get("tolerations"), after.get("schedulingGates")
    there = before.get("tolerations")
    if isinstance(added, list) and isinstance(there, list | None):
        spec["tolerations"] = [*(there or []), *added]
    if not removed:
        spec.pop("schedulingGates", None)
    containers, others = before.get("containers"), after.get("containers")
    if isinstance(containers, list) and isinstance(others, list):
        spec["containers"] = [
            {**one, "resources": other["resources"]}
            if isinstance(one, dict) and isinstance(other, dict) and "resources" in other
            else one
            for one, other in zip_longest(containers, others[: len(containers)])
        ]
    return spec


def _is_canary(request: Request) -> bool:
    return CANARY in request.name


def _pace() -> RateLimit:
    """A pace that has not been used up: nothing waits here."""
    return RateLimit(lambda: 0.5)


def _at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """What comes of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits")
