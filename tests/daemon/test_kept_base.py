"""A base is kept beside snapshots, and another release starts from it."""

from pathlib import Path

import pytest
from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection
from structlog.testing import capture_logs

from daemon import fold as folding
from daemon import kept_base
from daemon.fold import fold
from daemon.kept_base import keep_base
from daemon.log import tables
from daemon.log.bundle_log import BundleLog
from daemon.log.code_key import KEPT_BASE, code_key
from daemon.log.copying import copy_whole, export
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.queries.archive import archive
from projections.state import State
from tests.daemon.test_retention import no_pause, recorded
from tests.projections.bases import differences


async def with_base(folder: Path) -> SqlLog:
    """A log with snapshots, and a base at the newest one."""
    log = await recorded(folder)
    assert await keep_base(log, no_pause, every=50) == 98
    return log


def as_another_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the snapshots be those of other code from now on."""
    for module in (folding, kept_base):
        monkeypatch.setattr(module, "code_key", lambda: "another release")


async def test_another_release_starts_from_the_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await recorded(tmp_path)
    expected = await fold(log)
    positions = await log.snapshot_positions(code_key())
    await keep_base(log, no_pause, every=50)
    as_another_release(monkeypatch)
    read: list[int] = []
    state = await fold(log, progress=read.append)
    assert read == []
    assert differences(expected, state) == []
    state.validate()
    before = await fold(log, until=positions[0])
    assert before.position == positions[0], "there is no base so early: records are folded"
    await log.close()


async def test_a_base_is_kept_once_there_are_enough_records(tmp_path: Path) -> None:
    log = await recorded(tmp_path)
    assert await keep_base(log, no_pause, every=99) is None
    assert await keep_base(log, no_pause, every=98) == 98
    assert await keep_base(log, no_pause, every=1) is None, "it is the newest one"
    assert await log.snapshot_positions(KEPT_BASE) == [98]
    await log.close()


async def test_of_bases_the_newest_are_kept_and_snapshots_stay(tmp_path: Path) -> None:
    log = await recorded(tmp_path)
    snapshots = await log.snapshot_positions(code_key())
    for position in snapshots[-3:]:
        snapshot = await log.latest_snapshot(code_key(), before=position)
        assert snapshot is not None
        await log.save_snapshot(position, snapshot.digest, KEPT_BASE, b"x")
    assert await log.snapshot_positions(KEPT_BASE) == snapshots[-2:]
    assert await log.snapshot_positions(code_key()) == snapshots
    newest = await log.latest_snapshot(code_key())
    assert newest is not None
    await log.save_snapshot(newest.position, newest.digest, "another release", newest.payload)
    assert await log.snapshot_positions(KEPT_BASE) == snapshots[-2:]
    await log.close()


async def test_a_base_that_cannot_be_folded_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await with_base(tmp_path)
    kept = await log.latest_snapshot(KEPT_BASE)
    assert kept is not None
    changed = kept.payload[:-20] + b"x" * 20
    await log.save_snapshot(kept.position, kept.digest, KEPT_BASE, changed)
    as_another_release(monkeypatch)
    with capture_logs() as lines:
        state = await fold(log)
    assert [one["event"] for one in lines] == ["a base is passed over"]
    assert isinstance(state, State)
    assert state.position == 98
    await log.close()


async def test_no_base_is_kept_where_an_object_was_redacted(tmp_path: Path) -> None:
    log = await recorded(tmp_path)
    await export(log, tmp_path / "less.muster", redact=frozenset({"Pod"}))
    less = await open_log(str(tmp_path / "less.db"), "write")
    assert isinstance(less, SqlLog)
    await copy_whole(BundleLog(tmp_path / "less.muster"), less)
    snapshot = await log.latest_snapshot(code_key())
    assert snapshot is not None
    await less.save_snapshot(snapshot.position, snapshot.digest, snapshot.code, snapshot.payload)
    assert await keep_base(less, no_pause, every=50) is None
    await less.close()
    await log.close()


async def test_no_base_is_kept_of_what_is_archived_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = await recorded(tmp_path)

    async def drop_later_snapshots(connection: AsyncConnection) -> None:
        table = tables.snapshot
        await connection.execute(delete(table).where(table.c.position > 60))

    await log.run(drop_later_snapshots)
    save = log.save_snapshot

    async def save_late(position: int, digest: str, code: str, payload: bytes) -> None:
        await archive(log, tmp_path / "archive.muster", 90)
        await save(position, digest, code, payload)

    monkeypatch.setattr(log, "save_snapshot", save_late)
    assert await keep_base(log, no_pause, every=30) is None
    assert log.base.position > 60
    assert await log.snapshot_positions(KEPT_BASE) == []
    await log.close()
