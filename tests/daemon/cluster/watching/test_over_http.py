"""The reflectors through the client, over HTTP, on both servers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from secrets import SystemRandom
from typing import Final

import pytest

from daemon.cluster.client.calls import WATCHED, Call
from daemon.cluster.client.credentials import Access
from daemon.cluster.client.http_client import Client
from daemon.cluster.server.simulated_api_server import running_server
from daemon.cluster.watching.client_protocol import WatchedKind
from daemon.cluster.watching.health import WatchState
from daemon.cluster.watching.list_order import ListOrder
from daemon.cluster.watching.message_buffer import KindSink, MessageBuffer
from daemon.cluster.watching.rate_limit import RateLimit
from daemon.cluster.watching.reflector import KindState, Reflector
from daemon.cluster.watching.watches import Watches
from events.messages import ListCompleted, ResumePoint
from events.watch import ServerDiscovered, WatchClosed, WatchOpened
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from simulator.api_server.access_control import User
from simulator.api_server.api import Behaviour
from simulator.api_server.faults import LIST, WATCH, Fault, FaultContext, FaultKind, SeededFaults
from simulator.scenario import Scenario
from tests.contract.served import Served, on_real, on_simulated
from tests.control_plane.api import Api, Object
from tests.control_plane.manifests import node, pod
from tests.daemon.cluster.watching.api import Follower
from tests.daemon.cluster.watching.builders import since

BOUND_SECONDS: Final = 30.0
ALL: Final = {one.name for one in WATCHED}
_numbers = count(1)


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.apiserver)])
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    """A server, with a namespace that the test has to itself."""
    name = f"watching-{next(_numbers)}"
    if request.param == "real":
        async with on_real(request.getfixturevalue("cluster"), name) as served:
            yield served
    else:
        async with on_simulated(name, tmp_path) as served:
            yield served


class Reader:
    """Watches, and what a reader has made of them."""

    def __init__(self, watches: Watches) -> None:
        self.watches = watches
        self.seen = Follower()

    async def read(self) -> None:
        """Take in what comes."""
        async for taken in self.watches.messages():
            self.seen.take(taken)

    async def until(self, is_so: Callable[[], bool], seconds: float = BOUND_SECONDS) -> None:
        """Return when something is so, within a bound."""
        async with asyncio.timeout(seconds):
            while not is_so():  # noqa: ASYNC110 - what is waited for may be anything
                await asyncio.sleep(0.02)

    def is_complete(self) -> bool:
        """Whether every kind has been listed or resumed, and the reader has been told of it."""
        told = {one.resource for one in self.seen.of(WatchOpened)}
        return told >= ALL and all(one.is_listed for one in self.watches.health())

    def names(self, namespace: str, kind: str = "Pod") -> dict[str, str]:
        """Objects of the test's own, and their revisions.

        Other tests' pods are on the same server, and some outlive their test: names tell them apart.
        """
        return {
            name: revision
            for name, revision in self.seen.objects[kind].values()
            if name.startswith(namespace)
        }


@asynccontextmanager
async def reading(
    kubeconfig: Path, progress: Mapping[str, str] | None = None, *, streams_lists: bool = False
) -> AsyncIterator[Reader]:
    """Watches of all kinds, with a reader."""
    client = await Client.connect(Access(kubeconfig), SystemRandom().random, "muster/test")
    watches = Watches(client, SystemRandom().random, streams_lists=streams_lists)
    reader = Reader(watches)
    watches.resume_from(since(progress or {}))
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(watches.run()), tasks.create_task(reader.read())]
            yield reader
            for task in running:
                task.cancel()
    finally:
        await client.close()


async def truth(api: Api, path: str) -> dict[str, str]:
    """Names and revisions, as the server has them."""
    items = await api.items(path)
    return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in items}


async def gone(server: Served, pod: Object) -> None:
    """Delete a pod, and see that the server has nothing of it any more."""
    async with asyncio.timeout(20):
        while True:
            (await server.api.delete(server.path(pod), {"gracePeriodSeconds": 0})).expect(
                200, 202, 404, 409
            )
            if (await server.api.get(server.path(pod))).status == 404:
                return
            await asyncio.sleep(0.2)


async def test_what_is_there_and_what_happens_is_shown(server: Served) -> None:
    """K2, K3."""
    await server.node()
    first = await server.pod(server.unique("a"))
    async with reading(server.kubeconfig) as reader:
        await reader.until(reader.is_complete)
        assert isinstance(reader.seen.messages[0], ServerDiscovered)
        assert set(reader.seen.lists) == ALL
        mine = await truth(server.api, server.pods)
        await reader.until(lambda: mine.items() <= reader.names(server.namespace).items())
        await server.pod(server.unique("b"))
        await server.bind(first, server.unique("node"))
        await gone(server, first)
        await reader.until(lambda: set(reader.names(server.namespace)) == {server.unique("b")})
        assert {one.state for one in reader.watches.health()} == {"watching"}
        assert reader.seen.of(WatchClosed) == []


async def test_a_restart_goes_on_where_the_log_ends(server: Served) -> None:
    """K3.3: resumed from the last durable revision, without a list."""
    await server.node()
    first = await server.pod(server.unique("a"))
    async with reading(server.kubeconfig) as reader:
        await reader.until(reader.is_complete)
        progress = dict(reader.seen.progress)
    await server.pod(server.unique("b"))
    await server.api.delete(server.path(first), {"gracePeriodSeconds": 0})
    async with reading(server.kubeconfig, progress) as reader:
        await reader.until(reader.is_complete)
        await reader.until(lambda: server.unique("b") in reader.names(server.namespace))
        assert reader.seen.lists == []
        assert reader.seen.of(ListCompleted) == []
        assert {one.resource for one in reader.seen.of(WatchOpened) if one.is_resumed} == ALL


async def test_a_revision_that_the_server_has_forgotten_is_a_gap(server: Served) -> None:
    """K3.7: a compacted revision expires; a list follows, and a watch of what that list shows."""
    resource = server.forgetful
    kind = WatchedKind(resource, Call("list", resource), Call("watch", resource))
    old = await make(server, "a")
    await make(server, "b")
    await make(server, "c")
    server.forget()
    client = await Client.connect(Access(server.kubeconfig), SystemRandom().random, "muster/test")
    intake, seen = MessageBuffer(), Follower()
    kept = KindState(RateLimit(SystemRandom().random), WatchState(resource.name))
    sink = KindSink(resource.name, intake, ListOrder([resource.name]))
    backwards: list[str] = []
    progress = ResumePoint(old["metadata"]["resourceVersion"])
    reflector = Reflector(client, kind, sink, kept, backwards.append, progress)
    async with asyncio.timeout(BOUND_SECONDS), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reflector.run())
        while kept.standing.state != "watching":
            seen.take(await intake.take())
        await make(server, "d")
        while "d" not in seen.names(resource.kind):
            seen.take(await intake.take())
        running.cancel()
    await client.close()
    [closed] = seen.of(WatchClosed)
    assert (closed.cause, closed.has_gap) == ("expired", True)
    assert backwards == []
    assert [one.is_resumed for one in seen.of(WatchOpened)] == [False]
    assert {"a", "b", "c", "d"} <= seen.names(resource.kind)


async def make(server: Served, name: str) -> Object:
    """An object of a kind whose history can be taken away."""
    if server.forgetful is PODS:
        return await server.pod(name)
    template = pod(server.namespace, name)
    manifest = {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": template["metadata"],
        "template": {"spec": template["spec"]},
    }
    return await server.api.create(server.forgetful, manifest)


async def test_a_revision_that_the_server_has_not_reached_is_a_gap(server: Served) -> None:
    """K20: where the server's data was set back, a watch from our revision would stay silent."""
    await server.pod(server.unique("a"))
    async with reading(server.kubeconfig, {"Pod": "9" * 17}) as reader:
        await reader.until(reader.is_complete)
        [closed] = [one for one in reader.seen.of(WatchClosed) if one.resource == "Pod"]
        assert (closed.cause, closed.has_gap) == ("revision_went_back", True)
        await reader.until(lambda: server.unique("a") in reader.names(server.namespace))
        assert "Pod" in reader.seen.lists


