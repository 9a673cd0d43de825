"""A pod group waits for terminating pods for a bounded time, which is a deadline in State."""

from events.messages import ObjectSeen
from features.table import FEATURES
from projections.snapshot import restore, take
from projections.victim_waits import VictimWait
from tests.scheduling.builders import SECOND, EngineHarness, node, pod

POLICY: dict[str, object] = {
    "actions": "allocate, preempt",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "conformance"}]},
        {"plugins": [{"name": "predicates"}]},
    ],
}


def waiting() -> EngineHarness:
    """Return an engine in which a pod waits for the victim on the only node."""
    harness = EngineHarness(policy=POLICY)
    harness.show_all("Node", node("n1", cpu=1))
    harness.show_all("Pod")
    harness.show_the_rest()
    harness.see(ObjectSeen(pod("low", on="n1", phase="Running")))
    harness.see(ObjectSeen(pod("high", spec={"priority": 100})))
    harness.cycle()
    return harness


def test_the_wait_begins_with_the_nomination_and_ends_after_ten_minutes() -> None:
    harness = waiting()
    (key,) = harness.state.cluster.victim_waits
    assert harness.state.next_deadline_ns == 601 * SECOND
    harness.cycle(599)
    assert harness.state.cluster.groups[key].decided.nominations
    harness.cycle(1)
    assert not harness.state.cluster.groups[key].decided.nominations
    assert harness.state.cluster.pods["uid-low"].decided.is_stuck
    assert harness.state.cluster.victim_waits == {key: VictimWait(timeouts=1)}
    assert harness.state.next_deadline_ns is None


def test_a_snapshot_keeps_the_wait_and_which_pods_do_not_end() -> None:
    harness = waiting()
    for seconds in (1, 600):
        harness.cycle(seconds)
        restored = restore(take(harness.state), FEATURES)
        restored.validate()
        assert restored.cluster.victim_waits == harness.state.cluster.victim_waits
        assert restored.next_deadline_ns == harness.state.next_deadline_ns
        assert take(restored) == take(harness.state)


def test_a_new_observation_of_a_pod_that_does_not_end_changes_nothing() -> None:
    harness = waiting()
    harness.cycle(600)
    seen = pod("low", on="n1", phase="Running", metadata={"labels": {"changed": "yes"}})
    harness.see(ObjectSeen(seen))
    assert harness.state.cluster.pods["uid-low"].decided.is_stuck
    assert harness.state.cluster.nodes.nodes["n1"].future("cpu") == 0


def test_a_group_that_is_placed_is_forgotten() -> None:
    harness = waiting()
    harness.cycle(600)
    harness.see(ObjectSeen(pod("low", on="n1", phase="Succeeded")))
    harness.cycle()
    assert harness.state.commitments["uid-high"].node == "n1"
    assert not harness.state.cluster.victim_waits
