"""A snapshot only ever saves time: what follows it follows as from the whole fold."""

import pytest

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from projections import snapshot
from replay.log_replay import Replay
from simulator.scenario import parse_scenario
from simulator.scenario_sources import load_sources

SCENARIO = """
scenario: a crowded slice of the openb mix
workload: {name: openb, scale: 0.04, window: 60s}
until: 200s
"""


async def _recorded(text: str) -> list[Entry]:
    def read(path: str) -> str:
        raise AssertionError(path)

    scenario = load_sources(parse_scenario(text, "slice"), read).scenario
    log = MemoryLog()
    await simulate(scenario, log, with_views=False)
    return [entry async for entries in log.read() for entry in entries]


def _batch_ends(entries: list[Entry]) -> list[int]:
    """How many records there are up to the end of each batch."""
    return [
        index
        for index in range(1, len(entries))
        if entries[index].record.batch == entries[index].record.position
    ]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
async def test_a_replay_from_a_snapshot_decides_as_one_from_the_beginning(share: float) -> None:
    entries = await _recorded(SCENARIO)
    ends = _batch_ends(entries)
    cut = ends[int(len(ends) * share)]
    whole = Replay()
    assert all(whole.take(one.record, one.content) is None for one in entries[:cut])

    kept = snapshot.take(whole.state)
    tail = Replay(whole.head, state=snapshot.restore(kept))
    for entry in entries[cut:]:
        assert tail.take(entry.record, entry.content) is None
        assert whole.take(entry.record, entry.content) is None

    assert tail.finish() is None
    assert snapshot.take(tail.state) == snapshot.take(whole.state)


async def test_a_snapshot_of_a_restored_state_is_the_same_snapshot() -> None:
    entries = await _recorded(SCENARIO)
    replay = Replay()
    for index, entry in enumerate(entries):
        assert replay.take(entry.record, entry.content) is None
        at_end = index + 1 == len(entries) or entries[index + 1].record.batch > entry.record.batch
        if at_end and index % 50 == 0:
            kept = snapshot.take(replay.state)
            assert snapshot.take(snapshot.restore(kept)) == kept
