"""What the ConfigMaps of the Ascend device stack say of nodes, and what is wrong with them."""

from hashlib import sha256
from typing import Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.normalize import Json, normalize
from events.normalize_config_map import MISMATCH, NOT_JSON, check_code, go_json
from projections.device_report import (
    ABSENT,
    CHECK_CODE_DIFFERS,
    DEVICES_MAX,
    ERRORS_MAX,
    FAULTS_MAX,
    HEALTHY,
    INVALID_DEVICES,
    INVALID_REPORT,
    RESOURCES_MAX,
    UNHEALTHY,
    DeviceFault,
    DeviceReport,
    NodeState,
    Reports,
    merged_report,
    read_reports,
)

T: Final = "huawei.com/Ascend910"
EXAMPLE: Final[dict[str, Json]] = {
    T: "Ascend910-2,Ascend910-3,Ascend910-4,Ascend910-6",
    f"{T}-Fault": '[{"fault_type":"CardUnhealthy","npu_name":"Ascend910-5","fault_handling":"SeparateNPU",'
    '"fault_level":"SeparateNPU","large_model_fault_level":"SeparateNPU","fault_code":"80E18005"}]',
    f"{T}-NetworkUnhealthy": "Ascend910-6",
    f"{T}-Recovering": "Ascend910-7",
    f"{T}-Unhealthy": "Ascend910-5",
}


def text(value: Json) -> str:
    return msgspec.json.encode(value).decode()


def config_map(name: str, namespace: str, **data: Json) -> bytes:
    metadata = {"name": name, "namespace": namespace, "uid": "1", "resourceVersion": "7"}
    return msgspec.json.encode(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    )


def device_info(devices: Json = EXAMPLE, /, at: Json = 1_700_000_000, **beside: Json) -> bytes:
    info = {"DeviceInfo": {"DeviceList": devices, "UpdateTime": at}, **beside}
    return config_map("mindx-dl-deviceinfo-n1", "kube-system", DeviceInfoCfg=text(info))


def aggregated(name: str, by_key: Json) -> bytes:
    return config_map(name, "mindx-dl", **{name: text(by_key)})


def read(raw: bytes) -> Reports:
    found = read_reports(normalize(raw).stored.content)
    assert isinstance(found, Reports), found
    return found


def unusable(raw: bytes) -> tuple[str, str]:
    found = read_reports(normalize(raw).stored.content)
    assert not isinstance(found, Reports)
    return found


def report(raw: bytes) -> DeviceReport:
    return read(raw).devices["n1"]


def errors(raw: bytes) -> list[str]:
    return [message for _, message in read(raw).errors]


def test_a_report_has_the_devices_of_each_list_by_number() -> None:
    listed = report(device_info({T: "Ascend910-10,Ascend910-2", f"{T}-Unhealthy": "Ascend910-5"}))
    (one,) = listed.lists
    assert one.available == ("Ascend910-2", "Ascend910-10")
    assert one.unhealthy == ("Ascend910-5",)
    assert one.network_unhealthy is None
    assert one.recovering == ()


def test_the_example_of_eight_chips_is_read_whole() -> None:
    found = report(device_info(SuperPodID=3, ServerIndex=1, RackID=-2))
    (one,) = found.lists
    assert one.available == ("Ascend910-2", "Ascend910-3", "Ascend910-4", "Ascend910-6")
    assert one.network_unhealthy == ("Ascend910-6",)
    assert one.recovering == ("Ascend910-7",)
    assert found.faults == (DeviceFault("CardUnhealthy", "Ascend910-5", "SeparateNPU", "80E18005"),)
    assert (found.super_pod_id, found.server_index, found.rack_id) == (3, 1, ABSENT)
    assert found.list_of(T) == one
    assert found.list_of("huawei.com/npu") is None


def test_a_report_with_a_newer_time_is_the_same_object() -> None:
    old, new = normalize(device_info(at=1)), normalize(device_info(at=2))
    assert old.stored == new.stored
    assert (old.heartbeats, new.heartbeats) == ({"DeviceInfoCfg": "1"}, {"DeviceInfoCfg": "2"})
    assert old.kind == "ConfigMap.device-info"


def test_other_keys_of_data_do_not_enter_the_log() -> None:
    plain = config_map("mindx-dl-deviceinfo-n1", "kube-system", Description="x", other="s3cret")
    assert b"s3cret" not in normalize(plain).stored.content


def test_another_config_map_keeps_its_kind_and_data() -> None:
    other = normalize(config_map("mindx-dl-deviceinfo-n1", "default", a="b"))
    assert other.kind == "ConfigMap"
    assert b'"a":"b"' in other.stored.content


