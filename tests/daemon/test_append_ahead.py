"""Batches ahead of the log are written in order, together, and within bounds; if one fails, all have failed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from daemon import append_ahead
from daemon.append_ahead import AppendAhead
from engine.batch import Batch
from events.errors import LogUnavailableError
from events.record import Head
from tests.daemon.log.builders import batches

START = Head(0, "0" * 64, 1)


class SlowLog:
    """A log that answers when it may, and fails from a position on."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self._asked = asyncio.Event()
        self.fails_after: int | None = None
        self.began: list[int] = []
        self.taken: list[int] = []

    async def append(self, *batches: Batch) -> None:
        """Take the batches in."""
        self.began += [batch.after.position for batch in batches]
        self._asked.set()
        await self.may_answer.wait()
        for batch in batches:
            if self.fails_after is not None and batch.after.position > self.fails_after:
                raise LogUnavailableError("away")
            self.taken.append(batch.after.position)

    async def until_began(self, count: int) -> None:
        """Return when so many batches were handed to the log."""
        while len(self.began) < count:
            self._asked.clear()
            await self._asked.wait()


@asynccontextmanager
async def running(log: SlowLog, woken: asyncio.Event | None = None) -> AsyncIterator[AppendAhead]:
    """Write what is handed over, for as long as the block lasts."""
    ahead = AppendAhead(log.append, woken or asyncio.Event(), linger_seconds=0.001)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(ahead.run())
        yield ahead
        task.cancel()


async def test_batches_are_written_in_order_and_all_at_once() -> None:
    log = SlowLog()
    async with running(log) as ahead:
        log.may_answer.clear()
        ahead.hand_over(batches(START, count=5, size=1))
        await log.until_began(5)
        assert log.began == [1, 2, 3, 4, 5], "none waits for the answer to the one before"
        log.may_answer.set()
        await ahead.until_durable()
    assert log.taken == [1, 2, 3, 4, 5]
    assert ahead.durable_count == 5


async def test_what_comes_while_a_group_is_written_goes_into_the_next() -> None:
    log = SlowLog()
    async with running(log) as ahead:
        made = batches(START, count=5, size=1)
        log.may_answer.clear()
        ahead.hand_over(made[:2])
        await log.until_began(2)
        ahead.hand_over(made[2:])
        await asyncio.sleep(0.01)
        assert log.began == [1, 2]
        log.may_answer.set()
        await ahead.until_durable()
    assert log.taken == [1, 2, 3, 4, 5]


async def test_there_is_room_for_a_bounded_number_of_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(append_ahead, "BATCHES_MAX", 3)
    log = SlowLog()
    async with running(log) as ahead:
        log.may_answer.clear()
        made = batches(START, count=4, size=1)
        ahead.hand_over(made[:2])
        await ahead.until_room()
        ahead.hand_over(made[2:3])
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await ahead.until_room()
        log.may_answer.set()
        await ahead.until_room()


async def test_when_a_batch_fails_those_behind_it_are_dropped_and_the_error_is_raised_once() -> (
    None
):
    log, woken = SlowLog(), asyncio.Event()
    async with running(log, woken) as ahead:
        made = batches(START, count=6, size=1)
        log.fails_after = 2
        log.may_answer.clear()
        ahead.hand_over(made[:4])
        await log.until_began(4)
        ahead.hand_over(made[4:])
        log.may_answer.set()
        await woken.wait()
        with pytest.raises(LogUnavailableError):
            await ahead.until_durable()
        await ahead.until_durable()
        assert log.began == [1, 2, 3, 4], "nothing is written behind a hole"
        assert log.taken == [1, 2]
