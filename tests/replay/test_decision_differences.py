"""Decisions that differ between two runs, matched by what they are about."""

from features.table import FEATURES
from projections.state import State
from replay.decision_differences import LATE_NS, counts_of, decision_differences
from replay.what_if_figures import DecisionShown, RunFigures, TimedDecision

SECOND = 1_000_000_000


def decision(
    text: str,
    at_ns: int,
    *,
    group: str = "default/g",
    code: str = "",
    devices: tuple[str, ...] = (),
) -> TimedDecision:
    """`bind a n1` is the decision to bind pod a to node n1; without a node it is about the group."""
    kind, pod, *node = text.split()
    shown = DecisionShown(
        kind=kind,
        pod_group=group,
        pod=f"default/{pod}",
        queue="red",
        node=node[0] if node else "",
        devices=devices,
        in_favour_of="",
        code=code,
    )
    return TimedDecision(shown, position=1, at_ns=at_ns, message="")


def run(*decisions: TimedDecision, named: bool = True, first_pod: str = "") -> RunFigures:
    figures = RunFigures(State(FEATURES), 0, {})
    figures.decisions = list(decisions)
    if named:
        figures.named["default/g"] = None
    if first_pod:
        figures.first_pod.update({one.decision.pod_group: first_pod for one in decisions})
    return figures


def whats(one: RunFigures, other: RunFigures, late_ns: int = 0) -> list[tuple[str, int]]:
    return [
        (found.what, found.later_ns) for found in decision_differences(one, other, 0, 0, late_ns)
    ]


def test_the_second_bind_of_a_pod_is_compared_with_its_second_bind() -> None:
    one = run(decision("bind a n1", 0), decision("evict a n1", 5), decision("bind a n1", 9))
    other = run(decision("bind a n1", 0), decision("evict a n1", 5), decision("bind a n2", 9))
    assert whats(one, other) == [("elsewhere", 0)]
    assert whats(one, one) == []


def test_other_devices_of_the_same_node_are_another_place() -> None:
    one = run(decision("bind a n1", 0, devices=("Ascend910-0",)))
    other = run(decision("bind a n1", 0, devices=("Ascend910-1",)))
    assert whats(one, other) == [("elsewhere", 0)]


def test_what_only_one_run_decides_is_shown_in_the_order_of_time() -> None:
    one = run(decision("bind a n1", 7 * SECOND), decision("bind c n1", 9 * SECOND))
    other = run(decision("bind b n1", 8 * SECOND), decision("bind c n1", 6 * SECOND))
    assert whats(one, other) == [
        ("earlier", -3 * SECOND),
        ("only in one", 0),
        ("only in other", 0),
    ]
    found = decision_differences(one, other, 0, 0)
    assert list(counts_of(found).values()) == [1, 1, 1]


def test_a_cycle_that_is_held_somewhat_late_is_no_difference() -> None:
    one = run(decision("bind a n1", SECOND), decision("bind b n1", SECOND))
    other = run(decision("bind a n1", SECOND + LATE_NS), decision("bind b n1", 2 * SECOND))
    assert whats(one, other, LATE_NS) == [("later", SECOND)]
    assert len(whats(one, other)) == 2


def test_times_count_from_the_beginning_of_each_run() -> None:
    one, other = run(decision("bind a n1", SECOND)), run(decision("bind a n1", 101 * SECOND))
    assert decision_differences(one, other, 0, 100 * SECOND) == []


def test_the_pod_at_which_a_refusal_is_found_is_not_compared_but_its_code_is() -> None:
    one = run(decision("refuse a", 0, code="NotEnoughResources"))
    other = run(decision("refuse b", 0, code="NotEnoughResources"))
    assert whats(one, other) == []
    third = run(decision("refuse a", 0, code="NoVictims"))
    assert whats(one, third) == [("only in one", 0), ("only in other", 0)]


def test_generated_names_of_pod_groups_are_told_apart_by_their_first_pods() -> None:
    one = run(
        decision("enqueue a", 0, group="default/podgroup-1"), named=False, first_pod="default/a"
    )
    other = run(
        decision("enqueue a", 0, group="default/podgroup-2"), named=False, first_pod="default/a"
    )
    assert whats(one, other) == []


def test_the_pod_group_of_a_volcano_job_is_the_same_although_its_name_holds_a_uid() -> None:
    one = run(
        decision("enqueue a", 0, group="default/j-uid-1"),
        decision("bind a n1", 0, group="default/j-uid-1"),
        first_pod="default/a",
    )
    other = run(
        decision("enqueue a", 0, group="default/j-uid-2"),
        decision("bind a n2", 0, group="default/j-uid-2"),
        first_pod="default/a",
    )
    one.named["default/j-uid-1"] = other.named["default/j-uid-2"] = None
    assert whats(one, other) == [("elsewhere", 0)]
