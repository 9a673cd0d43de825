"""A source of faults that vanishes is not a repaired node."""

from events.messages import DeletionSeen, ObjectSeen
from features.table import FEATURES
from projections.device_report import REPORT_DELETED
from projections.faulty_pods import FaultyPods
from projections.snapshot import restore, take
from projections.state import State
from tests.features.ascend.builders import npu_node, unhealthy_report
from tests.scheduling.builders import EngineHarness

POLICY: dict[str, object] = {
    "actions": "enqueue, allocate",
    "tiers": [{"plugins": [{"name": "predicates"}, {"name": "volcano-npu"}]}],
}


def broken() -> EngineHarness:
    """A cluster with a node of which chip 3 is unhealthy, as its report says."""
    harness = EngineHarness(policy=POLICY)
    harness.show_all("Node", npu_node("n1", 8))
    harness.show_the_rest()
    harness.see(ObjectSeen(unhealthy_report("n1", "Ascend910-3")))
    return harness


def faulty_devices(state: State) -> list[str]:
    """Names of the devices of n1 that are unhealthy."""
    return [one.device for one in state.cluster.indexes.of(FaultyPods).faults_of("n1")]


def test_a_chip_stays_unhealthy_when_the_report_of_its_node_is_deleted() -> None:
    harness = broken()
    harness.see(DeletionSeen(unhealthy_report("n1", "Ascend910-3")))
    state = harness.state
    assert faulty_devices(state) == ["Ascend910-3"]
    facts = state.cluster.nodes.nodes["n1"].facts
    assert facts is not None
    assert facts.devices["huawei.com/Ascend910"].problem == REPORT_DELETED
    restored = restore(take(state), FEATURES)
    assert faulty_devices(restored) == ["Ascend910-3"]
    restored.validate()


def test_a_chip_stays_unhealthy_when_its_node_changes_after_the_report_was_deleted() -> None:
    harness = broken()
    harness.see(DeletionSeen(unhealthy_report("n1", "Ascend910-3")))
    harness.see(ObjectSeen(npu_node("n1", 8, labels={"rack": "r1"})))
    assert faulty_devices(harness.state) == ["Ascend910-3"]
    assert faulty_devices(restore(take(harness.state), FEATURES)) == ["Ascend910-3"]


def test_another_report_takes_the_place_of_a_deleted_one() -> None:
    harness = broken()
    harness.see(DeletionSeen(unhealthy_report("n1", "Ascend910-3")))
    harness.see(ObjectSeen(unhealthy_report("n1", "Ascend910-5")))
    assert faulty_devices(harness.state) == ["Ascend910-5"]


def test_nothing_is_kept_of_a_report_without_its_node() -> None:
    for reports_first in (True, False):
        harness = broken()
        gone = [
            DeletionSeen(unhealthy_report("n1", "Ascend910-3")),
            DeletionSeen(npu_node("n1", 8)),
        ]
        for message in gone if reports_first else reversed(gone):
            harness.see(message)
        kept = harness.state.cluster.object_facts
        assert not any(kept.values()), reports_first
