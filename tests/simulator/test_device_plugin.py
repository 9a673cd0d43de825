"""The device plugins of the simulated cluster."""

import msgspec
import pytest

from events.errors import DocumentError, UsageError
from events.messages import Accepted, AnnotateRequest, Rejected, Reply
from events.normalize import normalize
from projections.device_report import DeviceReport, Reports, read_reports
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import phase_of, section, text_at
from tests.simulator.builders import SECOND, bind, scenario, simulated

REAL = "huawei.com/AscendReal"
CLUSTER = """\
cluster:
  - kind: Node
    metadata:
      name: "n{i}"
      labels: {accelerator: huawei-Ascend310P}
      annotations: {baseDeviceInfos: '{"Ascend310P-0":{},"Ascend310P-1":{},"Ascend310P-10":{}}'}
    status: {allocatable: {huawei.com/Ascend310P: 3, huawei.com/npu-core: 24}}
    count: 2
  - {kind: Pod, metadata: {name: "p{i}"}, spec: {containers: [{name: main}]}, count: 3}
"""


def written(made: SimulatedCluster, name: str, uid: str = "", **devices: str) -> Reply:
    """Write devices on a pod, as muster does before it binds it."""
    pod = made.find("Pod", "default", name) or {}
    uid = uid or text_at(section(pod, "metadata"), "uid")
    annotations = {f"huawei.com/{key}": text for key, text in devices.items()}
    annotations = {key.replace("_", "-"): text for key, text in annotations.items()}
    annotations["predicate-time"] = "1700000000000000000"
    return made.annotate(AnnotateRequest(7, "default", name, uid, "n1", annotations))


def real(made: SimulatedCluster, name: str) -> str:
    """What the device plugin has written on a pod."""
    pod = made.find("Pod", "default", name) or {}
    return text_at(section(pod, "metadata", "annotations"), REAL)


def report(made: SimulatedCluster, node: str = "n1") -> DeviceReport | str:
    """The report of a node, as muster reads it, or why it cannot."""
    manifest = made.find("ConfigMap", "kube-system", f"mindx-dl-deviceinfo-{node}")
    assert manifest is not None
    seen = normalize(msgspec.json.encode(manifest))
    assert seen.kind == "ConfigMap.device-info"
    found = read_reports(seen.stored.content)
    return found.devices[node] if isinstance(found, Reports) else found[1]


def test_a_pod_is_annotated_only_if_it_is_the_one_that_is_meant() -> None:
    made = simulated(CLUSTER)
    assert written(made, "p1", Ascend310P="Ascend310P-0") == Accepted()
    assert written(made, "p1", Ascend310P="Ascend310P-0") == Accepted()
    assert isinstance(written(made, "p1", "another", Ascend310P="Ascend310P-1"), Rejected)
    assert isinstance(written(made, "absent", Ascend310P="Ascend310P-1"), Rejected)
    assert [one.result for one in made.journal] == ["done", "again", "Conflict", "NotFound"]


def test_devices_are_confirmed_when_the_pod_is_bound() -> None:
    made = simulated(CLUSTER)
    written(made, "p1", Ascend310P="Ascend310P-0,Ascend310P-1")
    assert real(made, "p1") == ""
    bind(made, "p1")
    assert real(made, "p1") == "Ascend310P-0,Ascend310P-1"


@pytest.mark.parametrize(
    ("assigned", "confirmed"),
    [
        ("0-vir04", "Ascend310P-4c-100-0_0"),
        ("1-vir02_1c", "Ascend310P-2c.1cpu-100-1_0"),
        ("0-vir04_3c_ndvpp", "Ascend310P-4c.3cpu.ndvpp-100-0_0"),
        ("0,1", "Ascend310P-0,Ascend310P-1"),
    ],
)
def test_a_part_of_a_chip_gets_a_name_of_its_own(assigned: str, confirmed: str) -> None:
    made = simulated(CLUSTER)
    written(made, "p1", npu_core=assigned)
    bind(made, "p1")
    assert real(made, "p1") == confirmed


