"""Faults of the simulated cluster: what breaks, what the API shows of it and when, and how it is repaired."""

import msgspec
import pytest

from events.errors import DocumentError
from events.messages import EvictRequest
from events.normalize import JsonObject, normalize
from projections.device_report import DeviceReport, Reports, read_reports
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import list_at, node_of, section
from tests.simulator.builders import SECOND, bind, scenario, seen, simulated

GPUS = """\
cluster:
  - kind: Node
    metadata: {name: "n{i}"}
    status: {allocatable: {nvidia.com/gpu: 8}, conditions: [{type: Ready, status: "True"}]}
    count: 2
  - kind: Pod
    metadata: {name: "p{i}"}
    spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: 4}}}]}
    count: 2
steps:
"""

CHIPS = """\
cluster:
  - kind: Node
    metadata:
      name: n1
      labels: {accelerator: huawei-Ascend910}
      annotations: {baseDeviceInfos: '{"Ascend910-0":{},"Ascend910-1":{}}'}
    status: {allocatable: {huawei.com/Ascend910: 2}}
  - kind: Pod
    metadata: {name: p1, annotations: {huawei.com/AscendReal: Ascend910-1}}
    spec: {nodeName: n1, containers: [{name: main}]}
    status: {phase: Running}
steps:
"""

SWITCHES = """\
cluster:
  - kind: Node
    metadata: {name: "n{i}"}
    status: {addresses: [{type: InternalIP, address: "10.0.0.{i}"}]}
    count: 3
  - kind: ConfigMap
    metadata: {name: basic-tor-node-cm, namespace: kube-system}
    data:
      tor_info: >-
        {"tor_count": 2, "server_list": [
          {"tor_ip": "1.0.0.1", "server": [{"server_ip": "10.0.0.1", "slice_id": 0}, {"server_ip": "10.0.0.2", "slice_id": 1}]},
          {"tor_ip": "1.0.0.2", "server": [{"server_ip": "10.0.0.3", "slice_id": 0}]}]}
  - apiVersion: topology.volcano.sh/v1alpha1
    kind: HyperNode
    metadata: {name: leaf}
    spec: {tier: 1, members: [{type: Node, selector: {exactMatch: {name: n3}}}]}
steps:
"""


def gpus(steps: str) -> SimulatedCluster:
    """Two nodes of eight GPUs, with two pods of four each on the first."""
    made = simulated(GPUS + steps)
    bind(made, "p1")
    bind(made, "p2")
    return made


def node(made: SimulatedCluster, name: str = "n1") -> JsonObject:
    found = made.find("Node", "", name)
    assert found is not None
    return found


def pod(made: SimulatedCluster, name: str) -> JsonObject:
    found = made.find("Pod", "default", name)
    assert found is not None
    return found


def condition(manifest: JsonObject, kind: str) -> object:
    conditions = list_at(section(manifest, "status"), "conditions")
    return next((one["status"] for one in conditions if one["type"] == kind), None)


def taints(made: SimulatedCluster, name: str = "n1") -> list[object]:
    return [one["effect"] for one in list_at(section(node(made, name), "spec"), "taints")]


def health(made: SimulatedCluster, name: str) -> dict[object, object]:
    """The health of the devices of a pod as its kubelet reports it."""
    (status,) = list_at(section(pod(made, name), "status"), "containerStatuses")
    (resource,) = list_at(status, "allocatedResourcesStatus")
    return {one["resourceID"]: one["health"] for one in list_at(resource, "resources")}


def chips(made: SimulatedCluster) -> DeviceReport:
    """The report of n1, as muster reads it."""
    manifest = made.find("ConfigMap", "kube-system", "mindx-dl-deviceinfo-n1")
    assert manifest is not None
    found = read_reports(normalize(msgspec.json.encode(manifest)).stored.content)
    assert isinstance(found, Reports), found
    return found.devices["n1"]


