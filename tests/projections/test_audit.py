"""The audit finds whatever does not add up, and names it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from features.table import FEATURES
from projections.audit import INDEX_PODS_MAX, RollingAudit, audit
from projections.pods import Pod
from projections.state import State
from projections.wakeup_events import ChangedRows, Names
from tests.scenarios.play import HERE, play, scenario_of

FILE: Path = HERE / "gangs" / "pods_beyond_the_minimum_are_bound_one_at_a_time.yaml"


def pod(state: State, name: str) -> Pod:
    """The pod of this name."""
    return next(one for one in state.cluster.pods.values() if one.facts.name == name)


def twice(state: State) -> None:
    """The same pod on a second node."""
    state.cluster.nodes.ensure_node("n2").pods[pod(state, "a-1").facts.uid] = None


def unbooked(state: State) -> None:
    """A node that does not count one of its pods."""
    node = state.cluster.nodes.nodes["n1"]
    state.cluster.nodes.shift(node, "occupied", pod(state, "a-1").pod_class.request, -1)


def unlined(state: State) -> None:
    """A group that waits in no line."""
    state.cluster.scheduling_queue.remove(state.cluster.groups["default/a"])


def column(state: State) -> None:
    """A column that does not mirror its nodes."""
    state.cluster.nodes.free["cpu"][0] += 1


def ledger(state: State) -> None:
    """A queue that is charged too much."""
    state.cluster.queues["default"].allocated["cpu"] += 1


def counts(state: State) -> None:
    """A group that counts a pod too many."""
    group = state.cluster.groups["default/a"]
    group.counts = structs.replace(group.counts, running=group.counts.running + 1)


def order(state: State) -> None:
    """A group whose waiting pods are gone from its list."""
    state.cluster.groups["default/a"].pending.clear()


def totals(state: State) -> None:
    """A cluster that can allocate more than its nodes."""
    state.cluster.resources.allocatable["cpu"] += 1


BREAKS: dict[str, Callable[[State], None]] = {
    "node n2 holds pod default/a-1": twice,
    "node n1 occupied, cpu: kept 2000, counted 3000": unbooked,
    "pod group default/a equivalence groups": unlined,
    "node table free, cpu, 0: kept": column,
    "queue default allocated, cpu: kept 3001, counted 3000": ledger,
    "pod group default/a counts: kept StatusCounts": counts,
    "pod group default/a pending": order,
    "cluster resources allocatable, cpu: kept 3001, counted 3000": totals,
}


@pytest.mark.parametrize("message", BREAKS)
async def test_what_does_not_add_up_is_named(message: str) -> None:
    state = (await play(scenario_of(FILE))).end.state
    audit(state)
    BREAKS[message](state)
    with pytest.raises(AssertionError, match=message):
        state.validate()


def counted_again(
    state: State, touched: ChangedRows, most: int = 1, index_pods_max: int = INDEX_PODS_MAX
) -> None:
    """Let a rolling audit note what was touched, and count so many things."""
    rolling = RollingAudit(state, index_pods_max)
    rolling.note(touched)
    for _ in range(most):
        rolling.next()


async def test_what_was_touched_is_counted_again_first() -> None:
    state = (await play(scenario_of(FILE))).end.state
    counts(state)
    ledger(state)
    names: Names = {"n1": None, "gone": None}
    counted_again(state, ChangedRows(nodes=names, pods={"gone": None}), 3)
    with pytest.raises(AssertionError, match="pod group default/a counts"):
        counted_again(state, ChangedRows(groups={"default/a": None}))
    with pytest.raises(AssertionError, match=r"at position \d+: queue default allocated"):
        counted_again(state, ChangedRows(queues={"default": None}))


async def test_everything_has_its_turn_where_nothing_was_touched() -> None:
    state = (await play(scenario_of(FILE))).end.state
    cluster = state.cluster
    total = len(cluster.nodes.nodes) + len(cluster.groups)
    total += len(cluster.queues) + len(cluster.pods) + len(cluster.indexes.all)
    counted_again(state, ChangedRows(), 3 * total)
    counts(state)
    with pytest.raises(AssertionError, match="pod group default/a counts"):
        counted_again(state, ChangedRows(), total)


async def test_an_index_has_its_turn_unless_there_are_too_many_pods() -> None:
    state = (await play(scenario_of(FILE))).end.state
    state.cluster.pending_status.counts["default/gone"] = None
    with pytest.raises(AssertionError, match=r"at position \d+: status updates counts"):
        counted_again(state, ChangedRows(), 100)
    counted_again(state, ChangedRows(), 100, index_pods_max=len(state.cluster.pods) - 1)


def test_an_empty_state_has_nothing_to_count() -> None:
    counted_again(State(FEATURES), ChangedRows(), 3)
