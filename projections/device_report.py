"""Reports of devices: what the ConfigMaps of the Ascend device stack say of a node.

A device plugin writes one ConfigMap for its node: by resource the devices that are available (healthy and not in use),
unhealthy, without network, and being reset; faults; and the place of the node in a SuperPoD. NodeD writes another one
while the node has faults. ClusterD collects both, and the faults of switches, in a few aggregated ConfigMaps. Formats
and sources are in `docs/reference/ascend-reports.md`.

A text that cannot be read whole (not JSON, or with a `CheckCode` of other content) is no report: the previous one
stands. A list that cannot be read makes the devices of its resource unusable: `DeviceList.problem`.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, structs

from events.limits import INT32_MAX, clipped, decode_text, name_problem, quoted, storable
from events.normalize_config_map import (
    CLUSTER_INFO,
    CLUSTER_PREFIX,
    DEVICE_INFO,
    DEVICE_KEY,
    DEVICE_PREFIX,
    MISMATCH,
    NODE_INFO,
    NODE_KEY,
    NODE_PREFIX,
    NOT_JSON,
    SEPARATED_KEY,
    SWITCH_KEY,
    SWITCH_PREFIX,
    Selection,
)
from projections.objects import Metadata

DEVICES_MAX: Final = 256
"""Maximum devices in a list. A node has at most 64 chips, and a chip at most 8 parts."""

RESOURCES_MAX: Final = 64
"""Maximum keys of a device list."""

FAULTS_MAX: Final = 256
"""Maximum faults of a node that are kept."""

REPORTS_MAX: Final = 5000
"""Maximum nodes in an aggregated ConfigMap: more than fit into one."""

ERRORS_MAX: Final = 16
"""Maximum errors of one ConfigMap that are kept."""

TEXT_CHARS_MAX: Final = 256
"""Maximum characters of a text of a fault that are kept."""

CACHED_CHARS_MAX: Final = 1024
"""Maximum characters of a list of devices that is cached."""

ABSENT: Final = -1
"""The SuperPoD, server or rack of a node that states none. Device plugins write -1 or -2 then."""

HEALTHY: Final = "Healthy"
PRE_SEPARATE: Final = "PreSeparate"
SUB_HEALTHY: Final = "SubHealthy"
UNHEALTHY: Final = "UnHealthy"
STATUSES: Final = (HEALTHY, PRE_SEPARATE, SUB_HEALTHY, UNHEALTHY)
"""States of a node (`NodeStatus`), and of the switches of a node."""

INVALID_REPORT: Final = "InvalidReport"
"""Code of the error of a ConfigMap, or of a part of it, that cannot be used."""

INVALID_DEVICES: Final = "InvalidDeviceList"
"""Code of the error of a list of devices that cannot be used."""

CHECK_CODE_DIFFERS: Final = "CheckCodeDiffers"
"""Code of the error of a ConfigMap whose `CheckCode` is that of other content."""

REPORT_DELETED: Final = "the report of its devices was deleted"
"""Problem of a node of which the report is gone: its devices are not given until there is another one."""

Errors = tuple[tuple[str, str], ...]

_SUFFIXES: Final = ("-Unhealthy", "-NetworkUnhealthy", "-Recovering", "-Fault")
_ANY_TYPE: Final = ("npu", "npu-core")
"""Resources, without their domain, whose devices have names of any type."""

_NAME: Final = re.compile(r"([A-Za-z][A-Za-z0-9]{0,31}(?:-[A-Za-z0-9_.]{1,31}){0,3})-([0-9]{1,4})")
_PART: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,31}(?:-[A-Za-z0-9_.]{1,31}){1,4}")
_NUMBER: Final = re.compile(r"[0-9]+|[^0-9]+")


class DeviceFault(Struct, frozen=True):
    """A fault that a device plugin reports."""

    type: str
    """`CardUnhealthy`, `CardNetworkUnhealthy`, `NodeUnhealthy` or `PublicFault`."""
    device: str
    """Name of the device; empty for the node."""
    handling: str
    """What is to be done, such as `RestartNPU`."""
    codes: str
    """Fault codes, separated by commas."""


class DeviceList(Struct, frozen=True):
    """The devices of one resource of a node, each list by name, sorted by number."""

    resource: str
    available: tuple[str, ...] = ()
    """Healthy, and not in use when the report was written."""
    unhealthy: tuple[str, ...] = ()
    network_unhealthy: tuple[str, ...] | None = None
    """Without network; still usable by jobs of one node. None if the report does not say."""
    recovering: tuple[str, ...] = ()
    """Being reset."""
    problem: str = ""
    """Why the lists cannot be used; they are empty then."""


class NodeState(Struct, frozen=True):
    """The state of a node, or of its switches, as NodeD or ClusterD report it."""

    status: str = HEALTHY
    """One of `STATUSES`."""
    faults: tuple[str, ...] = ()
    """Level and codes of each fault."""


class DeviceReport(Struct, frozen=True, kw_only=True):
    """What the ConfigMaps say of one node."""

    lists: tuple[DeviceList, ...] = ()
    """Sorted by resource."""
    faults: tuple[DeviceFault, ...] = ()
    super_pod_id: int = ABSENT
    server_index: int = ABSENT
    rack_id: int = ABSENT
    separated: tuple[str, ...] = ()
    """Devices that an operator has taken out of use."""
    node: NodeState = NodeState()
    switch: NodeState = NodeState()
    problem: str = ""
    """Why devices of the node cannot be given, whatever the resource; empty if they can."""

    def list_of(self, resource: str) -> DeviceList | None:
        """Return the lists of a resource; None if the report does not mention it."""
        return next((one for one in self.lists if one.resource == resource), None)


class ReportedHealth(Struct, frozen=True):
    """The faults in the report of a node, without its lists of devices."""

    faults: tuple[DeviceFault, ...] = ()
    node: NodeState = NodeState()
    switch: NodeState = NodeState()


HEALTHY_REPORT: Final = ReportedHealth()


class Reports(Struct, frozen=True):
    """What one ConfigMap says, by node."""

    devices: dict[str, DeviceReport] = {}
    """Without the state of the node; of its switches only in a ConfigMap of a device plugin."""
    nodes: dict[str, NodeState] = {}
    switches: dict[str, NodeState] = {}
    errors: Errors = ()
    """Code and message."""
    is_gone: bool = False
    """Whether the ConfigMap was deleted. A source that vanishes repairs nothing: what it said of faults stands, and no
    devices are given by it, until another report of the node takes its place."""


class _ConfigMap(Struct):
    metadata: Metadata
    data: dict[str, str] | None = None


class _DeviceInfo(Struct):
    DeviceList: dict[str, str]
    SuperPodID: object = None
    ServerIndex: object = None
    RackID: object = None


class _DeviceInfoCfg(Struct):
    DeviceInfo: _DeviceInfo
    CheckCode: str = ""
    SuperPodID: object = None
    ServerIndex: object = None
    RackID: object = None


class _Fault(Struct):
    fault_type: str = ""
    npu_name: str = ""
    fault_handling: str = ""
    fault_level: str = ""
    fault_code: str = ""


class _SwitchInfo(Struct):
    FaultCode: list[object] | None = None
    FaultLevel: str = ""
    NodeStatus: str = ""


class _NodeFault(Struct):
    DeviceType: str = ""
    DeviceId: object = None
    FaultCode: list[str] | None = None
    FaultLevel: str = ""


class _NodeInfo(Struct):
    FaultDevList: list[_NodeFault] | None = None
    NodeStatus: str = ""


class _NodeInfoCfg(Struct):
    NodeInfo: _NodeInfo
    CheckCode: str = ""


T = TypeVar("T")

_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMap)
_DEVICE_INFO_CFG: Final = msgspec.json.Decoder(_DeviceInfoCfg)
_FAULTS: Final = msgspec.json.Decoder(list[_Fault] | None)
_SWITCH_INFO: Final = msgspec.json.Decoder(_SwitchInfo)
_NODE_INFO_CFG: Final = msgspec.json.Decoder(_NodeInfoCfg)
_BY_NODE: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_AGGREGATED_DEVICES: Final = msgspec.json.Decoder(_DeviceInfo)
_AGGREGATED_NODE: Final = msgspec.json.Decoder(_NodeInfo)


class _UnusableError(Exception):
    """A ConfigMap that is no report. Its arguments are code and message of the error."""


def read_reports(content: bytes) -> Reports | tuple[str, str]:
    """Return what a normalized ConfigMap of a selection says, or code and message of the error that makes it unusable.

    Never raises.
    """
    try:
        found = _CONFIG_MAP.decode(content)
    except msgspec.DecodeError as error:
        return INVALID_REPORT, clipped(str(error))
    name, data = found.metadata.name, found.data or {}
    try:
        if name.startswith(DEVICE_PREFIX):
            return _device_plugin(name.removeprefix(DEVICE_PREFIX), data)
        if name.startswith(NODE_PREFIX):
            return _node_daemon(name.removeprefix(NODE_PREFIX), data)
        return _aggregated(name, data)
    except _UnusableError as error:
        code, message = error.args
        return code, clipped(message)


def reported_health(report: DeviceReport | None) -> ReportedHealth:
    """Return the faults in a report; without any, a value that all healthy nodes share."""
    if report is None:
        return HEALTHY_REPORT
    found = ReportedHealth(report.faults, report.node, report.switch)
    return HEALTHY_REPORT if found == HEALTHY_REPORT else found


def after_deletion(reports: Reports) -> Reports | None:
    """Return what stands of the reports of a ConfigMap that was deleted; None if nothing does."""
    if not (reports.devices or reports.nodes or reports.switches):
        return None
    devices = {
        node: structs.replace(
            report,
            lists=tuple([structs.replace(one, available=()) for one in report.lists]),
            problem=REPORT_DELETED,
        )
        for node, report in reports.devices.items()
    }
    return structs.replace(reports, devices=devices, errors=(), is_gone=True)


def merged_report(
    devices: DeviceReport | None, node: NodeState | None, switch: NodeState | None
) -> DeviceReport | None:
    """Return the report of a node from its parts; None without any. A node without a state is healthy."""
    if devices is None and node is None and switch is None:
        return None
    report = devices or DeviceReport(problem="no report of its devices")
    if switch is not None:
        report = structs.replace(report, switch=switch)
    return report if node is None else structs.replace(report, node=node)


def report_of(
    facts: Mapping[str, Mapping[str, Struct]], node: str, *, own_only: bool
) -> DeviceReport | None:
    """Return the report of a node, of the facts of all objects by kind and name; None if none mentions it. An
    aggregated report counts before that of the node itself, or not at all (`own_only`)."""
    aggregated = {} if own_only else facts.get(CLUSTER_INFO.kind, {})
    by_cluster = [one for one in aggregated.values() if isinstance(one, Reports)]
    by_cluster.sort(key=lambda one: one.is_gone)
    own = _reports(facts, DEVICE_INFO, f"{DEVICE_PREFIX}{node}")
    of_node = _reports(facts, NODE_INFO, f"{NODE_PREFIX}{node}")
    sources = sorted((*by_cluster, own), key=lambda one: one.is_gone)
    devices = [one.devices[node] for one in sources if node in one.devices]
    nodes = [one.nodes[node] for one in (*by_cluster, of_node) if node in one.nodes]
    switches = [one.switches[node] for one in by_cluster if node in one.switches]
    return merged_report(
        devices[0] if devices else None,
        nodes[0] if nodes else None,
        switches[0] if switches else None,
    )


def _reports(facts: Mapping[str, Mapping[str, Struct]], kind: Selection, name: str) -> Reports:
    found = facts.get(kind.kind, {}).get(f"{kind.namespace}/{name}")
    return found if isinstance(found, Reports) else Reports()


def _device_plugin(node: str, data: Mapping[str, str]) -> Reports:
    """Read the ConfigMap that the device plugin of a node writes."""
    cfg = _decoded(data, DEVICE_KEY, _DEVICE_INFO_CFG.decode)
    if cfg.CheckCode == MISMATCH:
        text = f"{DEVICE_KEY}: CheckCode is not that of DeviceInfo: the previous report stands"
        raise _UnusableError(CHECK_CODE_DIFFERS, text)
    errors: list[tuple[str, str]] = []
    report = _device_report(cfg.DeviceInfo, cfg, errors)
    separated = _separated(data.get(SEPARATED_KEY, ""), errors)
    switch = NodeState()
    if data.get(SWITCH_KEY):
        switch = _switch_state(_decoded(data, SWITCH_KEY, _SWITCH_INFO.decode))
    report = structs.replace(report, separated=separated, switch=switch)
    return Reports(devices={node: report}, errors=_bounded(errors))


def _node_daemon(node: str, data: Mapping[str, str]) -> Reports:
    """Read the ConfigMap that NodeD writes while a node has faults."""
    cfg = _decoded(data, NODE_KEY, _NODE_INFO_CFG.decode)
    if cfg.CheckCode == MISMATCH:
        text = f"{NODE_KEY}: CheckCode is not that of NodeInfo: the previous report stands"
        raise _UnusableError(CHECK_CODE_DIFFERS, text)
    return Reports(nodes={node: _node_state(cfg.NodeInfo)})


def _aggregated(name: str, data: Mapping[str, str]) -> Reports:
    """Read a ConfigMap of ClusterD: the reports of many nodes, of one kind."""
    by_key = _decoded(data, name, _BY_NODE.decode)
    if len(by_key) > REPORTS_MAX:
        raise _UnusableError(INVALID_REPORT, f"{name}: {len(by_key)} nodes")
    errors: list[tuple[str, str]] = []
    devices: dict[str, DeviceReport] = {}
    nodes: dict[str, NodeState] = {}
    switches: dict[str, NodeState] = {}
    for key, raw in sorted(by_key.items()):
        own: list[tuple[str, str]] = []
        try:
            if name.startswith(f"{CLUSTER_PREFIX}device-"):
                info = _AGGREGATED_DEVICES.decode(raw)
                devices[_node_of(key, DEVICE_PREFIX)] = _device_report(info, info, own)
            elif name.startswith(f"{CLUSTER_PREFIX}node-"):
                nodes[_node_of(key, NODE_PREFIX)] = _node_state(_AGGREGATED_NODE.decode(raw))
            else:
                state = _switch_state(_SWITCH_INFO.decode(raw))
                switches[_node_of(key, SWITCH_PREFIX)] = state
        except (msgspec.DecodeError, _UnusableError) as error:
            text = str(error.args[-1])
            own.append((INVALID_REPORT, text))
            if name.startswith(f"{CLUSTER_PREFIX}device-"):
                devices[key.removeprefix(DEVICE_PREFIX)] = DeviceReport(problem=clipped(text))
        errors += [(code, f"{storable(key[:TEXT_CHARS_MAX])}: {text}") for code, text in own]
    return Reports(devices=devices, nodes=nodes, switches=switches, errors=_bounded(errors))


def _node_of(key: str, prefix: str) -> str:
    name = key.removeprefix(prefix)
    if name == key or not name or name_problem(name):
        raise _UnusableError(INVALID_REPORT, f"the key is not {prefix} and the name of a node")
    return name


def _decoded(data: Mapping[str, str], key: str, decode: Callable[[bytes], T]) -> T:
    text = data.get(key, "")
    if not text:
        raise _UnusableError(INVALID_REPORT, f"data has no {key}")
    if text == NOT_JSON:
        raise _UnusableError(INVALID_REPORT, f"{key} is not a JSON object")
    try:
        return decode_text(text, decode)
    except ValueError as error:
        raise _UnusableError(INVALID_REPORT, f"{key}: {error}") from error


def _device_report(
    info: _DeviceInfo, ids: _DeviceInfo | _DeviceInfoCfg, errors: list[tuple[str, str]]
) -> DeviceReport:
    """Return the report of the devices of a node; what cannot be used is added to `errors`."""
    listed = info.DeviceList
    if len(listed) > RESOURCES_MAX:
        text = f"DeviceList has {len(listed)} keys, more than {RESOURCES_MAX}"
        errors.append((INVALID_DEVICES, text))
        return DeviceReport(problem=text)
    lists: list[DeviceList] = []
    faults: list[DeviceFault] = []
    names = {key[: -len(end)] if (end := _suffix(key)) else key for key in listed}
    for resource in sorted(names):
        if problem := name_problem(resource):
            errors.append((INVALID_DEVICES, f"DeviceList: {problem}"))
            continue
        one = _device_list(resource, listed)
        if one.problem:
            errors.append((INVALID_DEVICES, one.problem))
        lists.append(one)
        faults += _faults(resource, listed, errors)
    if len(faults) > FAULTS_MAX:
        errors.append((INVALID_REPORT, f"{len(faults)} faults: {FAULTS_MAX} are kept"))
    return DeviceReport(
        lists=tuple(lists),
        faults=tuple(faults[:FAULTS_MAX]),
        super_pod_id=_place("SuperPodID", ids.SuperPodID, errors),
        server_index=_place("ServerIndex", ids.ServerIndex, errors),
        rack_id=_place("RackID", ids.RackID, errors),
    )


def _suffix(key: str) -> str:
    return next((one for one in _SUFFIXES if key.endswith(one)), "")


def _device_list(resource: str, listed: Mapping[str, str]) -> DeviceList:
    lists: list[tuple[str, ...]] = []
    for suffix in ("", *_SUFFIXES[:3]):
        names = _device_names(resource, listed.get(f"{resource}{suffix}", ""))
        if isinstance(names, str):
            return DeviceList(resource, problem=clipped(f"DeviceList {resource}{suffix}: {names}"))
        lists.append(names)
    available, unhealthy, network_unhealthy, recovering = lists
    broken = {*unhealthy, *recovering}
    if both := [one for one in available if one in broken]:
        text = f"DeviceList {resource}: {both[0]} is available, and unhealthy or being reset"
        return DeviceList(resource, problem=text)
    has_network = f"{resource}{_SUFFIXES[1]}" in listed
    network = network_unhealthy if has_network else None
    return DeviceList(resource, available, unhealthy, network, recovering)


def _device_names(resource: str, text: str) -> tuple[str, ...] | str:
    """Return the names in a list, sorted by number, or why it cannot be used."""
    if not text:
        return ()
    return _read_names(resource, text) if len(text) > CACHED_CHARS_MAX else _known(resource, text)


def _read_names(resource: str, text: str) -> tuple[str, ...] | str:
    """Read a list that is not empty."""
    names = text.split(",", DEVICES_MAX)
    if len(names) > DEVICES_MAX:
        return f"more than {DEVICES_MAX} devices"
    kind = resource.rpartition("/")[2]
    for name in names:
        if name != name.strip() or not name:
            return f"{quoted(name)}: devices are separated by a comma without a blank"
        if not (_NAME.fullmatch(name) or _PART.fullmatch(name)):
            return f"{quoted(name)} is not the name of a device"
        if kind not in _ANY_TYPE and not name.startswith(f"{kind}-"):
            return f"{quoted(name)} is not a device of {kind}"
        if kind not in _ANY_TYPE and "-" not in kind and not _NAME.fullmatch(name):
            return f"{quoted(name)} does not end in a number"
    if len({*names}) < len(names):
        twice = next(one for one in names if names.count(one) > 1)
        return f"{twice} is listed twice"
    numbers = {_number_key(name) for name in names}
    if len(numbers) < len(names):
        return "two devices have the same number"
    return tuple(sorted(names, key=_number_key))


_known: Final = lru_cache(maxsize=4096)(_read_names)
"""Lists that were read lately: most nodes report the same ones, again and again."""


def _number_key(name: str) -> tuple[tuple[int, str], ...]:
    """Return a key that sorts the numbers in names as numbers: `Ascend910-2` before `Ascend910-10`."""
    return tuple((int(one), "") if one.isdecimal() else (0, one) for one in _NUMBER.findall(name))


def _faults(
    resource: str, listed: Mapping[str, str], errors: list[tuple[str, str]]
) -> list[DeviceFault]:
    key = f"{resource}{_SUFFIXES[3]}"
    text = listed.get(key, "")
    if not text:
        return []
    try:
        found = decode_text(text, _FAULTS.decode)
    except ValueError as error:
        errors.append((INVALID_REPORT, clipped(f"DeviceList {key}: {error}")))
        return []
    return [
        DeviceFault(
            type=_text(one.fault_type),
            device=_text(one.npu_name),
            handling=_text(one.fault_handling or one.fault_level),
            codes=_text(one.fault_code),
        )
        for one in (found or [])[: FAULTS_MAX + 1]
    ]


def _place(key: str, value: object, errors: list[tuple[str, str]]) -> int:
    """Return an index; `ABSENT` if there is none or it cannot be used."""
    if value is None or value in (-1, -2):
        return ABSENT
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= INT32_MAX:
        return value
    errors.append((INVALID_REPORT, f"{key}: {quoted(value)} is not an index: it counts as absent"))
    return ABSENT


def _separated(text: str, errors: list[tuple[str, str]]) -> tuple[str, ...]:
    """Return the devices that an operator has taken out of use. Names that cannot be read are errors."""
    names = [one.strip() for one in text.split(",", DEVICES_MAX)[:DEVICES_MAX]]
    wrong = [one for one in names if one and not _NAME.fullmatch(one)]
    if wrong:
        text = f"{SEPARATED_KEY}: {quoted(wrong[0])} is not the name of a device"
        errors.append((INVALID_REPORT, text))
    known = dict.fromkeys(one for one in names if one and one not in wrong)
    return tuple(sorted(known, key=_number_key))


def _switch_state(info: _SwitchInfo) -> NodeState:
    codes = ",".join(_text(str(one)) for one in (info.FaultCode or [])[:FAULTS_MAX])
    level = _text(info.FaultLevel)
    shown = (f"{level} {_text(codes)}".strip(),) if codes else ()
    return NodeState(_status(info.NodeStatus), shown)


def _node_state(info: _NodeInfo) -> NodeState:
    faults = tuple(
        f"{_text(one.FaultLevel)} {_text(one.DeviceType)}"
        f" {_text(','.join((one.FaultCode or [])[:FAULTS_MAX]))}".strip()
        for one in (info.FaultDevList or [])[:FAULTS_MAX]
    )
    return NodeState(_status(info.NodeStatus), faults)


def _status(text: str) -> str:
    """Return the status; one that is not known counts as unhealthy, and none as healthy."""
    if not text:
        return HEALTHY
    known = next((one for one in STATUSES if one.lower() == text.lower()), "")
    return known or UNHEALTHY


def _text(text: str) -> str:
    return storable(text[:TEXT_CHARS_MAX])


def _bounded(errors: list[tuple[str, str]]) -> Errors:
    if len(errors) <= ERRORS_MAX:
        return tuple((code, clipped(text)) for code, text in errors)
    more = (INVALID_REPORT, f"and {len(errors) - ERRORS_MAX} more errors")
    return (*((code, clipped(text)) for code, text in errors[:ERRORS_MAX]), more)