def lists(made: SimulatedCluster) -> tuple[list[str], list[str], list[str]]:
    """Available, unhealthy and without network."""
    manifest = made.find("ConfigMap", "kube-system", "mindx-dl-deviceinfo-n1") or {}
    text = section(manifest, "data")["DeviceInfoCfg"]
    assert isinstance(text, str)
    devices = msgspec.json.decode(text)["DeviceInfo"]["DeviceList"]
    names = ("", "-Unhealthy", "-NetworkUnhealthy")
    a, b, c = (devices[f"huawei.com/Ascend910{one}"].split(",") for one in names)
    return [one for one in a if one], [one for one in b if one], [one for one in c if one]


def test_a_node_that_stops_is_not_ready_when_it_was_silent_for_long_enough() -> None:
    made = gpus("  - {at: 10s, fail: [{node: n1}]}")
    made.advance(59 * SECOND)
    assert condition(node(made), "Ready") == "True"
    made.advance(60 * SECOND)
    assert condition(node(made), "Ready") == "Unknown"
    assert taints(made) == ["NoSchedule", "NoExecute"]
    assert condition(pod(made, "p1"), "Ready") == "False"
    assert condition(node(made, "n2"), "Ready") == "True"


def test_pods_of_a_stopped_node_are_deleted_after_300_s_and_stay_terminating_until_it_is_back() -> (
    None
):
    made = gpus(
        """\
  - {at: 10s, fail: [{node: n1, detected_after: 40s}]}
  - {at: 400s, repair: [{node: n1}]}
"""
    )
    made.advance(349 * SECOND)
    assert "deletionTimestamp" not in section(pod(made, "p1"), "metadata")
    made.advance(350 * SECOND)
    assert "deletionTimestamp" in section(pod(made, "p1"), "metadata")
    made.advance(399 * SECOND)
    assert node_of(pod(made, "p1")) == "n1"
    made.advance(400 * SECOND)
    assert made.find("Pod", "default", "p1") is None
    assert condition(node(made), "Ready") == "True"
    assert taints(made) == []


def test_a_pod_tolerates_a_stopped_node_for_as_long_as_it_says() -> None:
    text = GPUS.replace("spec: {containers", "spec: {tolerations: [TOLERATION], containers")
    for_ever = "{operator: Exists}"
    shortly = "{key: node.kubernetes.io/unreachable, effect: NoExecute, tolerationSeconds: 5}"
    other = "{key: node.kubernetes.io/not-ready, effect: NoExecute, tolerationSeconds: 5}"
    gone = {}
    for toleration in (for_ever, shortly, other):
        made = simulated(
            text.replace("TOLERATION", toleration)
            + "  - {at: 10s, fail: [{node: n1, detected_after: 0s}]}"
        )
        bind(made, "p1")
        made.advance(16 * SECOND)
        early = "deletionTimestamp" in section(pod(made, "p1"), "metadata")
        made.advance(1000 * SECOND)
        gone[toleration] = early, "deletionTimestamp" in section(pod(made, "p1"), "metadata")
    assert gone == {for_ever: (False, False), shortly: (True, True), other: (False, True)}


def test_a_forced_deletion_removes_a_pod_of_a_stopped_node() -> None:
    made = gpus("  - {at: 10s, fail: [{node: n1}]}")
    made.advance(20 * SECOND)
    uid = str(section(pod(made, "p1"), "metadata")["uid"])
    made.evict(EvictRequest(7, "default", "p1", uid, "n1"))
    assert "deletionTimestamp" in section(pod(made, "p1"), "metadata")
    made.evict(EvictRequest(8, "default", "p1", uid, "n1", is_forced=True))
    assert made.find("Pod", "default", "p1") is None


def test_a_node_that_is_back_before_it_is_noticed_was_never_seen_to_stop() -> None:
    made = gpus("  - {at: 10s, fail: [{node: n1, for: 20s}]}")
    seen(made)
    made.advance(300 * SECOND)
    assert condition(node(made), "Ready") == "True"
    assert taints(made) == []
    (status,) = list_at(section(pod(made, "p1"), "status"), "containerStatuses")
    assert status["restartCount"] == 1, "its containers were started again"


def test_after_a_crash_pods_that_are_never_restarted_have_failed() -> None:
    text = GPUS.replace("spec: {containers", "spec: {restartPolicy: Never, containers")
    made = simulated(text + "  - {at: 10s, fail: [{node: n1, for: 20s}]}")
    bind(made, "p1")
    made.advance(29 * SECOND)
    assert section(pod(made, "p1"), "status")["phase"] == "Running"
    made.advance(30 * SECOND)
    assert section(pod(made, "p1"), "status")["phase"] == "Failed"


