"""Retention: what is older than the settings say goes into an archive, up to a snapshot."""

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from daemon.log.bundle_log import BundleLog
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.log.verify import verify
from daemon.queries.history import write_snapshots
from daemon.queries.moments import recorded_at_ns
from daemon.queries.replay import replay_log
from daemon.retention import Retention, archive_old, keep_retained
from daemon.settings import read_settings
from daemon.simulation import simulate
from events.errors import SettingsError
from simulator.scenario import parse_scenario
from tests.checkout import ROOT

SCENARIO = (ROOT / "docs" / "examples" / "node_fault.yaml").read_text(encoding="utf-8")
SECOND_NS = 1_000_000_000


async def no_pause() -> None:
    await asyncio.sleep(0)


async def recorded(folder: Path) -> SqlLog:
    """A log of 98 records over 260 s, with snapshots."""
    log = await open_log(str(folder / "a.db"), "write")
    assert isinstance(log, SqlLog)
    await simulate(parse_scenario(SCENARIO, "test"), log, with_views=True)
    await write_snapshots(log, 10)
    return log


async def test_what_is_older_is_archived_up_to_a_snapshot(tmp_path: Path) -> None:
    log = await recorded(tmp_path)
    end_ns = await recorded_at_ns(log, 98)
    retention = Retention(120 * SECOND_NS, tmp_path, block_ns=60 * SECOND_NS)
    assert await archive_old(log, retention, end_ns - 100 * SECOND_NS, no_pause) is None
    archived = await archive_old(log, retention, end_ns, no_pause)
    assert archived is not None
    assert log.base == archived.head
    assert await recorded_at_ns(log, log.base.position + 1) > end_ns - 200 * SECOND_NS
    (path,) = await asyncio.to_thread(lambda: list(tmp_path.glob("*.muster")))
    assert path.name == f"log-{1:012}-{log.base.position:012}.muster"
    assert (await verify(BundleLog(path))).records == log.base.position
    assert (await verify(log)).records == 98 - log.base.position
    assert (await replay_log(log)).divergence is None
    assert await archive_old(log, retention, end_ns, no_pause) is None
    await log.close()


async def test_a_folder_without_room_is_said_and_tried_again(tmp_path: Path) -> None:
    log = await recorded(tmp_path)
    folder = tmp_path / "gone"
    end_ns = await recorded_at_ns(log, 98)
    retention = Retention(60 * SECOND_NS, folder, block_ns=0)
    checks = 0

    def now_ns() -> int:
        nonlocal checks
        checks += 1
        if checks == 2:
            folder.mkdir()
        if checks == 3:
            raise asyncio.CancelledError
        return end_ns

    with capture_logs() as lines, suppress(asyncio.CancelledError):
        async with asyncio.timeout(10):
            await keep_retained(log, retention, now_ns, lambda: 0, check_seconds=0.0)
    events = [one["event"] for one in lines if "archived" in one["event"]]
    assert events == ["the log was not archived", "archived a part of the log"]
    assert log.base.position > 0
    await log.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("retain_days: 7", "retain_days needs archive_folder"),
        ("retain_days: -1", "retain_days must not be less"),
        ("{retain_days: 7, archive_folder: nowhere}", "is no folder"),
        ("{retain_days: 7, archive_folder: ., snapshot_every: 0}", "needs snapshots"),
    ],
)
def test_settings_without_a_place_for_archives_are_refused(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "muster.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        read_settings(path)
