"""A small API server in memory, for tests in virtual time: what it answers can be spoiled at will."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final, TypeAlias, TypeVar

from daemon.cluster.client.calls import Call
from daemon.cluster.client.errors import (
    ApiError,
    Cause,
    ExpiredError,
    NotFoundError,
    ServerError,
    UnansweredError,
)
from events.errors import ClusterError
from events.messages import DeletionSeen, ListCompleted, ListStarted, ObjectSeen, WatchMessage
from events.watch import WatchClosed, WatchOpened
from projections.api_resource import Resource
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.priority_class import PRIORITY_CLASSES

T = TypeVar("T")
Object: TypeAlias = dict[str, Any]
Spoiling: TypeAlias = Callable[[str, Mapping[str, str]], ClusterError | bytes | None]
"""Told what is asked and with which query: an error or a body to answer with, or None for the truth."""

BASIC: Final = (NODES, PRIORITY_CLASSES, PODS)

REQUESTS_MAX: Final = 20_000
"""No story makes more requests. In virtual time a loop without a pause would go on for ever."""


def no_spoiling(what: str, query: Mapping[str, str]) -> None:
    """Everything is answered as it should be."""


def line(kind: str, obj: Object) -> bytes:
    """A line of a watch, as a Kubernetes API server writes it."""
    return json.dumps({"type": kind, "object": obj}, separators=(",", ":")).encode() + b"\n"


def status(code: int, reason: str) -> Object:
    """The object of an ERROR event."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
    }