def test_a_container_that_is_started_again_runs_for_its_whole_time() -> None:
    text = GPUS.replace(
        'metadata: {name: "p{i}"}',
        'metadata: {name: "p{i}", annotations: {muster.sh/run-seconds: "100"}}',
    )
    made = simulated(text + "  - {at: 10s, fail: [{node: n1, for: 20s}]}")
    bind(made, "p1")
    made.advance(129 * SECOND)
    assert section(pod(made, "p1"), "status")["phase"] == "Running"
    made.advance(130 * SECOND)
    assert section(pod(made, "p1"), "status")["phase"] == "Succeeded"


def test_a_fault_that_comes_again_lasts_as_long_as_the_second_one_says() -> None:
    made = gpus(
        """\
  - {at: 10s, fail: [{node: n1, detected_after: 0s, for: 60s}]}
  - {at: 30s, fail: [{node: n1, detected_after: 0s, for: 100s}]}
"""
    )
    made.advance(71 * SECOND)
    assert condition(node(made), "Ready") == "Unknown"
    made.advance(130 * SECOND)
    assert condition(node(made), "Ready") == "True"


def test_a_node_under_two_faults_is_back_after_the_last_one() -> None:
    made = simulated(
        SWITCHES
        + """\
  - {at: 10s, fail: [{node: n1, detected_after: 0s, for: 60s}, {switch: 1.0.0.1, detected_after: 0s, for: 20s}]}
"""
    )
    made.advance(10 * SECOND)
    assert [condition(node(made, f"n{i}"), "Ready") for i in (1, 2, 3)] == [
        "Unknown",
        "Unknown",
        None,
    ]
    made.advance(30 * SECOND)
    assert [condition(node(made, f"n{i}"), "Ready") for i in (1, 2)] == ["Unknown", "True"]
    made.advance(70 * SECOND)
    assert condition(node(made), "Ready") == "True"


def test_a_node_that_is_deleted_and_made_again_is_another_machine() -> None:
    made = gpus(
        """\
  - {at: 10s, fail: [{node: n1, detected_after: 0s}, {node: n1, device: nvidia.com/gpu}]}
  - {at: 20s, delete: [{kind: Node, name: n1}]}
  - at: 30s
    apply: [{kind: Node, metadata: {name: n1}, status: {allocatable: {nvidia.com/gpu: 8}}}]
  - {at: 40s, repair: [{node: n1}, {node: n1, device: nvidia.com/gpu}]}
"""
    )
    made.advance(50 * SECOND)
    assert section(node(made), "status")["allocatable"] == {"nvidia.com/gpu": 8}
    assert condition(node(made), "Ready") is None


def test_a_condition_is_set_and_cleared() -> None:
    made = gpus(
        "  - {at: 10s, fail: [{node: n1, condition: KernelDeadlock, reason: DockerHung, for: 5s}]}"
    )
    made.advance(10 * SECOND)
    assert condition(node(made), "KernelDeadlock") == "True"
    made.advance(15 * SECOND)
    assert condition(node(made), "KernelDeadlock") == "False"


def test_a_broken_gpu_leaves_allocatable_and_shows_in_the_pod_that_has_it() -> None:
    made = gpus(
        """\
  - {at: 10s, fail: [{node: n1, device: nvidia.com/gpu, index: 5}]}
  - {at: 20s, fail: [{node: n1, device: nvidia.com/gpu, index: 5}]}
  - {at: 30s, repair: [{node: n1, device: nvidia.com/gpu, index: 5}]}
"""
    )
    for at_s in (10, 20):
        made.advance(at_s * SECOND)
        status = section(node(made), "status")
        assert section(status, "allocatable")["nvidia.com/gpu"] == "7"
        assert section(status, "capacity")["nvidia.com/gpu"] == 8
        broken = {"gpu-4": "Healthy", "gpu-5": "Unhealthy", "gpu-6": "Healthy", "gpu-7": "Healthy"}
        assert health(made, "p2") == broken
    assert "containerStatuses" not in section(pod(made, "p1"), "status")
    made.advance(30 * SECOND)
    assert section(section(node(made), "status"), "allocatable")["nvidia.com/gpu"] == "8"
    assert set(health(made, "p2").values()) == {"Healthy"}


