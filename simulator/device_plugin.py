"""The device plugins of Ascend nodes, and those of HAMi, in the simulated cluster.

A device plugin confirms the devices of a pod that is bound: an Ascend one by the annotation `huawei.com/AscendReal`, that of
HAMi by `hami.io/bind-phase: success`. An Ascend one reports those of its node in a ConfigMap
(`docs/reference/ascend-reports.md`). Steps of a scenario (`devices`) make it report, confirm late or never, and reject pods.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct, field, structs

from events.normalize import Json, JsonObject
from events.normalize_config_map import (
    DEVICE_INFO,
    DEVICE_KEY,
    DEVICE_PREFIX,
    SEPARATED_KEY,
    SWITCH_KEY,
    check_code,
    go_json,
)
from simulator.manifest import Kind, Manifest
from simulator.manifest_fields import (
    changed,
    is_terminal,
    node_of,
    section,
    text_at,
    uid_of,
    whole_at,
)
from simulator.node_chips import DOMAIN, chips_of, resource_of_chip
from simulator.object_store import Change, Key, Store
from simulator.scenario import DevicePluginStep, DeviceReportStep, kind_named
from simulator.timeline import ActionKind, ScheduledAction, Timeline

POD: Final[Kind] = kind_named("Pod")
CONFIG_MAP: Final[Kind] = kind_named("ConfigMap")

REAL: Final = f"{DOMAIN}AscendReal"
PREDICATE_TIME: Final = "predicate-time"
DOMAINS: Final = (DOMAIN, "hami.io/")
"""Beginnings of the annotations that device plugins write."""
HAMI_PHASE: Final = "hami.io/bind-phase"
HAMI_TO_ALLOCATE: Final = "hami.io/vgpu-devices-to-allocate"
ALLOCATING: Final = "allocating"
NEVER_NS: Final = -1
"""Delay of a device plugin that confirms nothing."""

REJECTED: Final = "UnexpectedAdmissionError"
"""Reason of a pod that a device plugin rejects."""

_TEMPLATE: Final = re.compile(r"(\d+)-vir0*(\d+)(?:_(\d+)c)?(?:_(n?dvpp))?.*")
_FIRST_PART: Final = 100
"""Number of the first part of a chip that a device plugin makes."""


MANUALLY_SEPARATED: Final = "ManuallySeparateNPU"
TOLERATED: Final = ("NotHandleFault", "SubHealthFault")
"""Levels with which a chip stays healthy."""
TOLERATED_IN_USE: Final = ("PreSeparateNPU", "FreeRestartNPU")
"""Levels with which a chip is healthy as long as a pod has it."""
SWITCH_STATES: Final = {
    "NotHandle": "Healthy",
    "SubHealthFault": "SubHealthy",
    "RestartRequest": "UnHealthy",
    "Separate": "UnHealthy",
}
"""`FaultLevel` of the switches of a node to their `NodeStatus`."""


class ChipFault(Struct, frozen=True):
    """A fault of a chip, as its device plugin reports it."""

    level: str = "SeparateNPU"
    """`fault_handling`"""
    code: str = ""
    is_of_network: bool = False


NETWORK_DOWN: Final = ChipFault("NotHandleFault", is_of_network=True)
"""The fault of each chip of a node without a network."""


class _Plugin(Struct):
    """The device plugin of one node, as steps have set it."""

    confirm_ns: int = 0
    reject: str = ""
    parts: int = 0
    """Parts of chips made so far."""
    last: DeviceReportStep | None = None
    """What a step had it report last."""
    faults: dict[str, ChipFault] = field(default_factory=dict)
    switch_level: str = ""
    """`FaultLevel` of the switches of the node; empty if they report nothing."""
    reports: bool = False
    """Whether it reports again when a pod comes or goes."""


class DevicePlugins:
    """All device plugins of the cluster."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self._store = store
        self._timeline = timeline
        self._plugins: dict[str, _Plugin] = {}

    def on_change(self, change: Change) -> None:
        """Confirm the devices of a pod that is bound to a node with annotations for the device plugin."""
        pod = change.after
        if change.key[0] == "Pod":
            self._report_again(change)
        elif change.key[0] == "Node" and pod is None:
            self._plugins.pop(change.key[2], None)
        if change.key[0] != "Pod" or pod is None or not _waits(pod):
            return
        plugin = self._plugins.get(node_of(pod), _Plugin())
        had = change.before is not None and _waits(change.before)
        if plugin.confirm_ns == 0:
            self.confirm(change.key, uid_of(pod))
        elif plugin.confirm_ns > 0 and not had:
            due = ScheduledAction(ActionKind.CONFIRM, change.key, uid_of(pod))
            self._timeline.push(self._store.now_ns + plugin.confirm_ns, due)

    def confirm(self, key: Key, uid: str) -> None:
        """Write the devices that a pod has got on it, if it still waits for that."""
        pod = self._store.find(key)
        if pod is None or uid_of(pod) != uid or not _waits(pod):
            return
        annotations = section(pod, "metadata", "annotations")
        if annotations.get(HAMI_PHASE) == ALLOCATING:
            given = ";" * text_at(annotations, HAMI_TO_ALLOCATE).count(";")
            real = {**annotations, HAMI_TO_ALLOCATE: given, HAMI_PHASE: "success"}
        else:
            real = {**annotations, REAL: self._real_devices(pod)}
        self._store.put(POD, changed(pod, "metadata", annotations=real))

    def rejection(self, pod: Manifest, node: str) -> tuple[str, str] | None:
        """Return reason and message if the device plugin of the node rejects the pod."""
        plugin = self._plugins.get(node)
        annotations = section(pod, "metadata", "annotations")
        is_given = PREDICATE_TIME in annotations or HAMI_PHASE in annotations
        if plugin is None or not plugin.reject or not is_given:
            return None
        text = f"Allocate failed due to rpc error: code = Unknown desc = {plugin.reject}"
        return REJECTED, f"Pod was rejected: {text}, which is unexpected"

    def configure(self, step: DevicePluginStep) -> None:
        """Change how the device plugin of a node behaves from now on."""
        plugin = self._plugins.setdefault(step.node, _Plugin())
        if step.confirm_ns is not None:
            plugin.confirm_ns = step.confirm_ns
        if step.reject is not None:
            plugin.reject = step.reject

    def report(self, step: DeviceReportStep) -> None:
        """Write the ConfigMap of a node, with the faults of its chips."""
        plugin = self._plugins.setdefault(step.node, _Plugin())
        plugin.last = step
        if self._store.find(("Node", "", step.node)) is not None:
            self._write(step, plugin)

    def has_chips(self, node: str) -> bool:
        """Return whether a node is one whose device plugin reports chips."""
        found = self._store.find(("Node", "", node))
        return found is not None and bool(chips_of(found))

    def set_fault(self, node: str, chip: str, fault: ChipFault | None) -> None:
        """A chip breaks, or (None) is healthy again; reported at once."""
        plugin = self._plugins.setdefault(node, _Plugin())
        if fault is None:
            plugin.faults.pop(chip, None)
        else:
            plugin.faults[chip] = fault
        self._report_faults(node, plugin)

    def holders(self, node: str, chip: str) -> list[Key]:
        """Return the pods that have a chip: several if they share it."""
        pods = self._store.objects()["Pod"].items()
        return [key for key, pod in pods if node_of(pod) == node and chip in _chips(pod)]

    def set_network(self, node: str, *, is_healthy: bool) -> None:
        """All chips of a node lose their network, or have it again; faults of single chips stay."""
        plugin = self._plugins.setdefault(node, _Plugin())
        for chip in chips_of(self._store.find(("Node", "", node)) or {}):
            if is_healthy and plugin.faults.get(chip) == NETWORK_DOWN:
                del plugin.faults[chip]
            elif not is_healthy:
                plugin.faults.setdefault(chip, NETWORK_DOWN)
        self._report_faults(node, plugin)

    def set_switch_level(self, node: str, level: str) -> None:
        """The switches of a node report a fault of this level; an empty one if it is over."""
        plugin = self._plugins.setdefault(node, _Plugin())
        plugin.switch_level = level
        self._report_faults(node, plugin)

    def _report_faults(self, node: str, plugin: _Plugin) -> None:
        plugin.reports = True
        chips = chips_of(self._store.find(("Node", "", node)) or {})
        if chips:
            step = plugin.last or DeviceReportStep(
                0, node, resource_of_chip(chips[0]), super_pod_id=self._super_pod_of(node)
            )
            self._write(step, plugin)

    def _report_again(self, change: Change) -> None:
        """Report again when a pod came to a node, or its devices were confirmed or given back."""
        pods = [one for one in (change.before, change.after) if one is not None]
        for node in dict.fromkeys(node_of(one) for one in pods):
            plugin = self._plugins.get(node)
            if (
                plugin is not None
                and plugin.reports
                and _chips(change.before) != _chips(change.after)
            ):
                self._report_faults(node, plugin)

    def _write(self, step: DeviceReportStep, plugin: _Plugin) -> None:
        resource = step.resource
        used = self._used(step.node)
        unhealthy, no_network = dict.fromkeys(step.unhealthy), dict.fromkeys(step.network_unhealthy)
        objects = [
            {"fault_type": "CardUnhealthy", "npu_name": one, "fault_handling": "SeparateNPU"}
            for one in step.unhealthy
        ]
        for chip, fault in plugin.faults.items():
            kind = "CardNetworkUnhealthy" if fault.is_of_network else "CardUnhealthy"
            if fault.is_of_network:
                no_network[chip] = None
            elif fault.level not in TOLERATED and not (
                fault.level in TOLERATED_IN_USE and chip in used
            ):
                unhealthy[chip] = None
            one = {"fault_type": kind, "npu_name": chip, "fault_handling": fault.level}
            objects.append({**one, "fault_level": fault.level, "fault_code": fault.code})
        shown = structs.replace(
            step, unhealthy=tuple(unhealthy), network_unhealthy=tuple(no_network)
        )
        lists: dict[str, str] = {resource: ",".join(self._available(shown, used))}
        for suffix, names in (
            ("Unhealthy", shown.unhealthy),
            ("NetworkUnhealthy", shown.network_unhealthy),
            ("Recovering", step.recovering),
        ):
            lists[f"{resource}-{suffix}"] = ",".join(names)
        lists[f"{resource}-Fault"] = msgspec.json.encode(objects).decode()
        self._put_config_map(step, plugin, lists)

    def _put_config_map(
        self, step: DeviceReportStep, plugin: _Plugin, lists: dict[str, str]
    ) -> None:
        devices: Json = dict(sorted(lists.items()))
        info: JsonObject = {"DeviceList": devices, "UpdateTime": self._store.unix_seconds()}
        code = "0" * 64 if step.has_wrong_code else check_code(go_json(info))
        cfg: JsonObject = {"DeviceInfo": info, "CheckCode": code, "SuperPodID": step.super_pod_id}
        data: JsonObject = {DEVICE_KEY: go_json(cfg).decode()}
        separated = [c for c, fault in plugin.faults.items() if fault.level == MANUALLY_SEPARATED]
        if separated:
            data[SEPARATED_KEY] = ",".join(separated)
        if plugin.switch_level:
            state: JsonObject = {"FaultCode": [], "FaultLevel": plugin.switch_level}
            state["UpdateTime"] = self._store.unix_seconds()
            state["NodeStatus"] = SWITCH_STATES[plugin.switch_level]
            data[SWITCH_KEY] = go_json(state).decode()
        label, _, value = DEVICE_INFO.label_selector.partition("=")
        found = self._store.find(_report_key(step.node))
        manifest: Manifest = {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": dict(section(found, "metadata"))
            if found
            else {
                "name": f"{DEVICE_PREFIX}{step.node}",
                "namespace": DEVICE_INFO.namespace,
                "labels": {label: value},
            },
            "data": data,
        }
        self._store.put(CONFIG_MAP, manifest)

    def _super_pod_of(self, node: str) -> int:
        """Return the SuperPoD that the report of a node states; -1 if there is none."""
        found = self._store.find(_report_key(node))
        try:
            report = msgspec.json.decode(text_at(section(found or {}, "data"), DEVICE_KEY) or "{}")
        except msgspec.DecodeError:
            return -1
        return whole_at(report, "SuperPodID", -1) if isinstance(report, dict) else -1

    def _used(self, node: str) -> dict[str, None]:
        """Return the chips that pods of a node have."""
        used: dict[str, None] = {}
        for pod in self._store.objects()["Pod"].values():
            if node_of(pod) == node:
                used.update(_chips(pod))
        return used

    def _available(self, step: DeviceReportStep, used: dict[str, None]) -> list[str]:
        """Return the devices that the step names as available; else all of the node that are healthy and not in use."""
        if step.available is not None:
            return [one for one in step.available if one not in step.unhealthy]
        node = self._store.find(("Node", "", step.node)) or {}
        left_out = {*step.unhealthy, *step.recovering, *used}
        return [one for one in chips_of(node) if one not in left_out]

    def _real_devices(self, pod: Manifest) -> str:
        """Return what the device plugin writes: the names of chips as assigned, or the name of a new part of a chip."""
        annotations = section(pod, "metadata", "annotations")
        assigned = next(
            (
                text
                for key in sorted(annotations)
                if key.startswith(DOMAIN) and isinstance(text := annotations[key], str)
            ),
            "",
        )
        found = _TEMPLATE.fullmatch(assigned)
        node = self._store.find(("Node", "", node_of(pod))) or {}
        kind = text_at(section(node, "metadata", "labels"), "accelerator").removeprefix("huawei-")
        if found is None:
            chips = assigned.split(",")
            return ",".join(f"{kind}-{one}" if one.isdecimal() else one for one in chips)
        chip, cores, cpus, dvpp = found.groups()
        template = ".".join([f"{cores}c", *([f"{cpus}cpu"] if cpus else []), *filter(None, [dvpp])])
        plugin = self._plugins.setdefault(node_of(pod), _Plugin())
        plugin.parts += 1
        return f"{kind}-{template}-{_FIRST_PART + plugin.parts - 1}-{chip}_{plugin.parts - 1}"


def _report_key(node: str) -> Key:
    return ("ConfigMap", DEVICE_INFO.namespace, f"{DEVICE_PREFIX}{node}")


def _chips(pod: Manifest | None) -> dict[str, None]:
    """Return the chips that a pod has, as its device plugin confirmed them."""
    if pod is None or is_terminal(pod) or not node_of(pod):
        return {}
    text = text_at(section(pod, "metadata", "annotations"), REAL)
    return dict.fromkeys(text.split(",")) if text else {}


def _waits(pod: Manifest) -> bool:
    """Return whether a pod is on a node and waits for its device plugin."""
    annotations = section(pod, "metadata", "annotations")
    is_due = PREDICATE_TIME in annotations and REAL not in annotations
    is_due = is_due or annotations.get(HAMI_PHASE) == ALLOCATING
    return is_due and bool(node_of(pod)) and not is_terminal(pod)