def coded(inner: bytes, code: str) -> bytes:
    info = b'{"DeviceInfo":%b,"CheckCode":"%b","SuperPodID":-2}' % (inner, code.encode())
    return config_map("mindx-dl-deviceinfo-n1", "kube-system", DeviceInfoCfg=info.decode())


INNER: Final = (
    b'{"DeviceList":{"huawei.com/Ascend910":"Ascend910-0","huawei.com/Ascend910-Fault":""},'
    b'"UpdateTime":1700000000}'
)


def test_a_check_code_of_the_content_is_accepted() -> None:
    code = sha256(INNER).hexdigest()
    assert report(coded(INNER, code)).lists[0].available == ("Ascend910-0",)
    pretty = INNER.replace(b":", b": ").replace(b",", b",\n  ")
    assert report(coded(pretty, code)).lists[0].available == ("Ascend910-0",)


def test_a_check_code_of_keys_in_another_order_is_accepted() -> None:
    swapped = (
        b'{"UpdateTime":1700000000,"DeviceList":'
        b'{"huawei.com/Ascend910-Fault":"","huawei.com/Ascend910":"Ascend910-0"}}'
    )
    assert report(coded(swapped, sha256(INNER).hexdigest())).lists


def test_the_code_is_of_json_as_go_writes_it() -> None:
    inner: Json = {"DeviceList": {"huawei.com/Ascend910-Fault": "<&>"}, "UpdateTime": 1}
    assert rb"\u003c\u0026\u003e" in go_json(inner)
    assert report(coded(msgspec.json.encode(inner), check_code(go_json(inner)))).lists


def test_a_check_code_of_other_content_makes_the_report_unusable() -> None:
    code, message = unusable(coded(INNER, "0" * 64))
    assert code == CHECK_CODE_DIFFERS
    assert "CheckCode is not that of DeviceInfo" in message
    assert MISMATCH.encode() in normalize(coded(INNER, "0" * 64)).stored.content


@pytest.mark.parametrize("cfg", ["{", "[]", "null", "", '"a"', '{"DeviceInfo":[]}', "{}"])
def test_what_is_no_device_info_is_unusable(cfg: str) -> None:
    code, message = unusable(config_map("mindx-dl-deviceinfo-n1", "kube-system", DeviceInfoCfg=cfg))
    assert code == INVALID_REPORT
    assert "DeviceInfo" in message


def test_a_text_that_is_no_json_is_not_kept() -> None:
    raws = [
        config_map("mindx-dl-deviceinfo-n1", "kube-system", DeviceInfoCfg=one) for one in ("{", "x")
    ]
    first, second = (normalize(raw).stored for raw in raws)
    assert first == second
    assert NOT_JSON.encode() in first.content


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ("Ascend910-0, Ascend910-1", "separated by a comma without a blank"),
        ("Ascend910-0,", "separated by a comma without a blank"),
        ("Ascend310P-0", "is not a device of Ascend910"),
        ("Ascend910-0,Ascend910-0", "Ascend910-0 is listed twice"),
        ("Ascend910-1,Ascend910-01", "two devices have the same number"),
        ("Ascend910-x", "does not end in a number"),
        ("Ascend910--1", "is not the name of a device"),
        ("Ascend910", "is not the name of a device"),
        ("Ascend910-12345", "does not end in a number"),
        (",".join(f"Ascend910-{i}" for i in range(DEVICES_MAX + 1)), "more than 256 devices"),
    ],
)
@pytest.mark.parametrize("suffix", ["", "-Unhealthy", "-NetworkUnhealthy", "-Recovering"])
def test_a_list_that_cannot_be_read_makes_its_resource_unusable(
    listed: str, why: str, suffix: str
) -> None:
    raw = device_info({T: "Ascend910-7", "huawei.com/npu": "npu-0", f"{T}{suffix}": listed})
    wrong, other = report(raw).lists
    assert (wrong.available, wrong.unhealthy) == ((), ())
    assert f"DeviceList {T}{suffix}: " in wrong.problem
    assert why in wrong.problem
    assert other.available == ("npu-0",)
    assert read(raw).errors == ((INVALID_DEVICES, wrong.problem),)


def test_a_device_that_is_available_and_unhealthy_makes_its_resource_unusable() -> None:
    raw = device_info({T: "Ascend910-0", f"{T}-Unhealthy": "Ascend910-0"})
    assert "Ascend910-0 is available, and unhealthy" in report(raw).lists[0].problem