def test_a_gpu_that_breaks_can_end_the_containers_of_its_pod() -> None:
    made = gpus("  - {at: 10s, fail: [{node: n1, device: nvidia.com/gpu, exit_code: 3}]}")
    made.advance(10 * SECOND)
    (status,) = list_at(section(pod(made, "p1"), "status"), "containerStatuses")
    assert section(status, "lastState", "terminated")["exitCode"] == 3
    assert "containerStatuses" not in section(pod(made, "p2"), "status")


@pytest.mark.parametrize(
    ("level", "unhealthy"),
    [
        ("NotHandleFault", []),
        ("SubHealthFault", []),
        ("PreSeparateNPU", []),
        ("FreeRestartNPU", []),
        ("RestartRequest", ["Ascend910-1"]),
        ("RestartNPU", ["Ascend910-1"]),
        ("SeparateNPU", ["Ascend910-1"]),
        ("ManuallySeparateNPU", ["Ascend910-1"]),
    ],
)
def test_a_chip_is_reported_by_the_level_of_its_fault(level: str, unhealthy: list[str]) -> None:
    made = simulated(
        CHIPS
        + f"  - {{at: 10s, fail: [{{node: n1, device: Ascend910-1, level: {level}, for: 5s}}]}}"
    )
    made.advance(10 * SECOND)
    assert lists(made)[1] == unhealthy
    (fault,) = chips(made).faults
    assert (fault.device, fault.handling) == ("Ascend910-1", level)
    made.advance(15 * SECOND)
    assert lists(made) == (["Ascend910-0"], [], [])
    assert not chips(made).faults


def test_a_chip_that_is_to_be_separated_is_unhealthy_when_its_pod_has_left_it() -> None:
    made = simulated(
        CHIPS
        + """\
  - {at: 10s, fail: [{node: n1, device: Ascend910-1, level: PreSeparateNPU}]}
  - {at: 20s, delete: [{kind: Pod, name: p1}]}
"""
    )
    made.advance(19 * SECOND)
    assert lists(made) == (["Ascend910-0"], [], [])
    made.advance(20 * SECOND)
    assert lists(made) == (["Ascend910-0"], ["Ascend910-1"], [])


def test_chips_without_a_network_are_given_to_single_nodes_only() -> None:
    made = simulated(
        CHIPS
        + """\
  - {at: 10s, fail: [{node: n1, device: Ascend910-0, kind: network}]}
  - {at: 20s, fail: [{link: n1, for: 10s}]}
"""
    )
    made.advance(10 * SECOND)
    assert lists(made) == (["Ascend910-0"], [], ["Ascend910-0"])
    made.advance(20 * SECOND)
    assert lists(made)[2] == ["Ascend910-0", "Ascend910-1"]
    made.advance(30 * SECOND)
    assert lists(made)[2] == ["Ascend910-0"], "the fault of a single chip stays"


def test_a_fault_keeps_what_a_step_had_the_device_plugin_report() -> None:
    made = simulated(
        CHIPS
        + """\
  - {at: 5s, devices: [{node: n1, report: {unhealthy: [Ascend910-0], super_pod_id: 7}}]}
  - {at: 10s, fail: [{node: n1, device: Ascend910-1}]}
"""
    )
    made.advance(10 * SECOND)
    assert lists(made)[1] == ["Ascend910-0", "Ascend910-1"]
    assert chips(made).super_pod_id == 7


@pytest.mark.parametrize(
    ("level", "status"),
    [("NotHandle", "Healthy"), ("SubHealthFault", "SubHealthy"), ("Separate", "UnHealthy")],
)
def test_a_link_can_be_reported_as_a_fault_of_the_switches_of_a_node(
    level: str, status: str
) -> None:
    made = simulated(CHIPS + f"  - {{at: 10s, fail: [{{link: n1, level: {level}}}]}}")
    made.advance(10 * SECOND)
    assert chips(made).switch.status == status
    assert lists(made)[2] == []


