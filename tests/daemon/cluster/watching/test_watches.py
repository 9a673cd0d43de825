"""All kinds together: order, back-pressure, and kinds that fail (K3.11)."""

import asyncio
from collections.abc import Mapping

from daemon.cluster.client.calls import WATCHED, Call
from daemon.cluster.client.errors import ForbiddenError, UnreachableError
from daemon.cluster.watching.list_order import ListOrder
from daemon.cluster.watching.message_buffer import MessageBuffer
from daemon.cluster.watching.watches import Watches
from events.errors import ClusterError
from events.messages import DeletionSeen, ListCompleted, ObjectSeen
from projections.api_resource import Resource
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.priority_class import PRIORITY_CLASSES
from tests.daemon.cluster.watching.api import Api
from tests.daemon.cluster.watching.builders import middling, running
from tests.daemon.cluster.watching.virtual import virtual


class Slow(Api):
    """A server whose list of nodes takes long."""

    def __init__(self, served: tuple[Resource, ...]) -> None:
        super().__init__(served)
        self.may_answer = asyncio.Event()

    async def request(
        self, call: Call, *, query: Mapping[str, str], deadline_seconds: float, namespace: str = ""
    ) -> bytes:
        """A page of a list."""
        if call.resource == NODES:
            await self.may_answer.wait()
        return await super().request(
            call, query=query, deadline_seconds=deadline_seconds, namespace=namespace
        )


def test_lists_are_taken_in_in_a_fixed_order_however_they_arrive() -> None:
    """K4: lists in a fixed order, then watch events in the order in which they arrive."""

    async def story() -> None:
        api = Slow(WATCHED)
        api.put("n", NODES)
        async with running(api, resources=WATCHED) as daemon:
            assert daemon.seen.lists == []
            assert len(api.requests("list pods")) == 1
            api.may_answer.set()
            await asyncio.sleep(1)
            assert daemon.seen.lists == [one.name for one in WATCHED]
            assert daemon.seen.names("Node") == {"n"}

    virtual(story())


def test_a_kind_that_fails_does_not_hold_the_others_back() -> None:
    async def story() -> None:
        api = Api(WATCHED)
        refusal = ForbiddenError("list nodes", 403, "Forbidden")
        api.spoil = lambda what, query: refusal if what == "list nodes" else None
        async with running(api, resources=WATCHED) as daemon:
            assert daemon.seen.lists == [one.name for one in WATCHED if one != NODES]
            api.spoil = lambda what, query: None
            await asyncio.sleep(70)
            assert daemon.seen.lists[-1] == "Node"
            assert {one.state for one in daemon.watches.health()} == {"watching"}

    virtual(story())


def test_events_of_all_kinds_come_in_arrival_order() -> None:
    """K4: in the fixed order of kinds."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            before = len(daemon.seen.messages)
            for index in range(20):
                api.put(f"p{index}", (PODS, NODES, PRIORITY_CLASSES)[index % 3])
                await asyncio.sleep(0.01)
            api.delete("p0")
            await asyncio.sleep(0.01)
            *shown, gone = daemon.seen.messages[before:]
            names = [one.raw.split(b'"name":"')[1].split(b'"')[0] for one in shown]  # type: ignore[union-attr]
            assert names == [b"p%d" % index for index in range(20)]
            assert isinstance(gone, DeletionSeen)

    virtual(story())


def test_watches_stop_reading_when_the_consumer_does_not_read() -> None:
    """Memory is bounded: what the loop does not take in is left with the server."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            daemon.may_read.clear()
            api.put("wakes the reader")
            await asyncio.sleep(1)
            for index in range(100):
                api.put(f"p{index}", size=2**20)
            await asyncio.sleep(300)
            assert api.stream().chunks.qsize() > 30
            daemon.may_read.set()
            await asyncio.sleep(1)
            assert len(daemon.seen.names()) == 101
            assert daemon.seen.closed() == []

    virtual(story())


def test_an_unreachable_server_is_waited_for() -> None:
    """Server unreachable at start: no list, no traceback, no hot loop."""

    async def story() -> None:
        api = Api()
        api.put("a")

        def away(what: str, query: Mapping[str, str]) -> ClusterError:
            return UnreachableError("https://nowhere: connection refused")

        api.spoil = away
        async with running(api) as daemon:
            await asyncio.sleep(600)
            assert daemon.seen.of(ListCompleted) == []
            assert daemon.health().reason == "https://nowhere: connection refused"
            asked = [at for at, what, _ in api.asked if what == "list pods"]
            assert len(asked) < 60
            assert daemon.health().state_seconds <= 610
            api.spoil = lambda what, query: None
            await asyncio.sleep(31)
            assert daemon.seen.names() == {"a"}

    virtual(story())


def test_nothing_is_asked_before_it_is_said_what_is_known() -> None:
    async def story() -> None:
        api = Api()
        watches = Watches(api, middling)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(watches.run())
            await asyncio.sleep(60)
            assert api.asked == []
            running.cancel()

    virtual(story())


def test_what_is_put_together_is_taken_together_and_a_closed_intake_gives_nothing() -> None:
    """K2.5: a list is one piece, whatever its size."""

    async def story() -> None:
        intake = MessageBuffer(bytes_max=10)
        await intake.put([ObjectSeen(b"x"), ObjectSeen(b"y")], 1000)
        async with asyncio.TaskGroup() as tasks:
            late = tasks.create_task(intake.put([ObjectSeen(b"z")], 1))
            await asyncio.sleep(1)
            assert not late.done()
            assert await intake.take() == [ObjectSeen(b"x"), ObjectSeen(b"y")]
            assert await intake.take() == [ObjectSeen(b"z")]
            reader = tasks.create_task(intake.take())
            await asyncio.sleep(1)
            intake.close()
            assert await reader == []
            await intake.put([ObjectSeen(b"too late")])
            assert await intake.take() == []

    virtual(story())


def test_a_turn_comes_when_all_before_have_passed() -> None:
    async def story() -> None:
        turns = ListOrder("abc")
        async with asyncio.TaskGroup() as tasks:
            third = tasks.create_task(turns.wait("c"))
            turns.passed("b")
            await asyncio.sleep(1)
            assert not third.done()
            turns.passed("a")
            await asyncio.sleep(1)
            assert third.done()

    virtual(story())
