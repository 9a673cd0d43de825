"""A node whose kubelet rejected pods is closed to pods of their namespace for a while, longer each time (K5.12)."""

import pytest

from events.messages import DeletionSeen, ObjectSeen
from features.table import FEATURES
from projections import quarantine
from projections.quarantine import ALL_TENANTS, FIRST_NS, LONGEST_NS, QUIET_NS, Quarantine
from projections.snapshot import restore, take
from tests.scheduling.builders import SECOND, EngineHarness, node, pod

REJECTED = "UnexpectedAdmissionError"
KEY = ("n1", "default", "OutOfcpu", "cpu")


def bound_and_rejected(harness: EngineHarness, name: str, reason: str = "OutOfcpu") -> None:
    """A pod waits, is bound to the only node at the next cycle, and its kubelet rejects it."""
    harness.see(ObjectSeen(pod(name)))
    harness.cycle()
    assert f"uid-{name}" in harness.state.commitments
    harness.see(ObjectSeen(pod(name, on="n1", phase="Failed", reason=reason)))


@pytest.fixture
def harness() -> EngineHarness:
    """A pod was bound to the only node there is, whose kubelet has just rejected it."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod")
    harness.show_the_rest()
    bound_and_rejected(harness, "a")
    harness.kinds()
    return harness


def shown(
    name: str, namespace: str, phase: str = "Pending", reason: str = "", on: str = ""
) -> bytes:
    """A pod of a namespace, as the API server shows it."""
    return pod(name, on=on, phase=phase, reason=reason, metadata={"namespace": namespace})


def kept(harness: EngineHarness, key: tuple[str, str, str, str] = KEY) -> Quarantine:
    """Return the quarantine."""
    return harness.state.cluster.quarantines.all[key]


def test_the_next_pod_waits_for_the_quarantine_to_end(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(pod("b")))
    harness.cycle()
    assert "uid-b" not in harness.state.commitments
    assert any(one.startswith("pod_group_unschedulable") for one in harness.kinds())
    harness.cycle(20)
    assert harness.kinds() == [], "nothing has changed, so nothing is decided"
    harness.cycle(10)
    assert harness.state.commitments["uid-b"].node == "n1"
    assert kept(harness).is_over


def test_the_time_begins_with_the_next_cycle(harness: EngineHarness) -> None:
    harness.now_ns += 3600 * SECOND
    assert harness.state.next_deadline_ns == 0, "a cycle is due that gives the time"
    harness.cycle()
    assert kept(harness).until_ns == harness.now_ns + FIRST_NS
    assert harness.state.next_deadline_ns == harness.now_ns + FIRST_NS


def test_each_rejection_after_the_end_doubles_the_time_up_to_half_an_hour(
    harness: EngineHarness,
) -> None:
    lengths: list[int] = []
    for number in range(10):
        harness.cycle()
        one = kept(harness)
        assert one.until_ns == harness.now_ns + one.length_ns
        lengths.append(one.length_ns // SECOND)
        harness.cycle(lengths[-1])
        bound_and_rejected(harness, f"p{number}")
    assert lengths == [30, 60, 120, 240, 480, 960, 1800, 1800, 1800, 1800]
    assert lengths[-1] * SECOND == LONGEST_NS


def test_pods_that_were_bound_before_the_node_was_closed_double_nothing() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_all("Pod", *(pod(f"p{number}") for number in range(4)))
    harness.show_the_rest()
    harness.cycle()
    for number in range(4):
        failed = pod(f"p{number}", on="n1", phase="Failed", reason="OutOfcpu")
        harness.see(ObjectSeen(failed))
        harness.cycle()
    assert kept(harness).count == 1
    assert kept(harness).until_ns == 2 * SECOND + FIRST_NS


def test_quiet_time_takes_the_doublings_back(harness: EngineHarness) -> None:
    harness.cycle()
    harness.cycle(30)
    bound_and_rejected(harness, "b")
    harness.cycle()
    harness.cycle(60)
    assert kept(harness).count == 2
    harness.cycle(QUIET_NS // SECOND)
    bound_and_rejected(harness, "c")
    harness.cycle()
    assert kept(harness).count == 2, "one doubling was taken back, one was added"
    harness.cycle(60)
    harness.now_ns += 2 * QUIET_NS
    harness.see(ObjectSeen(pod("d")))
    harness.cycle()
    assert not harness.state.cluster.quarantines.all
    assert harness.state.commitments["uid-d"].node == "n1"


def test_a_pod_that_does_not_request_the_resource_is_placed(harness: EngineHarness) -> None:
    containers = [{"name": "main", "resources": {"requests": {"memory": "0"}}}]
    harness.see(ObjectSeen(pod("c", spec={"containers": containers})))
    harness.cycle()
    assert harness.state.commitments["uid-c"].node == "n1"


def test_a_pod_of_another_namespace_is_placed(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(pod("b")), ObjectSeen(pod("c", metadata={"namespace": "other"})))
    harness.cycle()
    assert harness.state.commitments["uid-c"].node == "n1"
    assert "uid-b" not in harness.state.commitments


def test_another_node_under_the_name_begins_open(harness: EngineHarness) -> None:
    harness.show_all("Node", node("n1", "another"))
    harness.see(ObjectSeen(pod("b")))
    harness.cycle()
    assert harness.state.commitments["uid-b"].node == "n1"


def test_a_deleted_node_leaves_nothing(harness: EngineHarness) -> None:
    harness.see(DeletionSeen(node("n1")))
    assert not harness.state.cluster.quarantines.all
    assert not harness.state.cluster.quarantines.of_tenant


def test_a_snapshot_keeps_the_quarantine(harness: EngineHarness) -> None:
    for _ in range(2):
        restored = restore(take(harness.state), FEATURES)
        restored.validate()
        assert restored.cluster.quarantines.all == harness.state.cluster.quarantines.all
        assert restored.next_deadline_ns == harness.state.next_deadline_ns
        assert take(restored) == take(harness.state)
        harness.see(ObjectSeen(pod("b")))
        harness.cycle()


def test_a_fork_changes_nothing_of_the_state_that_it_comes_from(harness: EngineHarness) -> None:
    twin = harness.state.fork()
    quarantine.forget_node(twin.cluster, "n1")
    assert not twin.cluster.quarantines.all
    harness.state.validate()
    assert kept(harness).count == 1


@pytest.mark.parametrize("reason", [REJECTED, "TopologyAffinityError"])
def test_pods_of_two_namespaces_close_the_node_to_all_that_request_as_much(reason: str) -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=16))
    small = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}]}
    harness.show_all("Pod", pod("a"), pod("b", metadata={"namespace": "other"}))
    harness.show_the_rest()
    harness.cycle()
    for name, namespace in (("a", "default"), ("b", "other")):
        harness.see(ObjectSeen(shown(name, namespace, "Failed", reason, "n1")))
    less = pod("small", spec=small, metadata={"namespace": "third"})
    harness.see(ObjectSeen(shown("c", "third")), ObjectSeen(less))
    harness.cycle()
    assert "uid-c" not in harness.state.commitments
    assert ("uid-small" in harness.state.commitments) == (reason == "TopologyAffinityError")
    harness.cycle(30)
    assert harness.state.commitments["uid-c"].node == "n1"
    assert not harness.state.cluster.quarantines.of_all_tenants


def test_an_admission_between_two_rejections_leaves_the_node_open_to_others() -> None:
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=16))
    namespaces = {"a": "default", "b": "other", "c": "third"}
    harness.show_all("Pod", *(pod(k, metadata={"namespace": v}) for k, v in namespaces.items()))
    harness.show_the_rest()
    harness.cycle()
    for name, phase in (("a", "Failed"), ("c", "Running"), ("b", "Failed")):
        reason = REJECTED if phase == "Failed" else ""
        harness.see(ObjectSeen(shown(name, namespaces[name], phase, reason, "n1")))
    quarantines = harness.state.cluster.quarantines
    assert [one.tenant for one in quarantines.all.values()] == ["default", "other"]
    assert ALL_TENANTS not in quarantines.of_tenant


def test_the_quarantines_of_a_node_and_of_the_cluster_are_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quarantine, "OF_NODE_MAX", 4)
    monkeypatch.setattr(quarantine, "ALL_MAX", 6)
    harness = EngineHarness()
    harness.show_all("Node", node("n1", cpu=10), node("n2", cpu=10))
    names = [f"p{number}" for number in range(20)]
    harness.show_all("Pod", *(pod(one, metadata={"namespace": f"ns-{one}"}) for one in names))
    harness.show_the_rest()
    harness.cycle()
    for name in names:
        where = harness.state.cluster.pods[f"uid-{name}"].node
        failed = shown(name, f"ns-{name}", "Failed", "TopologyAffinityError", where)
        harness.see(ObjectSeen(failed))
    quarantines = harness.state.cluster.quarantines
    assert len(quarantines.all) == 6
    assert all(len(keys) <= 4 for keys in quarantines.of_node.values())
    assert quarantines.all, "the last rejection always counts"
    assert list(quarantines.all)[-1][1] in ("ns-p19", ALL_TENANTS)
