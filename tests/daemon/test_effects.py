"""Requests that write the same fields of an object never overlap, and an older one never comes last."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from daemon.effects import TELLING_MAX, Effects
from events.messages import (
    Accepted,
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
    """No time passes."""

    def elapsed_ns(self) -> int:
        return 0


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
