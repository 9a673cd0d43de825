"""A SQLite log that lost its end: nothing is written to it until the loss was accepted."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from structlog.testing import capture_logs

from daemon.log.anchor_file import AnchorFile, read_anchor
from daemon.log.anchors import Anchor
from daemon.log.file_identity import remote_file_system
from daemon.log.lost_records import accept_loss, check_anchors, identity_of, is_accepted, losses
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.log.verify import verify
from events.errors import (
    DamagedLogError,
    FencedError,
    LogUnavailableError,
    LostRecordsError,
    UsageError,
)
from events.record import GENESIS, Head
from tests.daemon.cli.builders import muster
from tests.daemon.log.builders import RECORDED_AT_NS, batches
from tests.daemon.log.contract import entries, filled

NOW_NS = RECORDED_AT_NS + 1_000_000_000


async def written(path: Path, *, is_shortened: bool = False) -> SqlLog:
    """The log at a path, as a daemon opens it."""
    log = await open_log(str(path), "write", is_shortened=is_shortened)
    assert isinstance(log, SqlLog)
    log.keep_anchor()
    return log


async def command(*arguments: str | Path) -> Result:
    """Run a command, which has an event loop of its own."""
    return await asyncio.to_thread(muster, *arguments)


def copied(path: Path, to: Path, *suffixes: str) -> Path:
    """A log as it would be found after a kill at this moment, with some of its files."""
    to.mkdir()
    for suffix in ("", *suffixes):
        shutil.copyfile(f"{path}{suffix}", to / f"{path.name}{suffix}")
    return to / path.name


async def test_a_deleted_write_ahead_log_is_found_by_the_anchor(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = await written(path)
    await log.close()  # Checkpoints.
    log = await written(path)
    await filled(log, count=3)
    head = log.head
    whole = copied(path, tmp_path / "whole", "-wal", ".anchor")
    lost = copied(path, tmp_path / "lost", ".anchor")
    await log.close()

    log = await written(whole)
    assert log.head == head
    await log.close()
    with pytest.raises(LostRecordsError) as error:
        await written(lost)
    assert f"position {head.position}: lost: the log ends at position 0" in str(error.value)
    assert f"accept-loss {lost} --anchor {head.position}:{head.digest}" in str(error.value)
    found = await command("log", "verify", lost)
    assert found.exit_code == 4
    assert "the log ends at 0, but the file log.db.anchor states" in found.stderr


async def written_twice(path: Path) -> tuple[Path, Head]:
    """Write a log in two runs; return a copy of its file after the first, and its head after the second."""
    log = await written(path)
    await filled(log, count=2)
    await log.close()
    older = copied(path, path.parent / "older")
    log = await written(path)
    await filled(log, count=2)
    await log.close()
    return older, log.head


async def test_an_older_file_in_the_place_of_a_log_is_found_by_the_anchor(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    older, newest = await written_twice(path)

    shutil.copyfile(older, path)
    with pytest.raises(LostRecordsError, match=f"{newest.position} was written"):
        await written(path)
    # Written on as by a release that keeps no anchor, it is as long as it was, and another log.
    (tmp_path / "log.db.anchor").rename(tmp_path / "kept")
    other = await open_log(str(path), "write")
    await other.take_over("another")
    await filled(other, count=5)
    await other.close()
    (tmp_path / "kept").rename(tmp_path / "log.db.anchor")
    with pytest.raises(LostRecordsError, match=rf"has digest [0-9a-f]{{64}} at .*{newest.digest}"):
        await written(path)


async def test_a_loss_is_accepted_once_and_recorded(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    older, lost = await written_twice(path)
    shutil.copyfile(older, path)

    held = await open_log(str(older), "write")
    with pytest.raises(UsageError, match="nothing of it is lost"):
        await accept_loss(held, [Anchor(0, GENESIS.digest, "test")], by="a test", now_ns=NOW_NS)
    await held.close()
    anchor = f"{lost.position}:{lost.digest}"
    refused = await command("log", "accept-loss", path, "--anchor", f"{lost.position}:{'0' * 64}")
    assert refused.exit_code == 4, refused.stderr  # Another loss than that which was found.
    accepted = await command("log", "accept-loss", path, "--anchor", anchor)
    assert accepted.exit_code == 0, accepted.stderr
    assert accepted.stdout == f"{path}: positions 5 to {lost.position} are recorded as lost\n"
    again = await command("log", "accept-loss", path, "--anchor", anchor)
    assert again.exit_code == 2

    log = await written(path)
    (found,) = [event for _, event in await losses(log) if event.digest == lost.digest]
    assert (found.first, found.last, found.accepted_by) == (
        5,
        lost.position,
        "muster log accept-loss",
    )
    await check_anchors(log, [Anchor(lost.position, lost.digest, "the Lease")])
    with pytest.raises(LostRecordsError):
        await check_anchors(log, [Anchor(lost.position + 9, lost.digest, "the Lease")])
    await log.close()
    told = await command("tell", path)
    assert "the log lost its end: positions 5 to 8" in told.stdout
    sound = await command("log", "verify", path, "--expect", anchor)
    assert sound.exit_code == 0, sound.stderr
    assert "a loss was accepted: positions 5 to 8 were written" in sound.stdout


@pytest.mark.parametrize(
    ("suffix", "damage", "text"),
    [
        ("", lambda path: path.unlink(), "was deleted while it was open"),
        ("", lambda path: path.rename(f"{path}.old"), "was deleted while it was open"),
        ("-wal", lambda path: path.unlink(), "log.db-wal was deleted"),
        ("-wal", lambda path: (path.unlink(), path.write_bytes(b"")), "log.db-wal was replaced"),
        ("-shm", lambda path: path.unlink(), "log.db-shm was deleted"),
    ],
    ids=["deleted", "moved", "wal-deleted", "wal-replaced", "shm-deleted"],
)
async def test_a_file_that_goes_while_it_is_open_stops_the_writer(
    tmp_path: Path, suffix: str, damage: Callable[[Path], object], text: str
) -> None:
    path = tmp_path / "log.db"
    log = await written(path)
    await filled(log, count=1)
    await log.check_end()
    damage(Path(f"{path}{suffix}"))
    with pytest.raises(LostRecordsError, match=text):
        await log.check_end()
    with pytest.raises(LostRecordsError, match=text):
        await log.append(batches(log.head, count=1)[0])
    with pytest.raises(LostRecordsError, match=text):
        await log.reopen()
    await log.close()


async def test_a_file_that_is_replaced_while_it_is_open_is_named_with_both_positions(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.db"
    log = await written(path)
    await filled(log, count=1)
    await log.close()
    older = copied(path, tmp_path / "older")
    log = await written(path)
    await filled(log, count=3)
    (tmp_path / "log.db-wal").unlink()
    older.replace(path)
    one = batches(log.head, count=1)[0]
    with pytest.raises(LostRecordsError, match="the log in its place ends at position 2") as error:
        await log.append(one)
    assert f"position {one.after.position}: lost" in str(error.value)
    await log.close()


async def test_a_writer_that_connects_again_finds_its_files_as_they_are_then(
    tmp_path: Path,
) -> None:
    """The last connection that is closed removes the write-ahead log, and the next one makes another."""
    path = tmp_path / "log.db"

    def fail(point: str) -> None:
        if point == "before_commit" and fails:
            raise OSError("the disk is gone")

    fails = False
    log = await open_log(str(path), "write", faults=fail)
    assert isinstance(log, SqlLog)
    await filled(log, count=2)
    await log.check_end()
    fails = True
    with pytest.raises(LogUnavailableError):
        await log.append(batches(log.head, count=1)[0])
    fails = False
    await log._database.readers.dispose()  # noqa: SLF001  # so that the next one is the last
    await log.reopen()
    await filled(log, count=2)
    await log.check_end()
    await log.close()


async def test_a_head_that_moved_back_under_an_open_log_stops_it(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    log = await written(path)
    await filled(log, count=3)
    assert await identity_of(log) == (await entries(log))[0].record.digest[:16]
    head = log.head
    # As a database that was set back: the records are there and the head is not.
    await log.run(lambda connection: connection.exec_driver_sql("UPDATE log_head SET position = 2"))  # type: ignore[arg-type, return-value]
    with pytest.raises(LostRecordsError, match=f"ends at position 2, but position {head.position}"):
        await log.append(batches(head, count=1)[0])
    with pytest.raises(LostRecordsError):
        await log.reopen()
    await log.close()


async def test_another_epoch_alone_is_no_loss(tmp_path: Path) -> None:
    log = await written(tmp_path / "log.db")
    await filled(log, count=1)
    await log.run(lambda connection: connection.exec_driver_sql("UPDATE log_head SET epoch = 9"))  # type: ignore[arg-type, return-value]
    await log.check_end()
    with pytest.raises(FencedError):
        await log.append(batches(log.head, count=1)[0])
    await log.close()


async def test_an_anchor_that_is_not_whole_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log.db.anchor"
    assert read_anchor(path) is None
    file = AnchorFile(path)
    file.write(Head(position=12, digest="ab" * 32, epoch=1))
    file.close()
    assert path.stat().st_mode & 0o777 == 0o600
    found = read_anchor(path)
    assert found is not None
    assert (found.position, found.digest) == (12, "ab" * 32)
    content = path.read_bytes()
    for torn in (content[:50], content.replace(b"12:", b"13:"), b"", content + b"x"):
        path.write_bytes(torn)
        assert read_anchor(path) is None


async def test_another_hard_link_and_a_remote_file_system_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.db"
    await (await written(path)).close()
    (tmp_path / "other.db").hardlink_to(path)
    with capture_logs() as said:
        await (await written(path)).close()
    assert [line["links"] for line in said if "hard links" in line["event"]] == [2]
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"22 1 0:20 / / rw - ext4 /dev/sda rw\n23 22 0:21 / {tmp_path} rw shared:1 - nfs4 host:/x rw\n"
    )
    monkeypatch.setattr("daemon.log.file_identity._MOUNTS", mounts)
    assert remote_file_system(path) == "nfs4"
    assert remote_file_system(Path("/var")) == ""
    with capture_logs() as said:
        await (await written(path)).close()
    assert "the log is not on a local file system" in [line["event"] for line in said]


async def test_a_log_behind_a_symbolic_link_is_one_log(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = tmp_path / "log.db"
    path.symlink_to(tmp_path / "real" / "log.db")
    await (await written(tmp_path / "real" / "log.db")).close()
    log = await written(path)
    await filled(log, count=2)
    await log.check_end()
    (tmp_path / "real" / "log.db-wal").unlink()
    with pytest.raises(DamagedLogError, match=r"log.db-wal was deleted"):
        await log.check_end()
    await log.close()


async def test_a_bundle_of_a_log_with_a_loss_names_it(tmp_path: Path) -> None:
    path, bundle = tmp_path / "log.db", tmp_path / "log.muster"
    log = await written(path)
    await filled(log, count=2)
    anchor = Anchor(40, "ab" * 32, "a test")
    await accept_loss(log, [anchor], by="a test", now_ns=NOW_NS)
    assert await is_accepted(log, anchor)
    await verify(log)
    await log.close()
    assert (await command("log", "export", path, "--file", bundle)).exit_code == 0
    assert "positions 5 to 40 were written" in (await command("log", "verify", bundle)).stdout
