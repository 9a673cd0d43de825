"""Requests that write the same fields of an object never overlap, and an older one never comes last."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from daemon.effects import IN_FLIGHT_MAX, TELLING_MAX, Effects
from events.messages import (
    Accepted,
    BindRequest,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupCountsRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Reply,
    Request,
)


class SlowActor:
    """Begins requests at once, and ends each when it is told to."""

    def __init__(self) -> None:
        self.begun: list[Request] = []
        self._ends: list[asyncio.Future[None]] = []

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        self.begun.append(request)
        end = asyncio.get_running_loop().create_future()
        self._ends.append(end)
        await end
        return Accepted(), 1

    async def end(self, index: int) -> None:
        self._ends[index].set_result(None)
        await settle()


class Stopwatch:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.ns = 0

    def elapsed_ns(self) -> int:
        return self.ns


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@asynccontextmanager
async def running(actor: SlowActor) -> AsyncIterator[Effects]:
    effects = Effects(actor, Stopwatch(), asyncio.Event())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(effects.run())
        await settle()
        yield effects
        task.cancel()


def counts(decision: int, running: int, uid: str = "g") -> PodGroupCountsRequest:
    return PodGroupCountsRequest(decision, "default", uid, uid, running, 0, 0)


def completed(decision: int) -> PodGroupPhaseRequest:
    return PodGroupPhaseRequest(decision, "default", "g", "g", "Completed", 0, 2, 0)


def of_queue(index: int) -> QueueStatusRequest:
    return QueueStatusRequest(index, f"q{index}", f"q{index}", {})


async def test_a_phase_waits_for_an_update_of_counts_of_the_same_group() -> None:
    """Both write the counts: the older one, repeated after a conflict, would undo the newer one."""
    actor = SlowActor()
    async with running(actor) as effects:
        effects.ask([counts(1, running=1)])
        await settle()
        effects.ask([completed(2)])
        await settle()
        assert actor.begun == [counts(1, running=1)]
        await actor.end(0)
        effects.ask([completed(2)])
        assert len(actor.begun) == 1, "the first answer is not recorded yet"
        assert [one.request for one in effects.take()] == [counts(1, running=1)]
        effects.ask([completed(2)])
        await settle()
        assert actor.begun[1:] == [completed(2)]


async def test_a_phase_takes_the_place_of_an_update_of_counts_that_was_not_begun() -> None:
    """And does not wait behind other status updates."""
    actor = SlowActor()
    async with running(actor) as effects:
        others = [of_queue(index) for index in range(TELLING_MAX)]
        effects.ask([*others, counts(1, running=1)])
        await settle()
        assert actor.begun == others
        effects.ask([completed(2)])
        await settle()
        assert actor.begun == [*others, completed(2)]
        for index in range(len(actor.begun)):
            await actor.end(index)
        assert [one.request for one in effects.take()] == [*others, completed(2)]
        await effects.all_answered()
        assert effects.in_flight == 0


async def test_a_newer_status_replaces_one_that_was_not_begun() -> None:
    actor = SlowActor()
    async with running(actor) as effects:
        others = [of_queue(index) for index in range(TELLING_MAX)]
        effects.ask([*others, counts(1, running=1), counts(2, running=7, uid="h")])
        await settle()
        effects.ask([counts(3, running=2)])
        await actor.end(0)
        await actor.end(1)
        assert actor.begun[len(others) :] == [
            counts(3, running=2),
            counts(2, running=7, uid="h"),
        ]


SECOND_NS = 1_000_000_000


def tenant_of(namespace: str) -> str:
    """All namespaces that begin alike are of one tenant."""
    return namespace[0]


@asynccontextmanager
async def sharing(
    actor: SlowActor,
    stopwatch: Stopwatch | None = None,
    is_moot: Callable[[Request], bool] = lambda _: False,
) -> AsyncIterator[Effects]:
    """Effects of several tenants."""
    stopwatch = stopwatch or Stopwatch()
    effects = Effects(actor, stopwatch, asyncio.Event(), tenant_of=tenant_of, is_moot=is_moot)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(effects.run())
        await settle()
        yield effects
        task.cancel()


def condition(name: str, namespace: str = "a") -> PodConditionRequest:
    return PodConditionRequest(1, namespace, name, f"{namespace}-{name}", "Unschedulable", "")


def binding(name: str, namespace: str) -> BindRequest:
    return BindRequest(1, namespace, name, f"{namespace}-{name}", "n1")


async def test_an_update_that_is_no_longer_due_is_dropped_before_it_is_begun() -> None:
    actor = SlowActor()
    async with sharing(actor) as effects:
        every = [condition(f"p{index}") for index in range(9)]
        effects.ask(every, are_all=True)
        await settle()
        assert actor.begun == every[:4]
        effects.ask([*every[:4], every[8], every[5]], are_all=True)
        assert (effects.queued_status_updates, effects.dropped) == (2, 3)
        for index in range(4):
            await actor.end(index)
        assert actor.begun[4:] == [every[8], every[5]]
        assert effects.in_flight == 2


async def test_an_update_whose_object_is_gone_is_not_begun() -> None:
    actor = SlowActor()
    async with sharing(actor, is_moot=lambda one: one.name == "gone") as effects:
        effects.ask([condition("gone"), condition("here")])
        await settle()
        assert actor.begun == [condition("here")]
        await actor.end(0)
        assert [one.request for one in effects.take()] == [condition("here")]
        await effects.all_answered()
        assert effects.dropped == 1


async def test_tenants_take_turns_and_none_has_all_requests_under_way() -> None:
    actor = SlowActor()
    async with sharing(actor) as effects:
        crowd = [binding(f"p{index}", f"a{index % 5}") for index in range(100)]
        effects.ask([*crowd, binding("p", "b"), binding("q", "b")])
        await settle()
        assert actor.begun[:4] == [crowd[0], binding("p", "b"), crowd[1], binding("q", "b")]
        assert len(actor.begun) == IN_FLIGHT_MAX - IN_FLIGHT_MAX // 4 + 2
        effects.ask([binding("r", "c")])
        await settle()
        assert actor.begun[-1] == binding("r", "c")
        await actor.end(0)
        assert actor.begun[-1].namespace[0] == "a"


async def test_an_object_whose_update_took_long_is_left_alone_for_a_while() -> None:
    actor, stopwatch = SlowActor(), Stopwatch()
    async with sharing(actor, stopwatch) as effects:
        slow, other = condition("huge"), condition("small")
        effects.ask([slow, other])
        await settle()
        await actor.end(1)
        stopwatch.ns = 3 * SECOND_NS
        await actor.end(0)
        effects.take()
        effects.ask([slow, other])
        await settle()
        assert actor.begun == [slow, other, other]
        assert (effects.put_off, effects.resting) == (1, 1)
        stopwatch.ns += 60 * SECOND_NS
        effects.ask([slow])
        await settle()
        assert actor.begun[-1] == slow
        await actor.end(3)
        assert effects.resting == 0


async def test_an_object_whose_updates_are_lost_is_left_alone_longer_each_time() -> None:
    stopwatch = Stopwatch()

    class LosingActor:
        begun = 0

        async def attempt(self, _: Request) -> tuple[Reply, int]:
            self.begun += 1
            return OutcomeUnknown("lost"), 1

    actor = LosingActor()
    async with asyncio.TaskGroup() as group:
        effects = Effects(actor, stopwatch, asyncio.Event(), tenant_of=tenant_of)
        task = group.create_task(effects.run())
        for second in range(64):
            stopwatch.ns = second * SECOND_NS
            effects.ask([condition("huge")])
            await settle()
            effects.take()
        task.cancel()
    assert actor.begun == 7


async def test_bindings_never_rest() -> None:
    actor, stopwatch = SlowActor(), Stopwatch()
    async with sharing(actor, stopwatch) as effects:
        effects.ask([binding("p", "a")])
        await settle()
        stopwatch.ns = 20 * SECOND_NS
        await actor.end(0)
        effects.take()
        effects.ask([binding("p", "a")])
        await settle()
        assert len(actor.begun) == 2


async def test_a_pod_is_being_placed_until_the_answer_is_taken() -> None:
    actor = SlowActor()
    async with running(actor) as effects:
        effects.ask([binding("p", "a"), counts(1, running=1)])
        assert effects.placing == {"a-p": 1}
        await settle()
        await actor.end(0)
        assert effects.placing == {"a-p": 1}, "the answer is not recorded yet"
        assert [one.request for one in effects.take()] == [binding("p", "a")]
        assert effects.placing == {}