async def test_lists_are_streamed_where_the_server_can(server: Served) -> None:
    """K3.13."""
    await server.pod(server.unique("a"))
    async with reading(server.kubeconfig, streams_lists=True) as reader:
        await reader.until(reader.is_complete)
        await reader.until(lambda: server.unique("a") in reader.names(server.namespace))
        await server.pod(server.unique("b"))
        await reader.until(lambda: server.unique("b") in reader.names(server.namespace))
        assert reader.seen.lists.count("Pod") == 1


class ReadersOnly:
    """Faults of lists and watches, without those that cause a delay of minutes."""

    def __init__(self, seed: int) -> None:
        kinds = tuple({*LIST, *WATCH} - {FaultKind.STALL})
        self._faults = SeededFaults(seed, 300, kinds, watch_events=6)
        self.is_on = True

    def pick(self, ask: FaultContext) -> Fault | None:
        """What befalls a request."""
        is_meant = self.is_on and ask.verb in ("list", "watch")
        return self._faults.pick(ask) if is_meant else None


@pytest.mark.parametrize("seed", range(2))
async def test_nothing_is_lost_or_shown_twice_on_a_server_full_of_faults(
    seed: int, tmp_path: Path
) -> None:
    """K2 to K4, K3.11: every third request is struck, and every watch breaks after some events."""
    faults = ReadersOnly(seed)
    behaviour = Behaviour(has_kubelets=False)
    async with running_server(
        Scenario(name="faults"), behaviour=behaviour, faults=faults
    ) as server:
        server.access.tokens["token"] = User("admin")
        kubeconfig = server.kubeconfig(tmp_path / "config", "token")
        async with reading(kubeconfig) as reader, Api.of(kubeconfig) as api:
            for index in range(40):
                await api.create(PODS, pod("default", f"p{index}"))
                if index % 4 == 0:
                    await api.create(NODES, node(f"n{index}"))
                await asyncio.sleep(0.1)
            faults.is_on = False
            pods, nodes = await truth(api, PODS.path), await truth(api, NODES.path)
            assert (len(pods), len(nodes)) == (40, 10)
            await reader.until(lambda: reader.names("") == pods, 90)
            await reader.until(lambda: reader.names("", "Node") == nodes, 90)
            assert all(one.restarts for one in reader.watches.health() if one.resource == "Pod")
            assert all(server.shell.journal.busiest_minute(one) <= 60 for one in ("pods", "nodes"))