def test_a_link_of_a_node_without_chips_is_a_condition() -> None:
    made = gpus("  - {at: 10s, fail: [{link: n1}, {link: n2, condition: RdmaDown}]}")
    made.advance(10 * SECOND)
    assert condition(node(made), "NetworkUnavailable") == "True"
    assert condition(node(made, "n2"), "RdmaDown") == "True"


def test_the_hosts_below_a_switch_or_a_hyper_node_are_cut_off() -> None:
    made = simulated(
        SWITCHES
        + """\
  - {at: 10s, fail: [{switch: 1.0.0.1, detected_after: 0s}]}
  - {at: 20s, fail: [{switch: leaf, kind: network}]}
"""
    )
    made.advance(20 * SECOND)
    assert [condition(node(made, f"n{i}"), "Ready") for i in (1, 2, 3)] == [
        "Unknown",
        "Unknown",
        None,
    ]
    assert condition(node(made, "n3"), "NetworkUnavailable") == "True"


def test_containers_below_a_switch_that_was_down_have_gone_on() -> None:
    made = simulated(
        SWITCHES.replace(
            "steps:",
            "  - {kind: Pod, metadata: {name: p1}, spec: {containers: [{name: main}]}}\nsteps:",
        )
        + "  - {at: 10s, fail: [{switch: 1.0.0.1, for: 60s}]}\n"
    )
    bind(made, "p1")
    made.advance(100 * SECOND)
    assert "containerStatuses" not in section(pod(made, "p1"), "status")


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("fail: [{}]", "fail must name one of node, link, switch"),
        ("fail: [{node: n1, link: n1}]", "fail must name one of node, link, switch"),
        ("fail: [{node: n9}]", "there is no Node n9 by then"),
        ("fail: [{switch: s9}]", "there is no leaf switch and no HyperNode s9 by then"),
        ("fail: [{node: n1, for: 0s}]", "for must be longer than nothing"),
        ("fail: [{node: n1, level: SeparateNPU}]", "fail of a node has no key 'level'"),
        (
            "fail: [{node: n1, device: Ascend910-9}]",
            "node n1 names no chips in its annotation baseDeviceInfos",
        ),
        (
            "fail: [{node: n1, device: nvidia.com/gpu, index: 8}]",
            "node n1 has 8 of nvidia.com/gpu, counted from 0",
        ),
        (
            "fail: [{node: n1, device: nvidia.com/gpu, level: SeparateNPU}]",
            "level goes with a chip, not with a counted device",
        ),
        (
            "fail: [{node: n1, device: nvidia.com/gpu, condition: X}]",
            "fail: condition cannot stand beside device",
        ),
        (
            "fail: [{link: n1, level: Separate, condition: X}]",
            "level cannot stand beside condition",
        ),
        ("fail: [{link: n1, level: Bad}]", "level: 'Bad' is not one of NotHandle"),
        ("fail: [{node: n1, condition: X, status: 'yes'}]", "status: 'yes' is not one of True"),
        ("fail: [{switch: n1, kind: chips}]", "there is no leaf switch and no HyperNode n1"),
        ("repair: [{node: n1, for: 5s}]", "repair of a node has no key 'for'"),
        ("repair: [{pod: p1}]", "repair must name one of node, link, switch"),
    ],
)
def test_a_step_that_cannot_be_read_is_an_error_with_its_line(step: str, message: str) -> None:
    with pytest.raises(DocumentError) as error:
        scenario(GPUS + f"  - at: 10s\n    {step}\n")
    assert str(error.value).startswith("test.yaml:13: ")
    assert message in str(error.value)


def test_a_chip_that_a_node_does_not_have_is_an_error() -> None:
    with pytest.raises(DocumentError, match="node n1 has no chip Ascend910-7"):
        scenario(CHIPS + "  - {at: 10s, fail: [{node: n1, device: Ascend910-7}]}")
    with pytest.raises(DocumentError, match="index goes with a counted device"):
        scenario(CHIPS + "  - {at: 10s, fail: [{node: n1, device: Ascend910-1, index: 1}]}")
