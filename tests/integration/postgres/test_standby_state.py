"""The standby: what it has folded is what a cold start would fold, whenever it is asked."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pytest

from daemon.log.code_key import code_key
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.snapshots import payload_of
from events.errors import DamagedLogError, LogUnavailableError, NewerRecordError
from tests.daemon.standing_by import (
    LONGER_SLICE,
    follower,
    following,
    must_equal_a_cold_fold,
    until,
    write,
)
from tests.integration.postgres.conftest import execute
from tests.integration.postgres.server import Server


@pytest.fixture
async def log(url: str) -> AsyncIterator[Log]:
    log = await open_log(url, "write")
    yield log
    await log.close()


async def test_a_standby_that_was_there_all_along_takes_over_warm(log: Log, url: str) -> None:
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
        await write(log)
        await until(lambda: standby.position == log.head.position)
    warm = await standby.hand_over(await log.take_over("next"))
    assert warm is not None
    await must_equal_a_cold_fold(warm, log)
    await standby.close()


async def test_a_standby_that_comes_in_the_middle_takes_over_warm(log: Log, url: str) -> None:
    """Rows of views are read at one moment, and State is brought to just that moment."""
    standby = follower(url)
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(write(log, LONGER_SLICE))
        await until(lambda: log.head.position > 300)
        async with following(standby):
            await until(lambda: standby.is_ready)
            assert not writing.done()
            await writing
    warm = await standby.hand_over(await log.take_over("next"))
    assert warm is not None
    await must_equal_a_cold_fold(warm, log)
    await standby.close()


async def test_a_standby_that_begins_with_a_snapshot_takes_over_warm(log: Log, url: str) -> None:
    first = follower(url)
    async with following(first):
        await write(log)
        await until(lambda: first.position == log.head.position)
    engine = await first.hand_over(log.head)
    await first.close()
    assert engine is not None
    kept = payload_of(engine.state)
    await log.save_snapshot(log.head.position, log.head.digest, code_key(), kept)
    second = follower(url)
    async with following(second):
        await until(lambda: second.is_ready)
    warm = await second.hand_over(await log.take_over("next"))
    assert warm is not None
    await must_equal_a_cold_fold(warm, log)
    await second.close()


async def test_what_came_after_the_last_look_is_read_at_take_over(log: Log, url: str) -> None:
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
    await write(log)
    assert standby.position == 0
    warm = await standby.hand_over(await log.take_over("next"))
    assert warm is not None
    await must_equal_a_cold_fold(warm, log)
    await standby.close()


async def test_a_step_is_given_away_once(log: Log, url: str) -> None:
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
    assert await standby.hand_over(log.head) is not None
    assert await standby.hand_over(log.head) is None
    await standby.close()


async def test_a_standby_without_a_log_stands_and_hands_nothing_over(server: Server) -> None:
    """The first leader creates the log."""
    await execute(server, "CREATE DATABASE bare")
    url = server.url("bare")
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
        assert "is not a muster log" in standby.reason
        log = await open_log(url, "write")
        assert await standby.hand_over(log.head) is None
        await until(lambda: standby.reason == "")
    assert await standby.hand_over(log.head) is not None
    await standby.close()
    await log.close()
    await execute(server, "DROP DATABASE bare WITH (FORCE)")


async def test_a_standby_whose_views_were_not_kept_up_hands_nothing_over(
    log: Log, url: str
) -> None:
    await write(log)
    await log.clear_views()
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.position == log.head.position)
    assert await standby.hand_over(await log.take_over("next")) is None
    await standby.close()


async def test_views_of_another_release_are_no_reason_not_to_stand(log: Log, url: str) -> None:
    await write(log)
    await run(url, "UPDATE projection SET version = 99 WHERE name = 'placement'")
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
    assert "rebuilt" in standby.reason
    assert await standby.hand_over(log.head) is None
    await standby.close()


async def test_it_says_how_far_it_is_behind(log: Log, url: str) -> None:
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
        assert standby.lag.records == 0
        await write(log)
        await until(lambda: standby.position == log.head.position)
        assert (standby.lag.records, standby.lag.seconds) == (0, 0.0)
    await standby.close()


async def test_a_damaged_log_ends_it_and_the_position_is_named(log: Log, url: str) -> None:
    await write(log)
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
    position = log.head.position + 1
    await run(
        url,
        "INSERT INTO log (position, batch, epoch, recorded_at_ns, kind, subject, body, digest) "
        "SELECT position + 1, position + 1, 9, 0, 'object_observed.v1', 'Pod/a/b', '{}', 'made up' "
        "FROM log_head",
        "UPDATE log_head SET position = position + 1, digest = 'made up'",
    )
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(10), following(standby):
            await asyncio.Event().wait()
    assert f"position {position}" in str(only(caught.value, DamagedLogError))
    await standby.close()


async def test_a_record_of_a_newer_release_ends_it(log: Log, url: str) -> None:
    await write(log)
    standby = follower(url)
    async with following(standby):
        await until(lambda: standby.is_ready)
    await run(url, "UPDATE log_head SET format = 99")
    with pytest.raises(ExceptionGroup) as caught:
        async with asyncio.timeout(10), following(standby):
            await asyncio.Event().wait()
    assert "format 99" in str(only(caught.value, NewerRecordError))
    await standby.close()


async def test_a_log_that_is_away_is_waited_for_and_says_so(log: Log, url: str) -> None:
    standby = follower(url)
    away = True
    refresh = None

    async def failing() -> object:
        if away:
            raise LogUnavailableError("the database is away")
        assert refresh is not None
        return await refresh()

    async with following(standby):
        await until(lambda: standby.is_ready)
    reading = standby._log  # noqa: SLF001  # to break the connection where it is
    assert reading is not None
    refresh = reading.refresh
    reading.refresh = failing  # type: ignore[method-assign,assignment]
    async with following(standby):
        await until(lambda: standby.reason != "")
        assert (standby.reason, standby.is_ready) == ("the database is away", False)
        await write(log)
        away = False
        await until(lambda: standby.is_ready and standby.position == log.head.position)
    warm = await standby.hand_over(await log.take_over("next"))
    assert warm is not None
    await must_equal_a_cold_fold(warm, log)
    await standby.close()


async def run(url: str, *statements: str) -> None:
    """Change the database behind everyone's back, in one transaction."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            for statement in statements:
                await connection.execute(statement)
    finally:
        await connection.close()


def leaves(error: BaseException) -> Iterator[BaseException]:
    """What went wrong, out of the groups around it."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from leaves(one)
    else:
        yield error


def only(group: BaseException, kind: type[Exception]) -> BaseException:
    """The first of a group in which there is nothing but this kind: several tasks may find it."""
    found = list(leaves(group))
    assert {type(one) for one in found} == {kind}
    return found[0]
