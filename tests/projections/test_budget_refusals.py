"""How long budgets may refuse evictions (projections/budget_refusals.py)."""

from events.duration import SECOND
from features.table import FEATURES
from projections.budget_refusals import FORGOTTEN_NS, forget_refusals, is_overdue, record_refusal
from projections.snapshot import restore, take
from projections.state import State

LIMIT_NS = 300 * SECOND


def state_at(seconds: int) -> State:
    state = State(FEATURES)
    state.cluster.now_ns = state.now_ns = seconds * SECOND
    return state


def test_a_pod_is_overdue_once_the_budgets_of_its_namespace_have_refused_for_the_whole_time() -> (
    None
):
    state = state_at(0)
    cluster = state.cluster
    record_refusal(cluster, "first", "a", 0)
    record_refusal(cluster, "other", "b", 299 * SECOND)
    cluster.now_ns = LIMIT_NS
    assert is_overdue(cluster, "first")
    assert not is_overdue(cluster, "never asked")
    assert not is_overdue(cluster, "other"), "other namespaces have a time of their own"
    record_refusal(cluster, "second", "a", LIMIT_NS)
    assert is_overdue(cluster, "second"), (
        "one more pod of the namespace does not take as long again"
    )


def test_refusals_that_are_long_ago_count_no_more() -> None:
    cluster = state_at(0).cluster
    record_refusal(cluster, "first", "a", 0)
    forget_refusals(cluster, FORGOTTEN_NS - 1)
    assert list(cluster.budget_refusals) == ["first"]
    forget_refusals(cluster, FORGOTTEN_NS)
    record_refusal(cluster, "first", "a", FORGOTTEN_NS)
    cluster.now_ns = FORGOTTEN_NS + LIMIT_NS - 1
    assert not is_overdue(cluster, "first")


def test_a_snapshot_holds_them_and_a_cycle_is_due_when_they_are_forgotten() -> None:
    state = state_at(1)
    record_refusal(state.cluster, "first", "a", SECOND)
    assert state.next_deadline_ns == SECOND + FORGOTTEN_NS
    again = restore(take(state), FEATURES)
    assert again.cluster.budget_refusals == state.cluster.budget_refusals
    assert again.next_deadline_ns == state.next_deadline_ns
