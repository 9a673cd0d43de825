"""A failover to an older copy of the database under a live daemon, and standbys that read one."""

import asyncio
from pathlib import Path

import pytest

from daemon.log.anchors import Anchor
from daemon.log.lost_records import accept_loss, check_anchors
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from events.errors import LogUnavailableError, LostRecordsError
from tests.daemon.log.builders import RECORDED_AT_NS, batches
from tests.daemon.log.contract import filled
from tests.daemon.standing_by import SLICE, follower, following, until, write
from tests.daemon.test_lost_end import on_a_server
from tests.integration.postgres.conftest import TEMPLATE, execute
from tests.integration.postgres.server import Server

NOW_NS = RECORDED_AT_NS + 1_000_000_000


async def fail_over(server: Server, name: str, older: str) -> None:
    """Put an older copy in the place of a database, and break every connection to it."""
    await execute(server, f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    others = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"  # noqa: S608
    await execute(server, others)
    await execute(server, f"ALTER DATABASE {name} RENAME TO {name}_gone")
    await execute(server, f"ALTER DATABASE {older} RENAME TO {name}")


async def copy(server: Server, name: str, to: str) -> None:
    """Copy a database to which nothing is connected, as a replica that then lags."""
    await execute(server, f"CREATE DATABASE {to} TEMPLATE {name}")


async def written(url: str) -> SqlLog:
    log = await open_log(url, "write")
    assert isinstance(log, SqlLog)
    return log


@pytest.mark.parametrize("goes_on", [False, True])
async def test_an_older_copy_under_an_open_log_stops_the_writer(
    server: Server, *, goes_on: bool
) -> None:
    name = f"failover_{int(goes_on)}"
    await copy(server, TEMPLATE, name)
    log = await written(server.url(name))
    await log.take_over("a")
    await filled(log, count=2)
    await log.close()
    await copy(server, name, f"{name}_older")
    log = await written(server.url(name))
    await filled(log, count=2)
    head = log.head
    await fail_over(server, name, f"{name}_older")
    if goes_on:
        # Another writer made the older copy longer than this one was.
        other = await written(server.url(name))
        await other.take_over("b")
        await filled(other, count=5)
        await other.close()
    with pytest.raises(LogUnavailableError):
        await log.append(batches(head, count=1)[0])
    what = "has digest [0-9a-f]+ at position 8" if goes_on else "ends at position 4, but position 8"
    with pytest.raises(LostRecordsError, match=what):
        await log.reopen()
    with pytest.raises(LostRecordsError):
        await log.reopen()
    await log.close()


async def test_a_failover_is_found_while_nothing_is_appended(server: Server) -> None:
    await copy(server, TEMPLATE, "idle")
    await copy(server, "idle", "idle_older")
    log = await written(server.url("idle"))
    await filled(log, count=1)
    await log.check_end()
    await fail_over(server, "idle", "idle_older")
    with pytest.raises(LogUnavailableError):
        await log.check_end()
    with pytest.raises(LostRecordsError, match="ends at position 0, but position 2"):
        await log.reopen()
    await log.close()


async def test_a_daemon_does_not_go_on_after_a_failover_to_an_older_copy(
    server: Server, tmp_path: Path
) -> None:
    await copy(server, TEMPLATE, "daemon")
    url = server.url("daemon")
    async with on_a_server(tmp_path, url) as setting:
        async with setting.daemon():
            setting.add_pod("a")
            await until(lambda: setting.is_bound("a"))
        await copy(server, "daemon", "daemon_older")

        async def fails_over() -> None:
            async with setting.daemon():
                setting.add_pod("b")
                await until(lambda: setting.is_bound("b"))
                await fail_over(server, "daemon", "daemon_older")
                await asyncio.sleep(60)

        with pytest.raises(BaseExceptionGroup) as group:
            await fails_over()
        assert group.value.subgroup(LostRecordsError), group.value
        setting.add_pod("c")
        error = await setting.refused()
        anchor = setting.anchor()
        assert anchor is not None
        assert f"the Lease muster states that position {anchor.position} was written" in str(error)
        assert not setting.is_bound("c")
        async with setting.daemon(accept_loss=(f"{anchor.position}:{anchor.digest}",)):
            await until(lambda: setting.is_bound("c"))


async def test_a_standby_whose_log_ends_before_the_lease_does_not_lead(url: str) -> None:
    log = await written(url)
    await write(log, SLICE)
    head = log.head
    stated = Anchor(head.position, head.digest, "the Lease muster")
    standby = follower(url, stated_anchor=lambda: stated)
    async with following(standby):
        await until(lambda: standby.is_ready)
        assert standby.may_lead
        # The leader writes on, and the database that this standby reads does not follow.
        stated = Anchor(head.position + 10, "ab" * 32, "the Lease muster")
        assert not standby.may_lead
        await until(lambda: not standby.is_ready)
        assert f"ends at position {head.position}, but the Lease muster states" in standby.reason
        # The loss is accepted there.
        await accept_loss(log, [stated], by="a test", now_ns=NOW_NS * 2)
        await until(lambda: standby.may_lead)
    await log.close()
    await standby.close()


async def test_a_standby_whose_log_loses_its_end_stops(server: Server) -> None:
    await copy(server, TEMPLATE, "follow")
    await copy(server, "follow", "follow_older")
    log = await written(server.url("follow"))
    await write(log, SLICE)
    standby = follower(server.url("follow"))

    async def follows() -> None:
        async with following(standby):
            await until(lambda: standby.is_ready)
            await log.close()
            await fail_over(server, "follow", "follow_older")
            await asyncio.sleep(20)

    with pytest.raises(BaseExceptionGroup) as group:
        await follows()
    assert group.value.subgroup(LostRecordsError), group.value
    await standby.close()


async def test_the_loss_of_what_a_log_holds_is_not_accepted(url: str) -> None:
    log = await written(url)
    await filled(log, count=2)
    await check_anchors(log, [Anchor(4, log.head.digest, "the Lease muster")])
    with pytest.raises(LostRecordsError, match="the log ends at position 4, but the Lease"):
        await check_anchors(log, [Anchor(5, log.head.digest, "the Lease muster")])
    await log.close()
