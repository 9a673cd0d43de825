"""A snapshot only ever saves time: what follows it follows as from the whole fold."""

import pytest

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.simulation import simulate
from features.table import FEATURES
from projections import snapshot
from replay.log_replay import Replay
from simulator.scenario import parse_scenario
from simulator.scenario_sources import load_sources
from tests.checkout import ROOT

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

    whole.state.settle()
    kept = snapshot.take(whole.state)
    tail = Replay(whole.head, state=snapshot.restore(kept, FEATURES))
    for entry in entries[cut:]:
        assert tail.take(entry.record, entry.content) is None
        assert whole.take(entry.record, entry.content) is None

    assert tail.finish() is None
    for one in (tail, whole):
        one.state.settle()
    assert snapshot.take(tail.state) == snapshot.take(whole.state)


async def test_a_snapshot_of_a_restored_state_is_the_same_snapshot() -> None:
    entries = await _recorded(SCENARIO)
    replay = Replay()
    for index, entry in enumerate(entries):
        assert replay.take(entry.record, entry.content) is None
        at_end = index + 1 == len(entries) or entries[index + 1].record.batch > entry.record.batch
        if at_end and index % 50 == 0:
            replay.state.settle()
            kept = snapshot.take(replay.state)
            assert snapshot.take(snapshot.restore(kept, FEATURES)) == kept


@pytest.mark.parametrize(
    "name",
    [
        "capacity/a_queue_reclaims_from_its_sibling_when_their_parent_is_full",
        "controllers/partitions_of_a_task_stay_together",
        "devices/a_virtual_npu_is_cut_from_the_chip_with_the_fewest_free_cores",
        "groups/a_group_of_another_scheduler_is_not_touched",
        "nodes/affinity/a_deleted_pod_with_anti_affinity_frees_its_whole_zone",
        "overcommit/admitted_minimums_count_until_their_group_is_deleted",
        "preempt/a_disruption_budget_that_allows_more_requeues_the_preemptor",
        "preempt/freed_room_is_kept_for_the_preemptor",
        "sla/an_overdue_gang_keeps_partial_nominations",
        "topology/a_gang_is_nominated_in_the_domain_that_is_being_freed",
    ],
)
async def test_indexes_computed_from_a_snapshot_add_up_and_equal_those_kept_up_by_deltas(
    name: str,
) -> None:
    entries = await _recorded((ROOT / f"tests/scenarios/{name}.yaml").read_text("utf-8"))
    ends, replay = _batch_ends(entries), Replay()
    for index, entry in enumerate(entries, 1):
        assert replay.take(entry.record, entry.content) is None
        if index not in ends:
            continue
        state = replay.state
        state.settle()
        restored = snapshot.restore(snapshot.take(state), FEATURES)
        restored.validate()
        kept, loaded = state.cluster, restored.cluster
        assert loaded.scheduling_queue.places == kept.scheduling_queue.places
        assert loaded.pending_status.phases == kept.pending_status.phases
        assert loaded.pending_status.counts == kept.pending_status.counts
        assert loaded.budgets.facts() == kept.budgets.facts()
        assert restored.next_deadline_ns == state.next_deadline_ns
