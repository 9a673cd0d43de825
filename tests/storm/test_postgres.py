"""The same storms with the log in PostgreSQL, which goes away in the middle, or was never there."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.log.opening import open_log
from events.errors import FencedError
from tests.integration.postgres.conftest import execute, started
from tests.integration.postgres.server import Server
from tests.storm.arrivals import write_storm
from tests.storm.daemon_process import MakeDaemon
from tests.storm.judge import journal
from tests.storm.test_killed import killed_in_a_storm, weathered

pytestmark = pytest.mark.postgres

SEED = 21
AWAY_SECONDS = 3.0
AWAY = "the log cannot be written"
BACK = "the log is back"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that these tests may stop."""
    server = started()
    yield server
    server.close()


async def test_a_daemon_killed_at_any_moment_goes_on_in_postgresql(
    tmp_path: Path, server: Server, make_daemon: MakeDaemon
) -> None:
    async def new_log(name: str) -> str:
        await execute(server, f"CREATE DATABASE {name}")
        return server.url(name)

    verdict = await killed_in_a_storm(
        *(tmp_path, make_daemon, new_log),
        seconds=6,
        waves_per_second=4,
        kills=3,
        rounds=0,  # tests/daemon/cli/test_run.py dies at the named points.
        seed=SEED,
    )
    assert 4 <= verdict.starts <= verdict.epoch <= 5, verdict


async def test_nothing_is_lost_when_postgresql_goes_away_and_returns(
    tmp_path: Path, server: Server, make_daemon: MakeDaemon
) -> None:
    await execute(server, "CREATE DATABASE away")
    path = tmp_path / "storm.json"
    scenario = write_storm(path, seconds=5, waves_per_second=4)
    daemon = make_daemon(server.url("away"), path)
    await daemon.start()
    await daemon.until_told("pod bound", times=10)
    await asyncio.to_thread(server.crash)
    await daemon.until_told(AWAY)
    before = len(journal(daemon.world)[0])
    await asyncio.sleep(AWAY_SECONDS)
    assert len(journal(daemon.world)[0]) == before, "it went on without its log"
    await asyncio.to_thread(server.recover)
    await daemon.until_told(BACK)
    verdict = await weathered(daemon, scenario, is_running=True)
    # It began again in its epoch.
    assert (verdict.starts, verdict.epoch) == (2, 1), verdict


async def test_a_daemon_with_an_unavailable_log_stops_on_sigterm(
    tmp_path: Path, server: Server, make_daemon: MakeDaemon
) -> None:
    await execute(server, "CREATE DATABASE stopped")
    path = tmp_path / "storm.json"
    scenario = write_storm(path, seconds=4, waves_per_second=4)
    daemon = make_daemon(server.url("stopped"), path)
    await daemon.start()
    await daemon.until_told("pod bound", times=4)
    await asyncio.to_thread(server.crash)
    await daemon.until_told(AWAY)
    code = await daemon.stop()
    await asyncio.to_thread(server.recover)
    assert code == 0, daemon.told[-2000:]
    assert "Traceback" not in daemon.told
    await weathered(daemon, scenario)


async def test_a_server_that_is_away_at_the_start_is_said_in_one_line(
    tmp_path: Path, server: Server, make_daemon: MakeDaemon
) -> None:
    await execute(server, "CREATE DATABASE absent")
    path = tmp_path / "storm.json"
    write_storm(path, seconds=1, waves_per_second=1)
    daemon = make_daemon(server.url("absent"), path)
    await asyncio.to_thread(server.crash)
    try:
        await daemon.start()
        assert await daemon.died() == 3
    finally:
        await asyncio.to_thread(server.recover)
    (line,) = daemon.told.splitlines()
    assert line.startswith("muster: error: postgresql://"), line
    assert "absent" in line


async def test_a_second_daemon_takes_the_log_and_the_first_stops(
    tmp_path: Path, server: Server, make_daemon: MakeDaemon
) -> None:
    await execute(server, "CREATE DATABASE shared")
    path = tmp_path / "storm.json"
    write_storm(path, seconds=4, waves_per_second=8)
    first = make_daemon(server.url("shared"), path)
    await first.start()
    await first.until_told("pod bound")
    await take_over(server.url("shared"))
    assert await first.died() == 3
    last = first.told.splitlines()[-1]
    assert last.startswith("muster: error: postgresql://"), last
    assert "someone else writes this log" in last


async def take_over(url: str) -> None:
    """Begin an epoch between two appends of the current writer."""
    log = await open_log(url, "write")
    for _ in range(50):
        try:
            await log.take_over("another")
            break
        except FencedError:
            await log.reopen()
    await log.close()
