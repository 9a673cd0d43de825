"""ConfigMaps with reports of devices, from the watch event to State."""

import msgspec
import pytest

from events.codec import event_of
from events.decisions.config_invalid import ConfigInvalid
from events.messages import ObjectSeen
from events.normalize import Json
from features.table import FEATURES
from projections import snapshot
from projections.device_report import (
    CHECK_CODE_DIFFERS,
    INVALID_DEVICES,
    REPORT_DELETED,
    DeviceReport,
    Reports,
)
from replay.log_replay import Replay
from tests.scheduling.builders import EngineHarness, gone, node, raw

T = "huawei.com/Ascend910"
KIND = "ConfigMap.device-info"
NAME = "kube-system/mindx-dl-deviceinfo-n1"


@pytest.fixture
def harness() -> EngineHarness:
    """A daemon that has listed everything, and seen no report."""
    harness = EngineHarness()
    harness.show_all("Node", node("n1"))
    harness.show_the_rest()
    harness.kinds()
    return harness


def config_map(devices: str, at: int = 1, code: str = "", **parts: Json) -> bytes:
    """The report of node n1."""
    info: Json = {"DeviceInfo": {"DeviceList": {T: devices}, "UpdateTime": at}, "CheckCode": code}
    return raw(
        "ConfigMap",
        "mindx-dl-deviceinfo-n1",
        metadata={"namespace": "kube-system", "labels": {"mx-consumer-cim": "true"}},
        data={"DeviceInfoCfg": msgspec.json.encode(info).decode(), **parts},
    )


def report(harness: EngineHarness) -> DeviceReport | None:
    """The report of node n1 in State."""
    facts = harness.state.cluster.object_facts.get(KIND, {}).get(NAME)
    assert facts is None or isinstance(facts, Reports)
    return None if facts is None else facts.devices["n1"]


def is_deleted(harness: EngineHarness) -> bool:
    """Whether what stands of the report is that of a ConfigMap that was deleted."""
    found = report(harness)
    return found is not None and found.problem == REPORT_DELETED


def available(harness: EngineHarness) -> tuple[str, ...]:
    """The available devices in it."""
    found = report(harness)
    assert found is not None
    return found.lists[0].available


def errors(harness: EngineHarness) -> list[tuple[str, str]]:
    """The errors of configuration in the log."""
    harness.cycle()
    invalid = [one for kept in harness.records if isinstance(one := event_of(kept), ConfigInvalid)]
    harness.records = []
    return [(one.subject, one.code) for one in invalid]


def test_a_report_with_a_newer_time_only_is_not_recorded(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(config_map("Ascend910-0", 1)))
    assert harness.kinds() == [f"object_observed {KIND}/{NAME}"]
    for at in range(2, 100):
        harness.see(ObjectSeen(config_map("Ascend910-0", at)))
    assert harness.kinds() == []
    harness.see(ObjectSeen(config_map("", 100)))
    assert harness.kinds() == [f"object_observed {KIND}/{NAME}"]
    assert available(harness) == ()


def test_a_report_that_comes_back_after_its_deletion_is_recorded(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(config_map("Ascend910-0")))
    harness.see(gone(config_map("Ascend910-0")))
    assert is_deleted(harness)
    harness.kinds()
    harness.see(ObjectSeen(config_map("Ascend910-0", 2)))
    assert harness.kinds() == [f"object_observed {KIND}/{NAME}"]


def test_with_a_wrong_check_code_the_previous_report_stands_and_is_named_once(
    harness: EngineHarness,
) -> None:
    harness.see(ObjectSeen(config_map("Ascend910-0")))
    harness.see(ObjectSeen(config_map("Ascend910-1", 2, code="0" * 64)))
    assert available(harness) == ("Ascend910-0",)
    assert errors(harness) == [(f"{KIND}/{NAME}", CHECK_CODE_DIFFERS)]
    harness.see(ObjectSeen(config_map("Ascend910-1", 3, code="1" * 64)))
    assert errors(harness) == []
    harness.see(ObjectSeen(config_map("Ascend910-1", 4)))
    assert available(harness) == ("Ascend910-1",)
    harness.see(ObjectSeen(config_map("Ascend910-1", 5, code="0" * 64)))
    assert errors(harness) == [(f"{KIND}/{NAME}", CHECK_CODE_DIFFERS)]


def test_a_first_report_with_a_wrong_check_code_is_none(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(config_map("Ascend910-1", 2, code="0" * 64)))
    assert report(harness) is None


def test_a_list_that_cannot_be_read_gives_no_devices_and_is_named_once(
    harness: EngineHarness,
) -> None:
    harness.see(ObjectSeen(config_map("Ascend910-0")))
    harness.see(ObjectSeen(config_map("Ascend910-0, Ascend910-1", 2)))
    assert available(harness) == ()
    assert errors(harness) == [(f"{KIND}/{NAME}", INVALID_DEVICES)]
    harness.see(ObjectSeen(config_map("Ascend910-0, Ascend910-1", 3)))
    assert errors(harness) == []


def test_reports_are_in_snapshots_and_replays(harness: EngineHarness) -> None:
    harness.see(ObjectSeen(config_map("Ascend910-0,Ascend910-1")))
    harness.see(ObjectSeen(config_map("Ascend910-0,Ascend910-0", 2)))
    harness.cycle()
    restored = snapshot.restore(snapshot.take(harness.state), FEATURES)
    assert restored.cluster.object_facts == harness.state.cluster.object_facts
    replay = Replay()
    contents: dict[str, bytes] = {}
    for batch in harness.batches:
        contents.update((one.digest, one.content) for one in batch.objects)
        for record in batch.records:
            assert replay.take(record, contents.get(record.object or "")) is None
    assert replay.finish() is None
    assert replay.state.cluster.object_facts == harness.state.cluster.object_facts


def test_a_list_without_a_report_deletes_it(harness: EngineHarness) -> None:
    harness.show_all(KIND, config_map("Ascend910-0"))
    assert not is_deleted(harness)
    harness.show_all(KIND, revision="9")
    assert is_deleted(harness)
