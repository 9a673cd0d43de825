"""Device reports change the devices of nodes, and wake pods that wait for devices."""

from typing import Final

import msgspec
import pytest

from events.codec import event_of
from events.decisions.gang_bind import GangBindDecided
from events.messages import ObjectSeen
from projections import snapshot
from tests.features.ascend.builders import policy
from tests.scheduling.builders import EngineHarness, features_with, gone, raw
from tests.scheduling.reported_chips import (
    CHIP,
    KIND,
    ReportedChips,
    chip_node,
    chip_pod,
    report,
)

WITH_CHIPS: Final = features_with(ReportedChips())


@pytest.fixture
def harness() -> EngineHarness:
    """A daemon with two nodes that wait for their reports."""
    harness = EngineHarness(features=WITH_CHIPS)
    harness.show_all("Node", chip_node("n1"), chip_node("n2"))
    harness.show_the_rest()
    return harness


def names(harness: EngineHarness, node: str = "n1") -> tuple[str, ...]:
    """The devices of a node in State; they are the same after a snapshot."""
    facts = harness.state.cluster.nodes.nodes[node].facts
    assert facts is not None
    restored = snapshot.restore(snapshot.take(harness.state), WITH_CHIPS)
    assert restored.cluster.nodes.nodes[node].facts == facts
    return facts.devices[CHIP].names if CHIP in facts.devices else ()


def placed(harness: EngineHarness) -> dict[str, tuple[str, ...]]:
    """The devices of each pod that was bound since the last call."""
    harness.cycle()
    found = [
        event for one in harness.records if isinstance(event := event_of(one), GangBindDecided)
    ]
    harness.records = []
    return {one.pod: one.devices for event in found for one in event.placements}


def test_a_report_gives_a_node_its_devices_and_takes_them_away(harness: EngineHarness) -> None:
    assert names(harness) == ()
    harness.see(ObjectSeen(report("n1", "Ascend910-0", "Ascend910-1")))
    assert names(harness) == ("Ascend910-0", "Ascend910-1")
    assert names(harness, "n2") == ()
    harness.see(ObjectSeen(report("n1", "Ascend910-1", at=2, Unhealthy="Ascend910-0")))
    assert names(harness) == ("Ascend910-1",)
    harness.see(gone(report("n1")))
    assert names(harness) == ()


def test_a_node_that_comes_after_its_report_has_its_devices(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(report("n3", "Ascend910-0")))
    harness.see(ObjectSeen(chip_node("n3")))
    assert names(harness, "n3") == ("Ascend910-0",)


def test_a_report_wakes_pods_that_wait_for_devices(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(chip_pod("a", 2)))
    assert placed(harness) == {}
    harness.see(ObjectSeen(report("n2", "Ascend910-0")))
    assert placed(harness) == {}
    harness.see(ObjectSeen(report("n2", "Ascend910-0", "Ascend910-1", at=2)))
    assert placed(harness) == {"default/a": ("Ascend910-0", "Ascend910-1")}


def test_a_report_that_only_has_a_newer_time_wakes_nothing(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(report("n1", "Ascend910-0")))
    harness.see(ObjectSeen(chip_pod("a", 2)))
    placed(harness)
    harness.see(ObjectSeen(report("n1", "Ascend910-0", at=2)))
    assert not harness.engine.is_due(harness.now_ns + 1)


def test_errors_of_a_report_stand_at_the_node_while_they_last(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(report("n1", "nonsense")))
    errors = harness.state.cluster.config_errors
    assert [code for code, _ in errors.current["Node//n1"]] == ["Report"]
    harness.see(ObjectSeen(report("n1", "Ascend910-0", at=2)))
    assert "Node//n1" not in errors.current


def aggregated(devices: str) -> bytes:
    """The ConfigMap of ClusterD that names the devices of node n1."""
    by_node = {"mindx-dl-deviceinfo-n1": {"DeviceList": {CHIP: devices}, "UpdateTime": 1}}
    text = msgspec.json.encode(by_node).decode()
    metadata = {"namespace": "mindx-dl", "labels": {"mx-consumer-volcano": "true"}}
    name = "cluster-info-device-0"
    return raw("ConfigMap", name, metadata=metadata, data={name: text})


def test_an_aggregated_report_counts_before_that_of_the_node(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(report("n1", "Ascend910-0")))
    harness.see(ObjectSeen(aggregated("Ascend910-5")))
    assert names(harness) == ("Ascend910-5",)
    harness.see(ObjectSeen(report("n1", "Ascend910-1", at=2)))
    assert names(harness) == ("Ascend910-5",)
    harness.see(gone(aggregated("")))
    assert names(harness) == ("Ascend910-1",)


def test_aggregated_reports_are_passed_over_if_the_policy_says_so(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(report("n1", "Ascend910-0")))
    harness.see(ObjectSeen(aggregated("Ascend910-5")))
    harness.change_policy(policy(init={"useClusterInfoManager": "false"}))
    assert names(harness) == ("Ascend910-0",)
    harness.see(ObjectSeen(aggregated("Ascend910-6")))
    assert names(harness) == ("Ascend910-0",)
    harness.change_policy(policy())
    assert names(harness) == ("Ascend910-6",)


def test_a_list_without_the_report_takes_the_devices_away(harness: EngineHarness) -> None:
    harness.show_all(KIND, report("n1", "Ascend910-0"))
    harness.show_all(KIND, revision="9")
    assert names(harness) == ()
