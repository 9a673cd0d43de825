"""PostgreSQL stands still, or is killed and comes back, in the middle of appends."""

import asyncio

import pytest

from daemon.health import LOOP_SECONDS, Health
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.postgres import CLOSE_SECONDS, COMMAND_SECONDS, CONNECT_SECONDS, WRITER_SETTINGS
from daemon.log.session import RECONNECT_SECONDS
from daemon.log.verify import verify
from daemon.notifying_log import LATE_SECONDS, NotifyingLog
from events.errors import LogUnavailableError
from events.record import Record
from tests.daemon.log.builders import batch, pod
from tests.daemon.log.contract import entries
from tests.daemon.standing_by import follower, following, until
from tests.integration.postgres.conftest import execute
from tests.integration.postgres.server import Server

KILLS = 3
PATIENCE_SECONDS = 60.0


class Elapsed:
    """The time of the event loop."""

    def __call__(self) -> int:
        return int(asyncio.get_running_loop().time() * 1_000_000_000)


class Writing:
    """Appends one batch after the other as the loop does: after a failure it begins again from the head."""

    def __init__(self, log: Log) -> None:
        self.inner = log
        self.durable = NotifyingLog(log, Elapsed(), ())
        self.answered: list[Record] = []
        """Records of appends that were answered."""
        self.failures = 0
        self._number = 0

    async def run(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self._number += 1
            made = batch(self.inner.head, [pod(self._number)])
            try:
                await self.durable.append(made)
            except LogUnavailableError:
                self.failures += 1
                await self._reopened()
            else:
                self.answered += made.records
            await asyncio.sleep(0.005)

    async def _reopened(self) -> None:
        while True:
            try:
                await self.durable.reopen()
            except LogUnavailableError:
                await asyncio.sleep(0.2)
            else:
                return


async def judged(log: Log, answered: list[Record]) -> None:
    """The log is whole, holds all that was answered, and nothing twice."""
    await verify(log)
    found = [entry.record for entry in await entries(log)]
    assert len({record.subject for record in found}) == len(found)
    held = {record.position: record for record in found}
    assert [held.get(record.position) for record in answered] == answered


async def grown(writing: Writing, by: int) -> None:
    """Wait until so many more appends are answered."""
    enough = len(writing.answered) + by
    await until(lambda: len(writing.answered) >= enough)


@pytest.fixture
async def own_url(own_server: Server) -> str:
    await execute(own_server, "CREATE DATABASE mine")
    return own_server.url("mine")


async def test_a_server_that_stands_still_is_a_reason_not_to_be_ready_and_loses_nothing(
    own_server: Server, own_url: str
) -> None:
    log = await open_log(own_url, "write")
    writing, stop = Writing(log), asyncio.Event()
    health = Health(Elapsed())
    health.clear("start")
    standby = follower(own_url)
    async with asyncio.timeout(PATIENCE_SECONDS), following(standby):
        with health.asking(writing.durable):
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(writing.run(stop))
                await grown(writing, 20)
                await until(lambda: standby.is_ready)
                assert health.is_ready
                with own_server.standing_still():
                    await until(lambda: not health.is_ready)
                    assert health.reasons["log"].startswith("no answer to an append for")
                    await until(lambda: not standby.is_ready)
                    assert "no answer from the log for" in standby.reason
                await grown(writing, 5)
                await until(lambda: health.is_ready and standby.is_ready)
                stop.set()
    await standby.close()
    await judged(log, writing.answered)
    await log.close()


async def test_a_server_that_is_killed_again_and_again_loses_and_doubles_nothing(
    own_server: Server, own_url: str
) -> None:
    log = await open_log(own_url, "write")
    writing, stop = Writing(log), asyncio.Event()
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(writing.run(stop))
        for _ in range(KILLS):
            await grown(writing, 20)
            failures = writing.failures
            await asyncio.to_thread(own_server.kill)
            await asyncio.to_thread(own_server.restart)
            await grown(writing, 5)
            # An append whose answer was lost is found out by reading, and is then no failure.
            assert writing.failures - failures <= 1
        stop.set()
    await judged(log, writing.answered)
    await log.close()


async def test_a_log_is_closed_although_its_server_stands_still(
    own_server: Server, own_url: str
) -> None:
    log = await open_log(own_url, "write")
    assert await entries(log) == []
    with own_server.standing_still():
        async with asyncio.timeout(4 * CLOSE_SECONDS + CONNECT_SECONDS):
            await log.close()


def test_no_wait_for_the_log_lets_the_loop_be_taken_for_dead() -> None:
    """One append, from its call until it has failed; the loop beats before and after."""
    assert COMMAND_SECONDS + RECONNECT_SECONDS + CONNECT_SECONDS < LOOP_SECONDS
    assert LATE_SECONDS < COMMAND_SECONDS
    seconds = int(WRITER_SETTINGS["statement_timeout"].removesuffix("s"))
    assert seconds < COMMAND_SECONDS
