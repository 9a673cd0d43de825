"""What kubernetes_asyncio does that ours must not rely on (K17): facts, kept true by these tests.

Each of them is why something here is our own. When one fails after an upgrade, the rule may be relaxed.
"""

import asyncio
import time  # noqa: TID251 - only to change the time zone
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime

import msgspec
import pytest
from aiohttp import ClientError, ClientResponse, web
from kubernetes_asyncio.client import (
    ApiClient,
    Configuration,
    CoreV1Api,
    V1Binding,
    V1ObjectMeta,
    V1ObjectReference,
)
from kubernetes_asyncio.leaderelection.electionconfig import Config
from kubernetes_asyncio.leaderelection.leaderelection import LeaderElection
from kubernetes_asyncio.leaderelection.resourcelock.leaselock import LeaseLock
from kubernetes_asyncio.watch import Watch

from daemon.clock import WallClock
from tests.daemon.cluster.client.builders import Handler, served


class Always:
    """Answers every request alike, and keeps their revisions."""

    def __init__(self, status: int, text: str, content_type: str = "application/json") -> None:
        self.revisions: list[str] = []
        self._answer = (status, text, content_type)

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """The one answer."""
        self.revisions.append(request.query.get("resourceVersion", ""))
        status, text, content_type = self._answer
        return web.Response(status=status, text=text, content_type=content_type)


@asynccontextmanager
async def library(handler: Handler) -> AsyncIterator[ApiClient]:
    """The library's own client of a server."""
    async with served(handler) as url, ApiClient(Configuration(host=url)) as client:
        yield client


async def test_raw_calls_of_the_library_do_not_look_at_the_status() -> None:
    """K17: our wrapper does."""
    always = Always(500, "etcdserver: leader changed", "text/plain")
    async with library(always.answer) as client:
        response: object = await CoreV1Api(client).list_node(_preload_content=False)
        assert isinstance(response, ClientResponse)
        assert response.status == 500
        response.release()


@pytest.mark.parametrize(
    ("status", "text"), [(429, "Too many requests"), (502, "Bad gateway"), (200, '{"type":"AD')]
)
async def test_the_librarys_watch_yields_strings_and_asks_again_without_pause(
    status: int, text: str
) -> None:
    """K17: on plain text, and on a line that was cut."""
    always = Always(status, text, "text/plain")
    got: set[str] = set()
    async with (
        library(always.answer) as client,
        Watch().stream(CoreV1Api(client).list_node) as events,
    ):
        while len(always.revisions) < 50:
            got.add(await anext(events))
    assert got == {text}


async def test_the_librarys_watch_asks_again_without_pause_after_an_empty_body() -> None:
    """K17: as fast as the server answers, without a warning."""
    enough = asyncio.Event()
    always = Always(200, "")

    async def answer(request: web.BaseRequest) -> web.Response:
        if len(always.revisions) >= 50:
            enough.set()
        return await always.answer(request)

    async with library(answer) as client, asyncio.TaskGroup() as group:

        async def watch() -> None:
            async with Watch().stream(CoreV1Api(client).list_node) as events:
                async for _ in events:
                    raise AssertionError

        task = group.create_task(watch())
        async with asyncio.timeout(5):
            await enough.wait()
        task.cancel()


async def test_the_librarys_watch_asks_for_an_expired_revision_again() -> None:
    """K17: 410 with the stale revision; K3.7 forbids it."""
    gone = '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Gone","message":""}}\n'
    always = Always(200, gone)
    async with library(always.answer) as client:
        stream = Watch().stream(CoreV1Api(client).list_node, resource_version="7")
        async with stream as events:
            with pytest.raises(Exception, match="410"):
                await anext(events)
    assert always.revisions == ["7", "7"]


async def test_a_pod_that_was_bound_is_an_error_to_the_library() -> None:
    """K17: the server answers with a Status, and the library wants a Binding."""
    always = Always(201, '{"kind":"Status","apiVersion":"v1","status":"Success","code":201}')
    binding = V1Binding(
        metadata=V1ObjectMeta(name="a"), target=V1ObjectReference(kind="Node", name="n")
    )
    async with library(always.answer) as client:
        with pytest.raises(ValueError, match="target"):
            await CoreV1Api(client).create_namespaced_pod_binding("a", "ns", binding)
    assert len(always.revisions) == 1


class OneLease:
    """Lets a Lease be made, and then loses every connection."""

    def __init__(self) -> None:
        self.made: dict[str, dict[str, str]] = {}

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """404, 201, and nothing from then on."""
        if request.method == "POST":
            self.made = msgspec.json.decode(await request.read())
            return web.json_response(self.made, status=201)
        if self.made:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"kind": "Status", "code": 404}, status=404)


@pytest.fixture
def _in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nine hours ahead of the time that a Lease is written in."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_tokyo")
async def test_the_librarys_election_writes_local_time_and_leaves_its_leader_behind() -> None:
    """K17: local time as UTC; a lost connection ends the election without stopping the leader."""
    led: list[asyncio.Task[object] | None] = []
    lease = OneLease()

    async def lead() -> None:
        led.append(asyncio.current_task())
        await asyncio.Event().wait()

    async with library(lease.answer) as client:
        lock = LeaseLock("m", "ns", "me", client)
        config = Config(lock, 15, 10, 2, onstarted_leading=lead, onstopped_leading=lead)
        config.retry_period = 0.05
        with pytest.raises(ClientError):
            await LeaderElection(config).run()
    (task,) = led
    assert task is not None
    assert not task.done()
    task.cancel()
    written = datetime.fromisoformat(lease.made["spec"]["renewTime"])
    ahead_seconds = written.timestamp() - WallClock().now_ns() / 1e9
    assert 8.9 < ahead_seconds / 3600 < 9.1