class Stream:
    """An open watch, on the server's side."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.keeps_open = False
        """Whether it outstays the time for which it was asked."""
        self.chunks: asyncio.Queue[bytes | ClusterError | None] = asyncio.Queue()

    def send(self, chunk: bytes | ClusterError | None) -> None:
        """Bytes; an error for a lost connection; None for the end."""
        self.chunks.put_nowait(chunk)


class Api:
    """Objects with revisions, their history, and the watches that are open."""

    def __init__(self, served: tuple[Resource, ...] = BASIC) -> None:
        self.revision = 100
        self.compacted = 0
        self.served = list(served)
        self.objects: dict[str, dict[str, Object]] = defaultdict(dict)
        self.history: list[tuple[int, str, str, Object]] = []
        self.asked: list[tuple[float, str, dict[str, str]]] = []
        self.streams: list[Stream] = []
        self.spoil: Spoiling = no_spoiling
        self.page = 500
        self.pages: dict[int, list[Object]] = {}
        """What the further pages of lists are cut from, by revision."""
        self.uids = 0

    # What happens in the cluster

    def put(self, name: str, resource: Resource = PODS, *, size: int = 0) -> Object:
        """Add an object, or change it."""
        there = self.objects[resource.name]
        kind = "MODIFIED" if name in there else "ADDED"
        self.revision += 1
        if name not in there:
            self.uids += 1
        uid = f"u{self.uids}" if name not in there else there[name]["metadata"]["uid"]
        metadata = {"name": name, "uid": uid, "resourceVersion": str(self.revision)}
        if resource.is_namespaced:
            metadata["namespace"] = "default"
        obj = {"metadata": metadata, "spec": {"containers": [{"args": ["x" * size]}]}}
        there[name] = obj
        self._happened(kind, resource, obj)
        return obj

    def delete(self, name: str, resource: Resource = PODS) -> None:
        """Take an object away."""
        obj = self.objects[resource.name].pop(name)
        self.revision += 1
        last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.revision)}}
        self._happened("DELETED", resource, last)

    def compact(self) -> None:
        """Forget all history: watches from earlier revisions expire."""
        self.compacted = self.revision

    def bookmark(self, resource: Resource = PODS) -> None:
        """Tell every watch of a kind how far it is."""
        self.send(resource, line("BOOKMARK", self.mark(resource)))

    def mark(self, resource: Resource, *, is_end: bool = False) -> Object:
        """The object of a bookmark."""
        metadata: Object = {"resourceVersion": str(self.revision), "creationTimestamp": None}
        if is_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}

    def send(self, resource: Resource, chunk: bytes | ClusterError | None) -> None:
        """Send something to every watch of a kind."""
        for stream in self.streams:
            if stream.resource == resource:
                stream.send(chunk)

    def stream(self, resource: Resource = PODS) -> Stream:
        """The watch of a kind."""
        [stream] = [one for one in self.streams if one.resource == resource]
        return stream

    def tell(self, chunk: bytes | ClusterError | None) -> None:
        """Send something to the watch of pods."""
        self.send(PODS, chunk)

    def _happened(self, kind: str, resource: Resource, obj: Object) -> None:
        whole = _whole(resource, obj)
        self.history.append((self.revision, resource.name, kind, whole))
        self.send(resource, line(kind, whole))

    # What a client sees

    def requests(self, what: str) -> list[dict[str, str]]:
        """The queries of all requests of one sort."""
        return [query for _, asked, query in self.asked if asked == what]

    async def get(self, path: str) -> bytes:
        """`/version` and discovery."""
        spoiled = await self._ask(f"get {path}", {})
        if spoiled is not None:
            return spoiled
        groups = {one.api_version for one in self.served if one.group}
        if path == "/version":
            return b'{"gitVersion":"v1.34.4","major":"1"}'
        if path == "/apis":
            listed = [
                {"name": one.split("/")[0], "versions": [{"groupVersion": one}]} for one in groups
            ]
            return json.dumps({"kind": "APIGroupList", "groups": listed}).encode()
        version = path.removeprefix("/apis/").removeprefix("/api/")
        there = [one.plural for one in self.served if one.api_version == version]
        if not there:
            raise NotFoundError(f"get {path}", 404, message="404 page not found")
        return json.dumps({"resources": [{"name": plural} for plural in there]}).encode()

    async def request(
        self, call: Call, *, query: Mapping[str, str], deadline_seconds: float, namespace: str = ""
    ) -> bytes:
        """A page of a list."""
        spoiled = await self._ask(call.what, query)
        if spoiled is not None:
            return spoiled
        if call.resource not in self.served:
            raise NotFoundError(call.what, 404, message="404 page not found")
        token = query.get("continue") or f"{self.revision}:0"
        revision, begin = map(int, token.split(":"))
        everything = list(self.objects[call.resource.name].values())
        if query.get("resourceVersionMatch") == "Exact":
            revision = int(query["resourceVersion"])
            everything = self._at(call, revision)
        if selector := query.get("fieldSelector"):
            name = selector.removeprefix("metadata.name=")
            everything = [one for one in everything if one["metadata"]["name"] == name]
        if "continue" in query:
            everything = self.pages[revision]
        limit = min(self.page, int(query["limit"]))
        metadata = {"resourceVersion": str(revision)}
        if begin + limit < len(everything):
            self.pages[revision] = everything
            metadata["continue"] = f"{revision}:{begin + limit}"
        items = everything[begin : begin + limit]
        return json.dumps({"kind": "List", "metadata": metadata, "items": items}).encode()

    async def pause(self, seconds: float) -> bool:
        """As long as asked for: this server says nothing of its return."""
        await asyncio.sleep(seconds)
        return False

    def _at(self, call: Call, revision: int) -> list[Object]:
        """What there was of a kind at a revision."""
        if revision > self.revision:
            cause = Cause(reason="ResourceVersionTooLarge")
            raise ServerError(call.what, 504, "Timeout", "Too large resource version", (cause,))
        if revision < self.compacted:
            raise ExpiredError(call.what, 410, "Expired")
        there: dict[str, Object] = {}
        for at, name, kind, obj in self.history:
            if at <= revision and name == call.resource.name:
                there[obj["metadata"]["name"]] = obj
                if kind == "DELETED":
                    del there[obj["metadata"]["name"]]
        return list(there.values())

    def snapshot(self) -> "Api":
        """A copy of all there is, to be restored later."""
        kept = Api()
        kept.revision, kept.history = self.revision, list(self.history)
        kept.objects = defaultdict(dict, {kind: dict(one) for kind, one in self.objects.items()})
        return kept

    def restore(self, kept: "Api") -> None:
        """Go back to what there was; open watches stay open, and show nothing that is not newer for them."""
        self.revision, self.history = kept.revision, list(kept.history)
        self.objects = defaultdict(dict, {kind: dict(one) for kind, one in kept.objects.items()})

    def watch(
        self, call: Call, query: Mapping[str, str], stall_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A watch."""
        return self._watch(call, query)

    @asynccontextmanager
    async def _watch(
        self, call: Call, query: Mapping[str, str]
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        spoiled = await self._ask(call.what, query)
        if call.resource not in self.served:
            raise NotFoundError(call.what, 404, message="404 page not found")
        stream = Stream(call.resource)
        if spoiled is not None:
            stream.send(spoiled)
            stream.send(None)
        else:
            self._begin(stream, query)
            self.streams.append(stream)
        try:
            yield _chunks(stream, float(query["timeoutSeconds"]))
        finally:
            with suppress(ValueError):
                self.streams.remove(stream)

    def _begin(self, stream: Stream, query: Mapping[str, str]) -> None:
        """What a watch shows at once."""
        resource = stream.resource
        if query.get("sendInitialEvents") == "true":
            for obj in self.objects[resource.name].values():
                stream.send(line("ADDED", _whole(resource, obj)))
            stream.send(line("BOOKMARK", self.mark(resource, is_end=True)))
            return
        since = int(query["resourceVersion"])
        if since < self.compacted:
            raise ExpiredError(f"watch {resource.plural}", 410, "Expired")
        for revision, name, kind, obj in self.history:
            if name == resource.name and revision > since:
                stream.send(line(kind, obj))

    async def _ask(self, what: str, query: Mapping[str, str]) -> bytes | None:
        assert len(self.asked) < REQUESTS_MAX, "a hot loop"
        self.asked.append((asyncio.get_running_loop().time(), what, dict(query)))
        await asyncio.sleep(0.001)
        spoiled = self.spoil(what, query)
        if isinstance(spoiled, ClusterError):
            raise spoiled
        return spoiled


def _whole(resource: Resource, obj: Object) -> Object:
    """An object as it is outside of lists (K1.4)."""
    return {"kind": resource.kind, "apiVersion": resource.api_version, **obj}


async def _chunks(stream: Stream, timeout_seconds: float) -> AsyncIterator[bytes]:
    """What is sent, until the server ends the watch after the time it was asked for."""
    ends_at = asyncio.get_running_loop().time() + timeout_seconds
    while True:
        try:
            async with asyncio.timeout_at(None if stream.keeps_open else ends_at):
                chunk = await stream.chunks.get()
        except TimeoutError:
            return
        if chunk is None:
            return
        if isinstance(chunk, ClusterError):
            raise chunk
        yield chunk


class Follower:
    """What a reader makes of watch messages: the same as the log would (K4), and what it must never see."""

    def __init__(self) -> None:
        self.messages: list[WatchMessage] = []
        self.objects: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
        """By kind and UID: name and revision."""
        self.progress: dict[str, str] = {}
        self.listing: dict[str, dict[str, tuple[str, str]]] = {}
        self.lists: list[str] = []

    def take(self, messages: list[WatchMessage]) -> None:
        """Take in what was handed over in one piece."""
        self.messages += messages
        for message in messages:
            self._take(message)
        assert not self.listing, "a list came in pieces"

    def of(self, kind: type[T]) -> list[T]:
        """All watch messages of one sort."""
        return [one for one in self.messages if isinstance(one, kind)]

    def closed(self) -> list[tuple[str, bool]]:
        """How watches of pods ended."""
        ends = [
            one for one in self.messages if isinstance(one, WatchClosed) and one.resource == "Pod"
        ]
        return [(one.cause, one.has_gap) for one in ends]

    def names(self, kind: str = "Pod") -> set[str]:
        """The objects that are there."""
        return {name for name, _ in self.objects[kind].values()}

    def _take(self, message: WatchMessage) -> None:
        match message:
            case ListStarted(resource=resource):
                self.listing[resource] = {}
                self.lists.append(resource)
            case ListCompleted(resource=resource, resource_version=revision, count=count):
                listed = self.listing.pop(resource)
                assert len(listed) == count
                self.objects[resource] = listed
                self.progress[resource] = revision
            case ObjectSeen(raw=raw) | DeletionSeen(raw=raw):
                self._take_object(json.loads(raw), is_gone=isinstance(message, DeletionSeen))
            case WatchOpened(resource=resource, is_resumed=is_resumed) if is_resumed:
                assert resource not in self.lists
            case _:
                pass

    def _take_object(self, obj: dict[str, dict[str, str]], *, is_gone: bool) -> None:
        kind, metadata = str(obj["kind"]), obj["metadata"]
        assert obj["apiVersion"]
        known = self.listing.get(kind, self.objects[kind])
        uid, revision = metadata["uid"], metadata["resourceVersion"]
        if uid in known:
            assert int(known[uid][1]) < int(revision), "shown twice"
        if is_gone:
            known.pop(uid, None)
        else:
            known[uid] = (metadata["name"], revision)
        if kind not in self.listing:
            assert int(self.progress.get(kind, "0")) < int(revision), "shown twice"
            self.progress[kind] = revision


def error(what: str, status_code: int, **more: float) -> ApiError:
    """An answer of the server's that is an error."""
    return ApiError(what, status_code, "Whatever", "whatever", (), more.get("retry_after"))


def lost() -> UnansweredError:
    """The connection was lost."""
    return UnansweredError("connection lost")
