"""The device plugins of Ascend nodes, and those of HAMi, in the simulated cluster.

A device plugin confirms the devices of a pod that is bound: an Ascend one by the annotation `huawei.com/AscendReal`, that of
HAMi by `hami.io/bind-phase: success`. An Ascend one reports those of its node in a ConfigMap
(`docs/reference/ascend-reports.md`). Steps of a scenario (`devices`) make it report, confirm late or never, and reject pods.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from events.normalize import Json, JsonObject
from events.normalize_config_map import DEVICE_INFO, DEVICE_KEY, DEVICE_PREFIX, check_code, go_json
from simulator.manifest import Kind, Manifest
from simulator.manifest_fields import changed, is_terminal, node_of, section, text_at, uid_of
from simulator.object_store import Change, Key, Store
from simulator.scenario import DevicePluginStep, DeviceReportStep, kind_named
from simulator.timeline import ActionKind, ScheduledAction, Timeline

POD: Final[Kind] = kind_named("Pod")
CONFIG_MAP: Final[Kind] = kind_named("ConfigMap")

DOMAIN: Final = "huawei.com/"
REAL: Final = f"{DOMAIN}AscendReal"
PREDICATE_TIME: Final = "predicate-time"
BASE_DEVICES: Final = "baseDeviceInfos"
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


class _Plugin(Struct):
    """The device plugin of one node, as steps have set it."""

    confirm_ns: int = 0
    reject: str = ""
    parts: int = 0
    """Parts of chips made so far."""


class DevicePlugins:
    """All device plugins of the cluster."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self._store = store
        self._timeline = timeline
        self._plugins: dict[str, _Plugin] = {}

    def on_change(self, change: Change) -> None:
        """Confirm the devices of a pod that is bound to a node with annotations for the device plugin."""
        pod = change.after
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
        """Write the ConfigMap of a node."""
        resource = step.resource
        lists: dict[str, str] = {resource: ",".join(self._available(step))}
        for suffix, names in (
            ("Unhealthy", step.unhealthy),
            ("NetworkUnhealthy", step.network_unhealthy),
            ("Recovering", step.recovering),
        ):
            lists[f"{resource}-{suffix}"] = ",".join(names)
        faults = [
            {"fault_type": "CardUnhealthy", "npu_name": one, "fault_handling": "SeparateNPU"}
            for one in step.unhealthy
        ]
        lists[f"{resource}-Fault"] = msgspec.json.encode(faults).decode()
        devices: Json = dict(sorted(lists.items()))
        info: JsonObject = {"DeviceList": devices, "UpdateTime": self._store.unix_seconds()}
        code = "0" * 64 if step.has_wrong_code else check_code(go_json(info))
        cfg: JsonObject = {"DeviceInfo": info, "CheckCode": code, "SuperPodID": step.super_pod_id}
        name = f"{DEVICE_PREFIX}{step.node}"
        label, _, value = DEVICE_INFO.label_selector.partition("=")
        found = self._store.find(("ConfigMap", DEVICE_INFO.namespace, name))
        manifest: Manifest = {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": CONFIG_MAP.kind,
            "metadata": dict(section(found, "metadata"))
            if found
            else {"name": name, "namespace": DEVICE_INFO.namespace, "labels": {label: value}},
            "data": {DEVICE_KEY: go_json(cfg).decode()},
        }
        self._store.put(CONFIG_MAP, manifest)

    def _available(self, step: DeviceReportStep) -> list[str]:
        """Return the devices that the step names as available; else all of the node that are healthy and not in use."""
        if step.available is not None:
            return list(step.available)
        node = self._store.find(("Node", "", step.node)) or {}
        text = text_at(section(node, "metadata", "annotations"), BASE_DEVICES)
        names = list(msgspec.json.decode(text or "{}", type=dict[str, msgspec.Raw]))
        broken = {*step.unhealthy, *step.recovering}
        for pod in self._store.objects()["Pod"].values():
            if node_of(pod) == step.node and not is_terminal(pod):
                broken.update(text_at(section(pod, "metadata", "annotations"), REAL).split(","))
        return [one for one in names if one not in broken]

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


def _waits(pod: Manifest) -> bool:
    """Return whether a pod is on a node and waits for its device plugin."""
    annotations = section(pod, "metadata", "annotations")
    is_due = PREDICATE_TIME in annotations and REAL not in annotations
    is_due = is_due or annotations.get(HAMI_PHASE) == ALLOCATING
    return is_due and bool(node_of(pod)) and not is_terminal(pod)