def test_static_parts_of_chips_are_listed_under_their_own_resource() -> None:
    raw = device_info({"huawei.com/Ascend910-2c": "Ascend910-2c-100-0,Ascend910-2c-101-0"})
    assert report(raw).lists[0].available == ("Ascend910-2c-100-0", "Ascend910-2c-101-0")


@pytest.mark.parametrize("value", [-3, True, 1.5, "3", [], 2**31])
def test_an_index_that_is_none_counts_as_absent(value: Json) -> None:
    raw = device_info(SuperPodID=value)
    assert report(raw).super_pod_id == ABSENT
    assert "SuperPodID: " in errors(raw)[0]
    assert "it counts as absent" in errors(raw)[0]


@pytest.mark.parametrize("value", [-1, -2, None])
def test_a_node_in_no_super_pod_is_no_error(value: Json) -> None:
    assert report(device_info(SuperPodID=value)).super_pod_id == ABSENT
    assert errors(device_info(SuperPodID=value)) == []


@pytest.mark.parametrize("fault", ["{", '{"a":1}', '[{"npu_name":3}]'])
def test_faults_that_cannot_be_read_are_an_error_and_lists_still_hold(fault: str) -> None:
    raw = device_info({T: "Ascend910-0", f"{T}-Fault": fault})
    assert report(raw).lists[0].available == ("Ascend910-0",)
    assert report(raw).faults == ()
    assert f"DeviceList {T}-Fault: " in errors(raw)[0]


def test_sizes_of_a_report_are_bounded() -> None:
    faults = text([{"fault_code": "x" * 10_000}] * (FAULTS_MAX + 100))
    raw = device_info({T: "Ascend910-0", f"{T}-Fault": faults})
    assert len(report(raw).faults) == FAULTS_MAX
    assert max(len(one.codes) for one in report(raw).faults) == 256
    many = device_info({f"huawei.com/{i}": "" for i in range(RESOURCES_MAX + 1)})
    assert "more than 64" in report(many).problem
    wrong: Json = {f"mindx-dl-deviceinfo-n{i}": [] for i in range(1000)}
    assert len(read(aggregated("cluster-info-device-0", wrong)).errors) == ERRORS_MAX + 1


def test_separated_devices_are_named() -> None:
    raw = config_map(
        "mindx-dl-deviceinfo-n1",
        "kube-system",
        DeviceInfoCfg=text({"DeviceInfo": {"DeviceList": {}}}),
        ManuallySeparateNPU="Ascend910-10,Ascend910-3,nonsense",
    )
    assert report(raw).separated == ("Ascend910-3", "Ascend910-10")
    assert errors(raw) == ["ManuallySeparateNPU: 'nonsense' is not the name of a device"]


def test_switch_faults_of_a_node_are_in_its_report() -> None:
    raw = config_map(
        "mindx-dl-deviceinfo-n1",
        "kube-system",
        DeviceInfoCfg=text({"DeviceInfo": {"DeviceList": {}}}),
        SwitchInfoCfg=text(
            {
                "FaultCode": ["[0x8]"],
                "FaultLevel": "Separate",
                "UpdateTime": 5,
                "NodeStatus": UNHEALTHY,
            }
        ),
    )
    assert report(raw).switch == NodeState(UNHEALTHY, ("Separate [0x8]",))
    assert b"UpdateTime" not in normalize(raw).stored.content


def test_the_state_of_a_node_is_read_with_its_check_code() -> None:
    inner = (
        b'{"FaultDevList":[{"DeviceType":"CPU","DeviceId":0,"FaultCode":["28000009"],'
        b'"FaultLevel":"SeparateFault"}],"NodeStatus":"UnHealthy"}'
    )
    code = sha256(inner).hexdigest().encode()
    whole = b'{"NodeInfo":%b,"CheckCode":"%b"}' % (inner, code)
    raw = config_map("mindx-dl-nodeinfo-n1", "mindx-dl", NodeInfo=whole.decode())
    assert read(raw).nodes == {"n1": NodeState(UNHEALTHY, ("SeparateFault CPU 28000009",))}
    wrong = config_map(
        "mindx-dl-nodeinfo-n1", "mindx-dl", NodeInfo=whole.replace(b"CPU", b"GPU").decode()
    )
    assert unusable(wrong)[0] == CHECK_CODE_DIFFERS


