"""A replay in several processes has the result of a replay in one."""

import asyncio
from itertools import pairwise
from multiprocessing import active_children
from pathlib import Path

import pytest
from click.testing import Result
from msgspec import structs

from daemon.fold import fold
from daemon.log.code_key import code_key
from daemon.log.contents import ObjectRow, Packer
from daemon.log.contract import Log
from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.log.opening import open_log
from daemon.log.snapshots import payload_of
from daemon.queries.history import write_snapshots
from daemon.queries.moments import entry_at
from daemon.queries.replay_jobs import (
    Stretch,
    StretchResult,
    replay_in_processes,
    replay_stretch,
)
from events.chain import Draft, seal
from events.codec import encode, event_of
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.record import GENESIS, Record, StoredObject
from replay.log_replay import Divergence
from tests.daemon.cli.builders import documents, logged_openb, muster

EVERY = 120


@pytest.fixture(scope="module")
def openb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of some hundred pods."""
    return logged_openb(tmp_path_factory.mktemp("openb"))


async def copied(source: Path, target: Log, changed: int = -1) -> int:
    """Append a log to an empty one, with another message in the refusal of a number; the position of that."""
    log = await open_log(str(source))
    entries = [entry async for chunk in log.read() for entry in chunk]
    await log.close()
    refusals = [one.record for one in entries if PodGroupUnschedulable.kind == one.record.kind]
    position = refusals[changed].position if changed >= 0 else 0
    digest, records = GENESIS.digest, list[Record]()
    for entry in entries:
        record = entry.record
        body = _changed(record) if record.position == position else record.body
        fields = (one for one in Draft.__struct_fields__ if one != "body")
        draft = Draft(body=body, **{one: getattr(record, one) for one in fields})
        records.append(seal(digest, draft))
        digest = records[-1].digest
    await target.take_over("test", epoch=records[0].epoch)
    await target.append_stored(records, _objects(entries))
    return position


def _changed(record: Record) -> bytes:
    event = event_of(record)
    assert isinstance(event, PodGroupUnschedulable)
    return encode(structs.replace(event, message="another message"))


def _objects(entries: list[Entry]) -> list[ObjectRow]:
    contents = {one.record.object: one.content for one in entries if one.content is not None}
    stored = [StoredObject(digest, content) for digest, content in contents.items() if digest]
    return Packer().rows(stored)


async def in_stretches(log: Log, first: int) -> tuple[Divergence | None, int, int, str]:
    """Divergence, records, decisions and the last digest of a replay by the shortest stretches."""
    last, stored = log.head.position, await log.snapshot_positions(code_key())
    begin = max((one for one in stored if one < first), default=0)
    results: list[StretchResult] = []
    for one, end in pairwise([begin, *(at for at in stored if first <= at < last), last]):
        results.append(await replay_stretch(log, Stretch(one, max(first, one + 1), end, last)))
        assert not results[-1].failure
        if results[-1].divergence is not None:
            break
    records = sum(one.counts.records for one in results)
    decisions = sum(one.counts.decisions for one in results)
    return results[-1].divergence, records, decisions, results[-1].head.digest


async def at_once(log: Log, first: int) -> tuple[Divergence | None, int, int, str]:
    """The same by one stretch."""
    end = log.head.position
    result = await replay_stretch(log, Stretch(0, first, end, end))
    return result.divergence, result.counts.records, result.counts.decisions, result.head.digest


async def _replayed(log: Path, *words: str) -> Result:
    return await asyncio.to_thread(muster, "replay", log, *words)


@pytest.mark.parametrize(("changed", "first"), [(-1, 700), (0, 1), (4, 400)])
async def test_stretches_have_together_the_result_of_the_whole(
    openb: Path, changed: int, first: int
) -> None:
    log = MemoryLog()
    await copied(openb, log, changed)
    assert len(await write_snapshots(log, EVERY)) > 4
    assert await in_stretches(log, first) == await at_once(log, first)


@pytest.mark.parametrize("changed", [-1, 3])
async def test_more_processes_have_the_same_output(
    openb: Path, tmp_path: Path, changed: int
) -> None:
    path = tmp_path / "a.db"
    log = await open_log(str(path), "write")
    await copied(openb, log, changed)
    assert len(await write_snapshots(log, EVERY)) > 4
    await log.close()
    one = await _replayed(path, "--jobs", "1")
    assert one.exit_code == (1 if changed >= 0 else 0)
    two = await _replayed(path, "--jobs", "2")
    assert (two.exit_code, two.stdout) == (one.exit_code, one.stdout)


async def test_a_snapshot_with_other_facts_does_not_change_the_result(
    openb: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    log = await open_log(str(path), "write")
    await copied(openb, log)
    stored = await write_snapshots(log, EVERY)
    digest = (await entry_at(log, stored[2])).record.digest
    payload = payload_of(await fold(log, stored[1]))
    await log.save_snapshot(stored[2], digest, code_key(), payload)
    begin, end = stored[1], stored[2]
    result = await replay_stretch(log, Stretch(begin, begin + 1, end, log.head.position))
    assert "has other facts than the records before it" in result.failure
    await log.close()
    assert (await _replayed(path, "--jobs", "2")).exit_code == 0


async def test_a_log_without_snapshots_is_replayed_in_one_process(openb: Path) -> None:
    assert documents(await _replayed(openb, "--jobs", "2", "-o", "json")) == documents(
        await _replayed(openb, "-o", "json")
    )


async def test_a_process_that_is_killed_leaves_the_replay_to_one_process(
    openb: Path, tmp_path: Path
) -> None:
    path = tmp_path / "a.db"
    log = await open_log(str(path), "write")
    await copied(openb, log)
    assert len(await write_snapshots(log, EVERY)) > 4
    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        replay = tasks.create_task(replay_in_processes(log, str(path), 2))
        while not replay.done():
            for process in active_children():
                process.kill()
            await asyncio.sleep(0.02)
    found = replay.result()
    assert (found.divergence, found.replay.head) == (None, log.head)
    await log.close()


@pytest.mark.parametrize("jobs", ["0", "-1", "1000", "two"])
async def test_a_number_of_processes_is_checked(openb: Path, jobs: str) -> None:
    result = await _replayed(openb, "--jobs", jobs)
    assert result.exit_code == 2
    assert "Invalid value for '--jobs'" in result.stderr
