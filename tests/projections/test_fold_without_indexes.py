"""A fold that leaves indexes out of older records ends in the State of an ordinary fold, and decides alike."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

import msgspec
import pytest

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog
from daemon.settled_cycle import indexes_needed_from
from daemon.simulation import simulate
from events.chain import check_link
from events.codec import event_of
from events.record import GENESIS, Head
from features.table import FEATURES
from projections.state import State
from replay.log_replay import Replay
from tests.projections.bases import differences
from tests.projections.test_base import SHARES, orders_of
from tests.scenarios.play import FILES, HERE, name_of, scenario_of

SCENARIOS: Final = (
    "cards/jobs_run_in_turn_as_quota_comes_free",
    "controllers/an_aborted_job_is_resumed_by_a_command",
    "drf/a_queue_reclaims_no_more_than_its_share_of_the_tree_while_victims_terminate",
    "gangpreempt/a_gang_whose_victims_do_not_end_turns_to_other_nodes_twice",
    "gangreclaim/a_queue_reclaims_whole_gangs_of_borrowing_queues",
    "nodes/rejections/pods_that_kubelets_reject_for_their_own_reasons_do_not_evict_node_after_node",
    "nodes/unready/a_node_unready_for_longer_than_the_stated_time_gives_no_share",
    "proportion/deserved_grows_when_another_queue_requests_less",
    "reservations/a_group_whose_pods_do_not_come_rests_longer_each_time",
    "tenants/pods_under_budgets_are_reclaimed_together_once_these_have_refused_for_long_enough",
)
"""Scenarios in which, together, indexes are left out of most kinds of records."""


def folded(entries: list[Entry], until: int, needed_from: int) -> tuple[State, Head, int]:
    """Return State and head at a position, and how many records were applied without indexes, which are left out before
    `needed_from`."""
    state, head, count = State(FEATURES), GENESIS, 0
    if needed_from:
        state.leave_indexes_out(needed_from, records_per_pod=0)
    for entry in entries[:until]:
        head = check_link(head, entry.record)
        state.apply(entry.record, event_of(entry.record), entry.content)
        count += state.are_indexes_left_out
    state.settle()
    return state, head, count


async def log_of(path: Path) -> MemoryLog:
    """Play a scenario; return its log."""
    log = MemoryLog()
    await simulate(scenario_of(path), log, with_views=False)
    return log


def cuts_of(entries: list[Entry]) -> Iterator[int]:
    """Yield positions up to which a log is folded: ends of batches, and some behind the beginning of a cycle."""
    ends = [
        one.record.position
        for one, after in pairwise(entries)
        if one.record.batch != after.record.batch
    ] + [len(entries)]
    yield from sorted({ends[int((len(ends) - 1) * share)] for share in SHARES})
    cycles = [one.record.position for one in entries if one.record.kind.startswith("cycle_opened")]
    if cycles:
        yield cycles[-1]
        yield cycles[len(cycles) // 2]


async def check(path: Path) -> int:
    """Fold the log of a scenario to several positions in both ways; return how many records were applied without indexes."""
    log, count = await log_of(path), 0
    entries = [entry async for some in log.read() for entry in some]
    for until in dict.fromkeys(cuts_of(entries)):
        needed_from = await indexes_needed_from(log, 0, until)
        plain, _, _ = folded(entries, until, 0)
        state, head, without = folded(entries, until, needed_from)
        count += without
        compare(plain, state)
        is_end = (
            until == len(entries) or entries[until].record.batch != entries[until - 1].record.batch
        )
        if is_end:
            replay = Replay(head, state=state)
            for entry in entries[until:]:
                assert replay.take(entry.record, entry.content) is None
            assert replay.finish() is None
    return count


def compare(plain: State, state: State) -> None:
    """Compare facts, indexes, and what a cycle looks at."""
    assert differences(plain, state) == []
    state.validate()
    assert orders_of(state) == orders_of(plain)
    assert state.next_deadline_ns == plain.next_deadline_ns
    for name in ("cycle_events", "carried_work", "deferred_work"):
        left, right = (msgspec.to_builtins(getattr(one, name)) for one in (plain, state))
        assert left == right, name
    causes = [
        {key: one.decided.cause for key, one in s.cluster.groups.items()} for s in (plain, state)
    ]
    assert causes[0] == causes[1]


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_fold_without_indexes_ends_in_the_same_state(name: str) -> None:
    assert await check(HERE / f"{name}.yaml") > 0


@pytest.mark.soak
@pytest.mark.parametrize("path", FILES, ids=name_of)
async def test_every_scenario_is_folded_alike_without_indexes(path: Path) -> None:
    await check(path)