def test_aggregated_reports_are_read_by_node() -> None:
    entry: Json = {
        "DeviceList": {T: "Ascend910-0"},
        "UpdateTime": 9,
        "SuperPodID": 2,
        "CmName": "x",
    }
    by_key: Json = {"mindx-dl-deviceinfo-n1": entry, "mindx-dl-deviceinfo-n2": {"DeviceList": {}}}
    raw = aggregated("cluster-info-device-0", by_key)
    found = read(raw).devices
    assert found["n1"].lists[0].available == ("Ascend910-0",)
    assert found["n1"].super_pod_id == 2
    assert found["n2"].lists == ()
    assert normalize(raw).heartbeats == {"cluster-info-device-0": "9"}
    assert b"UpdateTime" not in normalize(raw).stored.content


def test_an_aggregated_report_that_cannot_be_read_disturbs_no_other_node() -> None:
    by_key: Json = {
        "mindx-dl-deviceinfo-n1": {"DeviceList": 3},
        "mindx-dl-deviceinfo-n2": {"DeviceList": {T: "Ascend910-0"}},
        "nonsense": {"DeviceList": {}},
    }
    raw = aggregated("cluster-info-device-0", by_key)
    found = read(raw).devices
    assert found["n1"].problem
    assert found["n2"].lists[0].available == ("Ascend910-0",)
    assert [one.partition(":")[0] for one in errors(raw)] == ["mindx-dl-deviceinfo-n1", "nonsense"]


def test_aggregated_states_of_nodes_and_switches_are_read() -> None:
    nodes = aggregated(
        "cluster-info-node-cm",
        {
            "mindx-dl-nodeinfo-n1": {
                "FaultDevList": [],
                "NodeStatus": "PreSeparate",
                "UpdateTime": 1,
            }
        },
    )
    assert read(nodes).nodes == {"n1": NodeState("PreSeparate")}
    switches = aggregated(
        "cluster-info-switch-0",
        {"mindx-dl-switchinfo-n1": {"FaultCode": None, "NodeStatus": "nonsense"}},
    )
    assert read(switches).switches == {"n1": NodeState(UNHEALTHY)}


def test_the_parts_of_a_report_are_merged() -> None:
    assert merged_report(None, None, None) is None
    only_node = merged_report(None, NodeState(UNHEALTHY), None)
    assert only_node is not None
    assert only_node.problem == "no report of its devices"
    whole = merged_report(
        DeviceReport(super_pod_id=1), NodeState(UNHEALTHY), NodeState("SubHealthy")
    )
    assert whole is not None
    assert (whole.super_pod_id, whole.node.status, whole.switch.status) == (
        1,
        UNHEALTHY,
        "SubHealthy",
    )
    assert DeviceReport().node.status == HEALTHY


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
LISTS = st.dictionaries(
    st.sampled_from([*EXAMPLE, "huawei.com/npu", "huawei.com/npu-core", ""]),
    st.text() | st.sampled_from(["Ascend910-1,Ascend910-0", "npu-1", "[{}]"]) | JSON_VALUES,
)
TEXTS = (
    st.text()
    | JSON_VALUES.map(lambda one: msgspec.json.encode(one).decode())
    | LISTS.map(lambda one: text({"DeviceInfo": {"DeviceList": one, "UpdateTime": 1}}))
    | LISTS.map(lambda one: text({"mindx-dl-deviceinfo-n1": {"DeviceList": one}}))
    | st.integers(1, 3000).map(lambda depth: "[" * depth)
    | st.integers(1, 3000).map(lambda depth: '{"DeviceInfo":' * depth + "1" + "}" * depth)
)
NAMES = st.sampled_from(
    [
        ("mindx-dl-deviceinfo-n1", "kube-system"),
        ("mindx-dl-nodeinfo-n1", "mindx-dl"),
        ("cluster-info-device-0", "mindx-dl"),
        ("cluster-info-node-cm", "mindx-dl"),
        ("cluster-info-switch-0", "mindx-dl"),
    ]
)


@given(NAMES, TEXTS | JSON_VALUES, st.sampled_from(["", "SwitchInfoCfg", "ManuallySeparateNPU"]))
def test_nothing_in_a_config_map_makes_the_reader_raise(
    named: tuple[str, str], value: Json, beside: str
) -> None:
    name, namespace = named
    key = {"kube-system": "DeviceInfoCfg"}.get(
        namespace, "NodeInfo" if "nodeinfo" in name else name
    )
    data: dict[str, Json] = {key: value}
    if beside:
        data[beside] = value
    seen = normalize(config_map(name, namespace, **data))
    found = read_reports(seen.stored.content)
    if isinstance(found, Reports):
        assert len(found.errors) <= ERRORS_MAX + 1
    else:
        assert all(found)
