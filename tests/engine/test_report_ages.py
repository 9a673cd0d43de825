"""Device reports that are not updated any more: known to the daemon, and nothing that decides."""

import pytest

from engine.report_ages import StaleReports
from events.messages import ObjectSeen
from events.normalize import JsonObject
from tests.scheduling.builders import SECOND, EngineHarness, gone, node, raw
from tests.scheduling.reported_chips import report

DEVICE_INFO = "ConfigMap.device-info"


@pytest.fixture
def harness() -> EngineHarness:
    """A daemon that has seen the reports of two nodes."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_the_rest()
    harness.see(ObjectSeen(report("n1", "Ascend910-0")), ObjectSeen(report("n2", "Ascend910-0")))
    return harness


def after(harness: EngineHarness, seconds: int) -> tuple[StaleReports, ...]:
    """The stale reports so many seconds later."""
    harness.now_ns += seconds * SECOND
    return harness.engine.stale_reports(harness.now_ns)


def aggregated(name: str) -> bytes:
    """A ConfigMap of ClusterD."""
    data: JsonObject = {name: "{}"}
    return raw("ConfigMap", name, metadata={"namespace": "mindx-dl"}, data=data)


def test_a_report_is_stale_after_ten_minutes_without_an_update(harness: EngineHarness) -> None:
    assert after(harness, 600) == ()
    harness.see(ObjectSeen(report("n2", "Ascend910-0", at=2)))
    names = ("kube-system/mindx-dl-deviceinfo-n1",)
    assert after(harness, 1) == (StaleReports(DEVICE_INFO, names, 2, 601),)
    harness.see(ObjectSeen(report("n1", "Ascend910-0", at=2)))
    assert after(harness, 0) == ()


def test_a_report_that_is_gone_is_not_stale(harness: EngineHarness) -> None:
    harness.see(gone(report("n1")), gone(report("n2")))
    assert after(harness, 10_000) == ()


def test_any_update_of_the_cluster_daemon_shows_that_it_works(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(aggregated("cluster-info-device-0")))
    after(harness, 40)
    harness.see(ObjectSeen(aggregated("cluster-info-node-cm")))
    assert after(harness, 60) == ()
    (stale,) = after(harness, 1)
    assert (stale.kind, stale.count, stale.seconds) == ("ConfigMap.cluster-info", 2, 61)


def test_stale_reports_are_neither_recorded_nor_reason_for_a_cycle(harness: EngineHarness) -> None:
    harness.cycle()
    harness.kinds()
    assert after(harness, 10_000)
    assert not harness.engine.is_due(harness.now_ns)
    assert harness.kinds() == []
