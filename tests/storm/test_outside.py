"""What else befalls a daemon: a full disk, a second daemon, and being asked to leave."""

import asyncio
import resource
from pathlib import Path

import pytest

from daemon.log.opening import open_log
from tests.storm.arrivals import write_storm
from tests.storm.daemon_process import MakeDaemon, chance
from tests.storm.judge import entries_of, replayed
from tests.storm.test_killed import weathered
from tests.storm.test_postgres import AWAY, BACK

SEED = 22
ROOM_BYTES = 512 * 1024
"""What a file may grow to on the full disk: the log is beyond it by then, the world is not."""


async def test_a_daemon_on_a_full_disk_waits_for_room(
    tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    """A limit on the size of its files stands for the disk: SQLite is told much the same by both."""
    path, log = tmp_path / "storm.json", tmp_path / "log.db"
    scenario = write_storm(path, seconds=6, waves_per_second=6)
    daemon = make_daemon(str(log), path)
    await daemon.start()
    await daemon.until_told()
    written = tmp_path / "log.db-wal"
    while written.stat().st_size < 2 * ROOM_BYTES:  # noqa: ASYNC110 - another process writes it
        await asyncio.sleep(0.02)
    limits = resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, (ROOM_BYTES, limits[1]))
    await daemon.until_told(AWAY)
    await asyncio.sleep(1.5)
    resource.prlimit(daemon.pid, resource.RLIMIT_FSIZE, limits)
    await daemon.until_told(BACK, times=daemon.told.count(AWAY))
    verdict = await weathered(daemon, scenario, is_running=True)
    assert verdict.epoch == 1, verdict


async def test_a_second_daemon_on_one_file_reports_the_lock_holder(
    tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    path, log = tmp_path / "storm.json", str(tmp_path / "log.db")
    write_storm(path, seconds=1, waves_per_second=1)
    first, second = make_daemon(log, path), make_daemon(log, path)
    await first.start()
    await first.until_told()
    await second.start()
    assert await second.died() == 3
    assert second.told == f"muster: error: {log} is held by process {first.pid}\n"
    assert await first.stop() == 0


async def test_a_daemon_that_is_asked_to_leave_leaves_nothing_open(
    tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    path, url = tmp_path / "storm.json", str(tmp_path / "log.db")
    scenario = write_storm(path, seconds=4, waves_per_second=5)
    daemon = make_daemon(url, path)
    for index in range(3):
        await daemon.start()
        await daemon.until_told()
        await asyncio.sleep(chance(SEED, index))
        assert await daemon.stop() == 0, daemon.told[-2000:]
        assert '"daemon stopped"' in daemon.told.splitlines()[-1]
        log = await open_log(url)
        state = replayed(await entries_of(log))
        await log.close()
        assert not state.commitments
    verdict = await weathered(daemon, scenario)
    assert (verdict.starts, verdict.epoch, verdict.again) == (4, 4, 0), verdict


@pytest.mark.parametrize("moment", [0.0, 0.3, 0.6, 0.9])
async def test_a_daemon_may_be_asked_to_leave_before_it_has_begun(
    tmp_path: Path, make_daemon: MakeDaemon, moment: float
) -> None:
    path, url = tmp_path / "storm.json", str(tmp_path / "log.db")
    write_storm(path, seconds=1, waves_per_second=1)
    daemon = make_daemon(url, path)
    await daemon.start()
    await asyncio.sleep(moment)
    assert await daemon.stop() in (0, -15)
    assert "Traceback" not in daemon.told
