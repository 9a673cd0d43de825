"""Nodes that turned pods away are left alone for a while, longer each time (K5.12)."""

import pytest

from events.messages import ObjectSeen
from projections.quarantine import DECAY_NS, FIRST_NS, LONGEST_NS, rejected
from projections.snapshot import restore, take
from tests.scheduling.builders import SECOND, EngineHarness, node, pod


def test_each_rejection_doubles_the_wait_and_time_takes_it_back() -> None:
    first = rejected(None, 0)
    second = rejected(first, SECOND)
    assert (first.until_ns, second.until_ns) == (FIRST_NS, SECOND + 2 * FIRST_NS)
    much_later = rejected(second, second.last_ns + 2 * DECAY_NS)
    assert much_later.count == 1


def test_a_quarantine_is_never_longer_than_its_bound() -> None:
    quarantine = None
    for _ in range(40):
        quarantine = rejected(quarantine, 0)
    assert quarantine is not None
    assert quarantine.until_ns == LONGEST_NS


@pytest.fixture
def harness() -> EngineHarness:
    """A pod was bound to the only node there is, whose kubelet has just turned it away."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", pod("a"))
    harness.show_the_rest()
    harness.cycle()
    harness.see(ObjectSeen(pod("a", on="n1", phase="Failed", reason="OutOfcpu")))
    harness.kinds()
    return harness


def test_the_next_pod_waits_for_the_quarantine_to_end(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(pod("b")))
    harness.cycle()
    assert not harness.state.commitments or "uid-b" not in harness.state.commitments
    assert any(one.startswith("pod_group_unschedulable") for one in harness.kinds())
    harness.cycle(20)
    assert harness.kinds() == [], "nothing has changed, so nothing is decided"
    harness.cycle(10)
    assert harness.state.commitments["uid-b"].node == "n1"
    assert not harness.state.quarantined


def test_a_pod_that_does_not_request_the_withheld_resource_is_placed(
    harness: EngineHarness,
) -> None:
    containers = [{"name": "main", "resources": {"requests": {"memory": "0"}}}]
    harness.see(ObjectSeen(pod("c", spec={"containers": containers})))
    harness.cycle()
    assert harness.state.commitments["uid-c"].node == "n1"


def test_another_node_under_the_name_begins_without_quarantine(harness: EngineHarness) -> None:
    harness.show_all("Node", node("n1", "another"))
    harness.see(ObjectSeen(pod("b")))
    harness.cycle()
    assert harness.state.commitments["uid-b"].node == "n1"


def test_a_snapshot_keeps_the_quarantine(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(pod("b")))
    harness.cycle()
    restored = restore(take(harness.state))
    restored.validate()
    assert restored.quarantined == harness.state.quarantined
    assert restored.next_deadline_ns == harness.state.next_deadline_ns
    assert restored.cluster.nodes.nodes["n1"].free["cpu"] == 0
