"""Pages torn at seeded random places of a real SQLite file: the command works, or says what is torn."""

# ruff: noqa: ASYNC240, S311
# A test may wait for a disk, and its chance has a seed.

import asyncio
import os
import re
import secrets
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from random import Random  # noqa: TID251  # with a seed
from typing import NamedTuple

import pytest
from structlog.testing import capture_logs

from daemon.fold import refolder
from daemon.log.auditing import audit, keep_audited
from daemon.log.code_key import code_key
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.renewing import renew
from daemon.log.snapshots import payload_of
from daemon.log.store import SqlLog
from daemon.log.verify import verify
from daemon.simulation import simulate
from events.daemon import DaemonStarted
from events.errors import DamagedLogError
from projections import snapshot
from simulator.scenario import parse_scenario
from tests.daemon.cli.builders import muster
from tests.daemon.log.contract import entries

SEED = 9
TORN = 40
"""Pages torn, each in a file of its own."""

SOAK_TORN = 2_000

LOCATED = re.compile(r"position \d+|table \w+|index \w+|free pages")
SCENARIO = """\
scenario: a queue of pods that come, run and go
cluster:
  - {kind: Node, metadata: {name: "n{i}"}, status: {allocatable: {cpu: 8, pods: 20}}, count: 3}
  - kind: Pod
    metadata: {name: "a{i}", annotations: {muster.sh/run-seconds: "3"}}
    spec: {containers: [{resources: {requests: {cpu: 1}}}]}
    count: 60
until: 30s
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a few hundred records with views and two snapshots, closed in order."""
    path = tmp_path_factory.mktemp("whole") / "log.db"
    asyncio.run(_write(path))
    return path


async def _write(path: Path) -> None:
    log = await open_log(str(path), "write")
    await simulate(parse_scenario(SCENARIO, "test.yaml"), log, with_views=True)
    assert isinstance(log, SqlLog)
    middle = log.head.position // 2
    for position in (middle, log.head.position):
        step = None
        async for found in log.read(after=position - 1, until=position):
            step = found[0].record
        assert step is not None
        state = await _state_at(log, position)
        await log.save_snapshot(position, step.digest, code_key(), state)
    await log.close()


async def _state_at(log: Log, position: int) -> bytes:
    from daemon.fold import fold

    return payload_of(await fold(log, position))


async def start(path: Path) -> bytes:
    """What a daemon does: open, take over, fold, append, keep a snapshot; State as it was folded."""
    log = await open_log(str(path), "write")
    try:
        head = await log.take_over("test")
        step = await refolder(log, with_views=True)(head)
        folded = snapshot.take(step.state)
        started = DaemonStarted(holder="test", version="1", period_ns=10**9, scheduler_names=("a",))
        batch = step.start(started, None, head.epoch, step.state.now_ns)
        await log.append(batch)
        kept = payload_of(step.state)
        await log.save_snapshot(step.head.position, step.head.digest, code_key(), kept)
        return folded
    finally:
        await log.close()


async def outcome(work: Callable[[Path], Awaitable[object]], path: Path) -> object:
    """What work on a copy comes to: its answer, or the damage that it names."""
    copy = copied(path)
    try:
        return await work(copy)
    except DamagedLogError as error:
        told = str(error).replace(str(copy), "")
    return told


def copied(path: Path) -> Path:
    """A copy of a log that stands alone."""
    copy = path.with_name("copy.db")
    for suffix in ("", "-wal", "-shm", ".lock", ".unsound"):
        Path(f"{copy}{suffix}").unlink(missing_ok=True)
    shutil.copyfile(path, copy)
    return copy


async def verified(path: Path) -> str:
    log = await open_log(str(path))
    try:
        return (await verify(log)).head.digest
    finally:
        await log.close()


