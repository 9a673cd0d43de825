"""Nodes with Ascend chips, pods that ask for some, and reports of device plugins."""

from collections.abc import Mapping

import msgspec

from events.normalize import JsonObject
from tests.scheduling.builders import EngineHarness, raw

T = "huawei.com/Ascend910"
NOTHING: Mapping[str, str] = {}
POLICY: dict[str, object] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {
            "plugins": [
                {"name": "priority"},
                {"name": "gang"},
                {"name": "volcano-npu_v6.0.0_linux-aarch64"},
                {"name": "predicates"},
            ]
        }
    ],
}

LABEL_OF = {
    T: "huawei-Ascend910",
    "huawei.com/Ascend310": "huawei-Ascend310",
    "huawei.com/Ascend310P": "huawei-Ascend310P",
    "huawei.com/npu": "huawei-npu",
}


def policy(
    arguments: Mapping[str, object] | None = None, init: Mapping[str, object] | None = None
) -> dict[str, object]:
    """The policy with arguments of the plugin, and with `init-params`."""
    plugins = [{"name": "gang"}, {"name": "volcano-npu", "arguments": arguments or {}}]
    return {
        "actions": "enqueue, allocate",
        "tiers": [{"plugins": [*plugins, {"name": "predicates"}]}],
        "configurations": [{"name": "init-params", "arguments": init or {}}],
    }


def base(resource: str, chips: int) -> str:
    """The annotation with all chips."""
    prefix = resource.rpartition("/")[2]
    infos = {f"{prefix}-{number}": {"IP": f"10.0.0.{number}"} for number in range(chips)}
    return msgspec.json.encode(infos).decode()


def npu_node(
    name: str,
    chips: int = 8,
    *,
    kind: str = "",
    resource: str = T,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    allocatable: int | None = None,
) -> bytes:
    """A node with so many chips, all of which its annotation lists."""
    there = {"accelerator": LABEL_OF.get(resource, ""), **(labels or {})}
    if kind:
        there["accelerator-type"] = kind
    given = chips if allocatable is None else allocatable
    notes = {"baseDeviceInfos": base(resource, chips)} if annotations is None else annotations
    return raw(
        "Node",
        name,
        metadata={"labels": there, "annotations": notes},
        spec={},
        status={
            "capacity": {"cpu": "64", "pods": "110", resource: str(chips)},
            "allocatable": {"cpu": "64", "pods": "110", resource: str(given)},
        },
    )


def npu_pod(
    name: str,
    chips: int = 1,
    *,
    resource: str = T,
    kind: str = "",
    group: str = "",
    on: str = "",
    phase: str = "Pending",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    priority: int = 0,
) -> bytes:
    """A pod that asks for chips, perhaps of a gang."""
    asked = {resource: str(chips)} if requests is None else requests
    notes = {**({"scheduling.k8s.io/group-name": group} if group else {}), **(annotations or {})}
    spec: JsonObject = {
        "schedulerName": "muster",
        "priority": priority,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", **asked}}}],
        **({"nodeSelector": {"accelerator-type": kind}} if kind else {}),
        **({"nodeName": on} if on else {}),
    }
    metadata = {"annotations": notes, "labels": labels or {}}
    return raw("Pod", name, metadata=metadata, spec=spec, status={"phase": phase})


def report(
    name: str,
    available: str,
    *,
    resource: str = T,
    at: int = 1,
    lists: Mapping[str, str] = NOTHING,
) -> bytes:
    """The report of the device plugin of a node. Other lists are given by the end of their key."""
    listed = {f"{resource}-{end}": text for end, text in lists.items()}
    info = {"DeviceList": {resource: available, **listed}, "UpdateTime": at}
    cfg = {"DeviceInfo": info, "CheckCode": "", "SuperPodID": -2, "ServerIndex": -2}
    return raw(
        "ConfigMap",
        f"mindx-dl-deviceinfo-{name}",
        metadata={"namespace": "kube-system", "labels": {"mx-consumer-cim": "true"}},
        data={"DeviceInfoCfg": msgspec.json.encode(cfg).decode()},
    )


def sub_healthy_report(name: str) -> bytes:
    """The report of the device plugin of a node with a fault that does not stop jobs."""
    faults = [{"npu_name": "Ascend910-0", "fault_handling": "SubHealthFault"}]
    lists = {"Fault": msgspec.json.encode(faults).decode()}
    return report(name, "Ascend910-0,Ascend910-1", lists=lists)


def unhealthy_report(name: str, chip: str) -> bytes:
    """The report of the device plugin of a node with one unhealthy chip."""
    return report(name, "Ascend910-0,Ascend910-1", lists={"Unhealthy": chip})


def node_state(name: str, status: str) -> bytes:
    """The report of NodeD of a node."""
    cfg = {"NodeInfo": {"FaultDevList": [], "NodeStatus": status}, "CheckCode": ""}
    return raw(
        "ConfigMap",
        f"mindx-dl-nodeinfo-{name}",
        metadata={"namespace": "mindx-dl", "labels": {"mx-consumer-cim": "true"}},
        data={"NodeInfo": msgspec.json.encode(cfg).decode()},
    )


def chips(*numbers: int, resource: str = T) -> str:
    """A list of chips as reports have it."""
    prefix = resource.rpartition("/")[2]
    return ",".join(f"{prefix}-{number}" for number in numbers)


def started(*nodes: bytes, given: dict[str, object] | None = None) -> EngineHarness:
    """A cluster with these nodes and without pods."""
    harness = EngineHarness(policy=given or POLICY)
    harness.show_all("Node", *nodes)
    harness.show_all("Pod")
    harness.show_the_rest()
    harness.cycle()
    return harness


def placed(harness: EngineHarness) -> dict[str, tuple[str, ...]]:
    """Name of each placed pod to its node and devices."""
    pods = harness.state.cluster.pods.values()
    return {one.facts.name: (one.node, *one.devices) for one in pods if one.node}


def placed_numbers(harness: EngineHarness, name: str) -> tuple[int, ...]:
    """The numbers of the devices of a pod."""
    return tuple(int(one.rpartition("-")[2]) for one in placed(harness)[name][1:])


def message(harness: EngineHarness, group: str) -> str:
    """Why a group of one pod is not placed."""
    return (
        harness.state.cluster.groups[f"default/podgroup-uid-{group}"]
        .decided.refusals["allocate"]
        .message
    )