def test_a_pod_without_devices_is_not_confirmed() -> None:
    made = simulated(CLUSTER)
    bind(made, "p1")
    assert real(made, "p1") == ""


def test_a_device_plugin_may_confirm_late_or_never() -> None:
    made = simulated(
        CLUSTER
        + """\
steps:
  - {at: 1s, devices: [{node: n1, confirm: 5s}]}
  - {at: 8s, devices: [{node: n1, confirm: never}]}
"""
    )
    made.advance(SECOND)
    written(made, "p1", Ascend310P="Ascend310P-0")
    bind(made, "p1")
    made.advance(6 * SECOND - 1)
    assert real(made, "p1") == ""
    made.advance(9 * SECOND)
    assert real(made, "p1") == "Ascend310P-0"
    written(made, "p2", Ascend310P="Ascend310P-1")
    bind(made, "p2")
    made.advance(900 * SECOND)
    assert real(made, "p2") == ""


def test_a_device_plugin_may_reject_pods_for_a_while() -> None:
    made = simulated(
        CLUSTER
        + """\
steps:
  - {at: 1s, devices: [{node: n1, reject: NPUSegmentFailed}]}
  - {at: 2s, devices: [{node: n1, reject: ""}]}
"""
    )
    made.advance(SECOND)
    written(made, "p1", npu_core="0-vir04")
    bind(made, "p1")
    status = section(made.find("Pod", "default", "p1") or {}, "status")
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert "NPUSegmentFailed" in text_at(status, "message")
    assert real(made, "p1") == ""
    made.advance(2 * SECOND)
    written(made, "p2", npu_core="0-vir04")
    bind(made, "p2")
    assert phase_of(made.find("Pod", "default", "p2") or {}) == "Running"


def test_a_report_has_what_the_step_says_and_a_check_code() -> None:
    made = simulated(
        CLUSTER
        + """\
steps:
  - at: 1s
    devices:
      - node: n1
        report:
          resource: huawei.com/Ascend310P
          unhealthy: [Ascend310P-10]
          network_unhealthy: [Ascend310P-1]
          super_pod_id: 3
  - {at: 2s, devices: [{node: n1, report: {resource: huawei.com/Ascend310P, available: [Ascend310P-1]}}]}
  - {at: 3s, devices: [{node: n1, report: {wrong_code: true}}]}
"""
    )
    written(made, "p1", Ascend310P="Ascend310P-0")
    bind(made, "p1")
    made.advance(SECOND)
    found = report(made)
    assert isinstance(found, DeviceReport)
    (listed,) = found.lists
    assert listed.available == ("Ascend310P-1",)
    assert (listed.unhealthy, listed.network_unhealthy) == (("Ascend310P-10",), ("Ascend310P-1",))
    assert [one.device for one in found.faults] == ["Ascend310P-10"]
    assert found.super_pod_id == 3
    made.advance(2 * SECOND)
    found = report(made)
    assert isinstance(found, DeviceReport)
    assert found.lists[0].unhealthy == ()
    made.advance(3 * SECOND)
    assert "CheckCode" in str(report(made))


@pytest.mark.parametrize(
    ("devices", "why"),
    [
        ("{report: {}}", "node is missing"),
        ("{node: n9, report: {}}", "there is no Node n9 by then"),
        ("{node: n1, confirm: soon}", "confirm"),
        ("{node: n1, reject: 3}", "reject must be a text"),
        ("{node: n1, report: {super_pod_id: x}}", "super_pod_id must be a whole number"),
        ("{node: n1, report: {chips: []}}", "chips"),
    ],
)
def test_a_step_that_cannot_be_read_names_the_line(devices: str, why: str) -> None:
    with pytest.raises((DocumentError, UsageError), match=why) as raised:
        scenario(CLUSTER + f"steps:\n  - {{at: 1s, devices: [{devices}]}}\n")
    assert "test.yaml:" in str(raised.value)