def tear(path: Path, random: Random) -> str:
    """Tear one page: zeros, noise, or another page of the file, in whole or from some byte on."""
    data = bytearray(path.read_bytes())
    size = int.from_bytes(data[16:18], "big")
    page = random.randrange(len(data) // size) * size
    begin = page + random.choice((0, 0, size // 2, random.randrange(size)))
    how = random.choice(("zeros", "noise", "other"))
    length = page + size - begin
    other = random.randrange(len(data) // size) * size
    data[begin : page + size] = {
        "zeros": bytes(length),
        "noise": random.randbytes(length),
        "other": data[other : other + length],
    }[how]
    path.write_bytes(data)
    return f"page {page // size + 1} from byte {begin - page}: {how}"


class Sound(NamedTuple):
    """What the whole log comes to."""

    digest: str
    state: bytes


@pytest.fixture(scope="module")
def sound(whole: Path) -> Sound:
    """The answers of the log that is not torn."""
    state = asyncio.run(outcome(start, whole))
    assert isinstance(state, bytes)
    return Sound(asyncio.run(verified(whole)), state)


async def judge_torn(whole: Path, sound: Sound, path: Path, random: Random) -> None:
    """Tear a page of a copy: it is named, or does no harm."""
    shutil.copyfile(whole, path)
    told = tear(path, random)
    found, started = await outcome(verified, path), await outcome(start, path)
    if found == sound.digest:
        assert started == sound.state, f"{told}: verify says sound, a start: {started!r}"
    else:
        assert LOCATED.search(str(found)), f"{told}: verify says {found}"
        assert started == sound.state or LOCATED.search(str(started)), f"{told}: {started!r}"


@pytest.mark.parametrize("number", range(TORN))
async def test_a_torn_page_is_named_or_does_no_harm(
    whole: Path, sound: Sound, tmp_path: Path, number: int
) -> None:
    await judge_torn(whole, sound, tmp_path / "log.db", Random(SEED * 1000 + number))


@pytest.mark.soak
async def test_many_torn_pages_are_named_or_do_no_harm(
    whole: Path, sound: Sound, tmp_path: Path
) -> None:
    """MUSTER_SEED tears the same pages again; the seed is printed where one fails."""
    seed = int(os.environ.get("MUSTER_SEED") or secrets.randbits(32))
    print(f"MUSTER_SEED={seed}")  # noqa: T201  # pytest shows it with a failure
    for number in range(SOAK_TORN):
        print(f"page {number}")  # noqa: T201
        await judge_torn(whole, sound, tmp_path / "log.db", Random(seed + number))


async def test_rebuild_repairs_views_snapshots_and_indexes(whole: Path, tmp_path: Path) -> None:
    """Every page of a view, of a snapshot and of an index; the old file is kept."""
    mended = 0
    for number, name in enumerate(
        (
            "placement_rows",
            "snapshot",
            "log_subject",
            "sqlite_autoindex_objects_1",
            "pod_group_rows",
        )
    ):
        path = tmp_path / f"{number}.db"
        shutil.copyfile(whole, path)
        with closing(sqlite3.connect(path)) as connection:
            ((page,),) = connection.execute(
                "SELECT rootpage FROM sqlite_master WHERE name = ?", (name,)
            )
            ((size,),) = connection.execute("PRAGMA page_size")
        with path.open("r+b") as file:
            file.seek((page - 1) * size)
            file.write(bytes(size))
        with pytest.raises(DamagedLogError, match=name):
            await verified(path)
        result = await asyncio.to_thread(muster, "rebuild", "--log", str(path))
        assert result.exit_code == 1, result.output
        assert await verified(path) == await verified(whole)
        assert Path(f"{path}.damaged").stat().st_size == whole.stat().st_size
        mended += 1
        result = await asyncio.to_thread(muster, "rebuild", "--log", str(path))
        assert result.exit_code == 0, result.output
    assert mended == 5


async def test_a_log_whose_records_are_torn_is_not_rebuilt(whole: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    shutil.copyfile(whole, path)
    data = bytearray(path.read_bytes())
    at = data.index(b"object_observed.v1Pod/")  # of a row: the schema names the kind, too
    data[at : at + 3] = b"god"
    path.write_bytes(data)
    with pytest.raises(DamagedLogError, match="position"):
        await renew(path)
    assert path.read_bytes() == data
    assert not list(tmp_path.glob("*.renewed*"))


async def test_a_snapshot_that_is_not_what_was_written_is_passed_over_and_logged(
    whole: Path, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    expected = await outcome(start, whole)
    shutil.copyfile(whole, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE snapshot SET payload = CAST(payload || x'00' AS BLOB)")
    with capture_logs() as said:
        assert await outcome(start, path) == expected
    skipped = [line["error"] for line in said if line["event"] == "a snapshot is passed over"]
    assert len(skipped) == 2
    assert all("its bytes are not those that were written" in one for one in skipped)


async def test_a_snapshot_of_another_position_is_no_state_of_this_one(
    whole: Path, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    shutil.copyfile(whole, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE snapshot SET payload = (SELECT payload FROM snapshot ORDER BY position LIMIT 1)"
        )
    with pytest.raises(DamagedLogError, match="table snapshot: snapshot at position"):
        await verified(path)
    assert await outcome(start, path) == await outcome(start, whole)


async def test_damage_before_the_newest_snapshot_stops_the_daemon_and_stays_known(
    whole: Path, tmp_path: Path
) -> None:
    path = tmp_path / "log.db"
    shutil.copyfile(whole, path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER log_no_update")
        connection.execute("UPDATE log SET subject = 'Pod/default/other' WHERE position = 7")
        connection.execute(
            "CREATE TRIGGER log_no_update BEFORE UPDATE ON log "
            "BEGIN SELECT RAISE(ABORT, 'log is append only'); END"
        )
    log = await open_log(str(path), "write")
    head = await log.take_over("test")
    step = await refolder(log, with_views=True)(head)  # It does not look that far back.
    with pytest.raises(DamagedLogError, match="position 7"):
        await keep_audited(log, lambda: 0)
    started = DaemonStarted(holder="test", version="1", period_ns=10**9, scheduler_names=("a",))
    with pytest.raises(DamagedLogError, match="position 7"):
        await log.append(step.start(started, None, head.epoch, step.state.now_ns))
    with pytest.raises(DamagedLogError, match="position 7"):
        await log.reopen()
    await log.close()
    # The next process does not begin to write either, until the log is whole again.
    with pytest.raises(DamagedLogError, match="position 7"):
        await open_log(str(path), "write")
    shutil.copyfile(whole, path)
    await (await open_log(str(path), "write")).close()
    assert not Path(f"{path}.unsound").exists()


async def test_a_sound_log_is_audited_to_its_end(whole: Path) -> None:
    log = await open_log(str(whole))
    with capture_logs() as said:
        await audit(log, lambda: 0)
    assert said[-1] == {
        "event": "the log was verified",
        "position": len(await entries(log)),
        "log_level": "info",
    }
    await log.close()
