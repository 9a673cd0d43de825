"""State at any moment, from snapshots, is that of a fold from the first record."""

import asyncio
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.log.code_key import code_key
from daemon.queries.history import History, write_snapshots
from daemon.queries.log_state import state_at
from daemon.simulation import simulate
from events.codec import event_of
from events.errors import UsageError
from features.table import FEATURES
from projections import snapshot
from projections.state import State
from replay.log_time import LogTime, parse_log_time
from simulator.scenario import parse_scenario
from tests.checkout import ROOT
from tests.daemon.cli.builders import documents, error_of, logged, muster
from tests.daemon.counting_log import CountingLog
from tests.example_count import examples

EXAMPLES = ROOT / "docs" / "examples"
EVERY = 7


async def recorded_log(name: str) -> CountingLog:
    """The log of an example, without snapshots."""
    log = CountingLog()
    path = EXAMPLES / name
    await simulate(parse_scenario(path.read_text(encoding="utf-8"), name), log, with_views=False)
    return log


@cache
def facts(name: str) -> tuple[bytes, ...]:
    """State at each position of the log of an example, folded from the first record."""
    log = asyncio.run(recorded_log(name))
    state = State(FEATURES)
    found = [snapshot.take(state)]
    for record in log.memory.records:
        content = log.memory.contents.get(record.object or "")
        state.apply(record, event_of(record), content)
        found.append(snapshot.take(state.fork()))
    return tuple(found)


@cache
def laddered(name: str) -> CountingLog:
    """The log of an example with its ladder."""

    async def write() -> CountingLog:
        log = await recorded_log(name)
        positions = await write_snapshots(log, EVERY)
        assert len(positions) > 2
        return log

    return asyncio.run(write())


@pytest.mark.parametrize("name", ["node_fault.yaml", "quota.yaml"])
@given(data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_facts_at_any_position_are_those_of_the_whole_fold(name: str, data: st.DataObject) -> None:
    log, expected = laddered(name), facts(name)
    asked = data.draw(st.lists(st.integers(1, log.head.position), min_size=1, max_size=6))

    async def ask() -> None:
        history = History(log, kept_max=2)
        for position in asked:
            state = await history.facts_at(position)
            assert snapshot.take(state) == expected[position]
            state.validate()
            for later in log.memory.records[position : position + 5]:
                content = log.memory.contents.get(later.object or "")
                state.apply(later, event_of(later), content)
                state.settle()

    asyncio.run(ask())


async def test_facts_come_from_the_nearest_snapshot_or_state() -> None:
    log = laddered("node_fault.yaml")
    head, history = log.head.position, History(log)
    stored = await log.snapshot_positions(code_key())
    position = stored[2] + 3
    log.count = 0
    await history.facts_at(position)
    assert log.count == 3
    await history.facts_at(position)
    assert log.count == 3
    await history.facts_at(position + 1)
    assert log.count == 4
    await history.facts_at()
    assert log.count == 4 + head - stored[-1]


async def test_facts_at_a_time_are_those_behind_the_last_record_up_to_it() -> None:
    log = laddered("node_fault.yaml")
    history = History(log)
    for text in ("1s", "00:00:30", "-5s", "1970-01-01T00:00:12Z"):
        time = parse_log_time(text).time_ns(0, log.memory.records[-1].recorded_at_ns)
        assert time is not None
        position = sum(one.recorded_at_ns <= time for one in log.memory.records)
        assert (await history.facts_at(parse_log_time(text))).position == position
        assert (await state_at(log, parse_log_time(text))).position == position
    for moment in (LogTime(position=0), LogTime(position=log.head.position + 1), LogTime(at_ns=-1)):
        with pytest.raises(UsageError, match="holds positions 1 to"):
            await history.facts_at(moment)


async def test_a_ladder_is_completed_and_not_written_twice() -> None:
    log = await recorded_log("node_fault.yaml")
    first = await write_snapshots(log, EVERY)
    assert first[-1] == log.head.position
    kept = list(log.memory.snapshots)
    assert await write_snapshots(log, EVERY) == first
    assert log.memory.snapshots == kept
    gone = first[3:6]
    log.memory.snapshots = [one for one in log.memory.snapshots if one.position not in gone]
    assert await write_snapshots(log, EVERY) == first
    assert log.memory.snapshots == kept


def test_snapshots_are_written_by_a_command(tmp_path: Path) -> None:
    log = logged(tmp_path)
    (before,) = documents(muster("state", log, "--at", "20", "-o", "json"))
    result = muster("log", "snapshot", log, "--every", "5")
    assert result.exit_code == 0
    assert " snapshots, at positions " in result.stdout
    (document,) = documents(muster("log", "snapshot", log, "--every", "5", "-o", "json"))
    positions = document["snapshots"]
    assert isinstance(positions, list)
    assert positions[-1] == 25
    assert muster("log", "verify", log).exit_code == 0
    assert documents(muster("state", log, "--at", "20", "-o", "json")) == [before]


def test_snapshots_of_what_is_no_log_are_refused(tmp_path: Path) -> None:
    bundle, log = tmp_path / "a.muster", logged(tmp_path)
    assert muster("log", "export", log, "--file", bundle).exit_code == 0
    for path, said in ((bundle, "a bundle is read only"), (tmp_path / "none.db", "no such log")):
        result = muster("log", "snapshot", path)
        assert result.exit_code == 2
        assert said in error_of(result)
    assert not (tmp_path / "none.db").exists()
    assert muster("log", "snapshot", log, "--every", "0").exit_code == 2
