"""What tells a recorded cycle from one that is decided now."""

from collections.abc import Sequence

from events.decision import Decision, Placement
from events.decisions.enqueue import EnqueueDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from features.table import FEATURES
from projections.state import State
from simulator.reduce_target import CycleOutcome, Target, divergence_target, shows

STATE = State(FEATURES)


def enqueued(name: str) -> EnqueueDecided:
    return EnqueueDecided(pod_group=f"default/{name}", queue="default")


def bound(name: str, node: str) -> GangBindDecided:
    placement = Placement(pod=f"default/{name}", uid=name, node=node)
    return GangBindDecided(pod_group=f"default/{name}", queue="default", placements=(placement,))


def refused(name: str, message: str, *requeue_on: str) -> PodGroupUnschedulable:
    return PodGroupUnschedulable(
        pod_group=f"default/{name}",
        queue="default",
        action="allocate",
        code="NotEnoughResources",
        message=message,
        requeue_on=requeue_on,
    )


def target_of(recorded: Sequence[Decision], decided: Sequence[Decision]) -> Target:
    found = divergence_target(recorded, decided, STATE)
    assert found is not None
    assert shows(found, CycleOutcome(STATE, tuple(decided)))
    assert not shows(found, CycleOutcome(STATE, tuple(recorded)))
    return found


def test_equal_cycles_have_no_difference() -> None:
    decisions = [enqueued("a"), bound("a", "n1")]
    assert divergence_target(decisions, decisions, STATE) is None


def test_another_node_is_a_difference_of_its_pod_alone() -> None:
    recorded = [enqueued("a"), bound("a", "n1"), bound("b", "n2")]
    found = target_of(recorded, [enqueued("a"), bound("a", "n1"), bound("b", "n3")])
    assert shows(found, CycleOutcome(STATE, (bound("b", "n3"),)))
    assert not shows(found, CycleOutcome(STATE, (bound("b", "n4"),)))
    assert found.recorded_nodes == ("n2",)
    assert {"Pod/default/b", "Node//n2"} <= set(found.pinned)


def test_the_order_of_decisions_is_a_difference() -> None:
    recorded = [enqueued("a"), enqueued("b"), enqueued("c")]
    found = target_of(recorded, [enqueued("a"), enqueued("c"), enqueued("b")])
    assert shows(found, CycleOutcome(STATE, (enqueued("c"), enqueued("b"))))


def test_the_numbers_of_a_message_may_change_and_its_words_may_not() -> None:
    found = target_of([refused("a", "3 nodes are full")], [refused("a", "3 nodes are closed")])
    assert shows(found, CycleOutcome(STATE, (refused("a", "1 nodes are closed"),)))
    assert not shows(found, CycleOutcome(STATE, (refused("a", "1 nodes are away"),)))


def test_another_number_in_a_message_is_a_difference() -> None:
    found = target_of([refused("a", "3 nodes are full")], [refused("a", "4 nodes are full")])
    assert not shows(found, CycleOutcome(STATE, (refused("a", "1 nodes are full"),)))


def test_a_field_that_no_entry_shows_is_a_difference() -> None:
    found = target_of([refused("a", "full", "node")], [refused("a", "full", "quota")])
    assert shows(found, CycleOutcome(STATE, (refused("a", "1 is full", "quota"),)))


def test_a_decision_that_is_missing_now_must_be_missing() -> None:
    found = divergence_target([enqueued("a")], [], STATE)
    assert found is not None
    assert not shows(found, CycleOutcome(STATE, (enqueued("a"),)))
    assert "PodGroup/default/a" in found.pinned


def test_an_exception_shows_only_an_error() -> None:
    assert shows(Target(is_error=True), CycleOutcome(None, is_bug=True))
    assert not shows(Target(is_error=True), CycleOutcome(None))
    assert not shows(Target(), CycleOutcome(None, is_bug=True))
