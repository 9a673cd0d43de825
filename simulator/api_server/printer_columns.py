"""The columns that `kubectl get` shows of each built-in kind, and their cells.

As in kube-apiserver 1.34 (`pkg/printers/internalversion/printers.go`). Columns of custom resources come from
their definitions: `additionalPrinterColumns`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import msgspec
from msgspec import Struct

from events.normalize import Json, JsonObject
from projections.volumes.facts import BETA_CLASS
from simulator.api_server.human_duration import human_duration
from simulator.api_server.json_path import first_result
from simulator.manifest import Manifest
from simulator.manifest_fields import (
    is_terminal,
    is_terminating,
    list_at,
    name_of,
    section,
    text_at,
    whole_at,
)

NONE: Final = "<none>"
UNKNOWN: Final = "<unknown>"
UNSET: Final = "<unset>"
_ROLE: Final = "node-role.kubernetes.io/"


class Column(Struct, frozen=True):
    """A column of a table. Those with a priority above 0 are shown by `-o wide`."""

    name: str
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0
    json_path: str = msgspec.field(default="", name="jsonPath")
    """Where a custom resource has the value."""

    def definition(self) -> JsonObject:
        """The column in a Table."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


class Printer(Struct, frozen=True):
    """The columns of a kind, and the function that returns the cells of an object at a Unix time in seconds."""

    columns: tuple[Column, ...]
    cells: Callable[[Manifest, int], list[Json]]


NAME: Final = Column("Name", format="name")
AGE: Final = Column("Age")


def printer_of(kind: str, group: str, custom_columns: tuple[Column, ...]) -> Printer:
    """Return the printer of a kind. A kind without columns of its own has a name and an age."""
    if (printer := PRINTERS.get((kind, group))) is not None:
        return printer
    columns = custom_columns or (Column("Age", "date", json_path=".metadata.creationTimestamp"),)
    return Printer(
        (NAME, *columns),
        lambda manifest, now: [
            name_of(manifest),
            *(_custom_cell(one, manifest, now) for one in columns),
        ],
    )


def custom_columns(version: Mapping[str, Json]) -> tuple[Column, ...]:
    """Return `additionalPrinterColumns` of one version of a CustomResourceDefinition."""
    found = []
    for one in list_at(version, "additionalPrinterColumns"):
        path = text_at(one, "jsonPath")
        why = f"Custom resource definition column (in JSONPath format): {path}"
        found.append(
            Column(
                text_at(one, "name"),
                text_at(one, "type"),
                text_at(one, "format"),
                text_at(one, "description") or why,
                whole_at(one, "priority", 0),
                path,
            )
        )
    return tuple(found)


def _custom_cell(column: Column, manifest: Manifest, now: int) -> Json:
    value = first_result(column.json_path, manifest)
    if value is None:
        return None
    match column.type:
        case "string":
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
        case "date":
            return since(value, now) if isinstance(value, str) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "integer" | "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return int(value) if column.type == "integer" else float(value)
        case _:
            return None


def since(timestamp: str, now: int) -> str:
    """Return the time from an RFC 3339 timestamp to now, as kubectl shows ages."""
    at = _seconds(timestamp)
    if at is None:
        return "<invalid>" if timestamp else UNKNOWN
    return human_duration(now - at)


def _seconds(timestamp: str) -> int | None:
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return None


def _age(manifest: Manifest, now: int) -> str:
    return since(text_at(section(manifest, "metadata"), "creationTimestamp"), now)


def _pod(pod: Manifest, now: int) -> list[Json]:
    spec, status = section(pod, "spec"), section(pod, "status")
    ready, shown, restarts = _container_summary(spec, status, now)
    gates = [
        text_at(one, "status") == "True"
        for gate in list_at(spec, "readinessGates")
        for one in list_at(status, "conditions")
        if one.get("type") == gate.get("conditionType")
    ]
    count = len(list_at(spec, "readinessGates"))
    if is_terminating(pod) and status.get("reason") == "NodeLost":
        shown = "Unknown"
    elif is_terminating(pod) and not is_terminal(pod):
        shown = "Terminating"
    addresses = [text_at(one, "ip") for one in list_at(status, "podIPs")]
    return [
        name_of(pod),
        ready,
        shown,
        restarts,
        _age(pod, now),
        next(iter(addresses), "") or NONE,
        text_at(spec, "nodeName") or NONE,
        text_at(status, "nominatedNodeName") or NONE,
        f"{sum(gates)}/{count}" if count else NONE,
    ]


def _container_summary(
    spec: Mapping[str, Json], status: Mapping[str, Json], now: int
) -> tuple[str, str, str]:
    """Return the columns Ready, Status and Restarts of a pod that is not being deleted."""
    shown = text_at(status, "reason") or text_at(status, "phase")
    conditions = list_at(status, "conditions")
    if any(one.get("reason") == "SchedulingGated" for one in conditions):
        shown = "SchedulingGated"
    initial = {text_at(one, "name"): one for one in list_at(spec, "initContainers")}
    sidecars = {name for name, one in initial.items() if one.get("restartPolicy") == "Always"}
    total, ready = len(list_at(spec, "containers")) + len(sidecars), 0
    started = list_at(status, "initContainerStatuses")
    counted, is_initializing = started, False
    for index, one in enumerate(started):
        ended, waiting = _state(one, "terminated"), text_at(_state(one, "waiting"), "reason")
        is_sidecar = text_at(one, "name") in sidecars
        if _has_state(one, "terminated") and whole_at(ended, "exitCode", 0) == 0:
            continue
        if is_sidecar and one.get("started") is True:
            ready += one.get("ready") is True
            continue
        is_initializing = True
        if _has_state(one, "terminated"):
            shown = f"Init:{_ending(ended)}"
        elif waiting and waiting != "PodInitializing":
            shown = f"Init:{waiting}"
        else:
            shown = f"Init:{index}/{len(initial)}"
        counted = started[: index + 1]
        break
    if not is_initializing or _is_true(conditions, "Initialized"):
        containers = list_at(status, "containerStatuses")
        counted = [one for one in started if text_at(one, "name") in sidecars] + containers
        has_running = False
        for one in reversed(containers):
            if waiting := text_at(_state(one, "waiting"), "reason"):
                shown = waiting
            elif _has_state(one, "terminated"):
                shown = _ending(_state(one, "terminated"))
            elif one.get("ready") is True and _has_state(one, "running"):
                has_running = True
                ready += 1
        if shown == "Completed" and has_running:
            shown = "Running" if _is_true(conditions, "Ready") else "NotReady"
    return f"{ready}/{total}", shown, _restarts(counted, now)


def _restarts(statuses: list[Mapping[str, Json]], now: int) -> str:
    count = sum(whole_at(one, "restartCount", 0) for one in statuses)
    ends = [
        text_at(section(one, "lastState", "terminated"), "finishedAt")
        for one in statuses
        if section(one, "lastState", "terminated")
    ]
    known = [(at, end) for end in ends if (at := _seconds(end)) is not None]
    return f"{count} ({since(max(known)[1], now)} ago)" if count and known else str(count)


def _state(status: Mapping[str, Json], name: str) -> Mapping[str, Json]:
    return section(status, "state", name)


def _has_state(status: Mapping[str, Json], name: str) -> bool:
    return name in section(status, "state")


def _ending(terminated: Mapping[str, Json]) -> str:
    if reason := text_at(terminated, "reason"):
        return reason
    if signal := whole_at(terminated, "signal", 0):
        return f"Signal:{signal}"
    return f"ExitCode:{whole_at(terminated, 'exitCode', 0)}"


def _is_true(conditions: list[Mapping[str, Json]], kind: str) -> bool:
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


def _node(node: Manifest, now: int) -> list[Json]:
    status = section(node, "status")
    info = section(status, "nodeInfo")
    ready = [one for one in list_at(status, "conditions") if one.get("type") == "Ready"]
    shown = "Unknown"
    if ready:
        shown = "Ready" if ready[-1].get("status") == "True" else "NotReady"
    if section(node, "spec").get("unschedulable") is True:
        shown += ",SchedulingDisabled"
    labels = section(node, "metadata", "labels")
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    roles |= {str(value) for key, value in labels.items() if key == "kubernetes.io/role"}
    addresses = {
        text_at(one, "type"): text_at(one, "address")
        for one in reversed(list_at(status, "addresses"))
    }
    return [
        name_of(node),
        shown,
        ",".join(sorted(roles - {""})) or NONE,
        _age(node, now),
        text_at(info, "kubeletVersion"),
        addresses.get("InternalIP", NONE),
        addresses.get("ExternalIP", NONE),
        text_at(info, "osImage") or UNKNOWN,
        text_at(info, "kernelVersion") or UNKNOWN,
        text_at(info, "containerRuntimeVersion") or UNKNOWN,
    ]


def _event(event: Manifest, now: int) -> list[Json]:
    """Of an Event of either group."""
    is_core = event["apiVersion"] == "v1"
    about = section(event, "involvedObject" if is_core else "regarding")
    source = section(event, "source" if is_core else "deprecatedSource")
    first = text_at(event, "firstTimestamp" if is_core else "deprecatedFirstTimestamp")
    first = since(first or text_at(event, "eventTime"), now)
    last = text_at(event, "lastTimestamp" if is_core else "deprecatedLastTimestamp")
    last = since(last, now) if last else first
    count = whole_at(event, "count" if is_core else "deprecatedCount", 0) or 1
    if series := section(event, "series"):
        last = since(text_at(series, "lastObservedTime"), now)
        count = whole_at(series, "count", 0)
    component = text_at(source, "component") or text_at(
        event, "reportingComponent" if is_core else "reportingController"
    )
    instance = text_at(source, "host") or text_at(event, "reportingInstance")
    kind, name = text_at(about, "kind").lower(), text_at(about, "name")
    return [
        last,
        text_at(event, "type"),
        text_at(event, "reason"),
        f"{kind}/{name}" if name else kind,
        text_at(about, "fieldPath"),
        f"{component}, {instance}" if instance else component,
        text_at(event, "message" if is_core else "note").strip(),
        first,
        count,
        name_of(event),
    ]


def _job(job: Manifest, now: int) -> list[Json]:
    spec, status = section(job, "spec"), section(job, "status")
    succeeded = whole_at(status, "succeeded", 0)
    parallelism = whole_at(spec, "parallelism", 1)
    if isinstance(completions := spec.get("completions"), int):
        done = f"{succeeded}/{completions}"
    else:
        done = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    begun, ended = (_seconds(text_at(status, key)) for key in ("startTime", "completionTime"))
    took = "" if begun is None else human_duration((now if ended is None else ended) - begun)
    conditions = list_at(status, "conditions")
    shown = "Running"
    for kind, name in _JOB_STATES:
        if is_terminating(job) if kind == "Terminating" else _is_true(conditions, kind):
            shown = name
            break
    template = _containers(spec)
    return [name_of(job), shown, done, took, _age(job, now), *template, _selector(spec)]


_JOB_STATES: Final = (
    *(("Complete", "Complete"), ("Failed", "Failed"), ("Terminating", "Terminating")),
    *(("Suspended", "Suspended"), ("FailureTarget", "FailureTarget")),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _deployment(one: Manifest, now: int) -> list[Json]:
    spec, status = section(one, "spec"), section(one, "status")
    return [
        name_of(one),
        f"{whole_at(status, 'readyReplicas', 0)}/{whole_at(spec, 'replicas', 1)}",
        whole_at(status, "updatedReplicas", 0),
        whole_at(status, "availableReplicas", 0),
        _age(one, now),
        *_containers(spec),
        _selector(spec),
    ]


def _replica_set(one: Manifest, now: int) -> list[Json]:
    spec, status = section(one, "spec"), section(one, "status")
    return [
        name_of(one),
        whole_at(spec, "replicas", 1),
        whole_at(status, "replicas", 0),
        whole_at(status, "readyReplicas", 0),
        _age(one, now),
        *_containers(spec),
        _selector(spec),
    ]


def _stateful_set(one: Manifest, now: int) -> list[Json]:
    spec, status = section(one, "spec"), section(one, "status")
    ready = f"{whole_at(status, 'readyReplicas', 0)}/{whole_at(spec, 'replicas', 1)}"
    return [name_of(one), ready, _age(one, now), *_containers(spec)]


def _daemon_set(one: Manifest, now: int) -> list[Json]:
    spec, status = section(one, "spec"), section(one, "status")
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady")
    nodes = section(spec, "template", "spec", "nodeSelector")
    return [
        name_of(one),
        *(whole_at(status, key, 0) for key in counts),
        *(whole_at(status, key, 0) for key in ("updatedNumberScheduled", "numberAvailable")),
        ",".join(f"{key}={value}" for key, value in sorted(nodes.items())) or NONE,
        _age(one, now),
        *_containers(spec),
        _selector(spec),
    ]


def _containers(spec: Mapping[str, Json]) -> tuple[str, str]:
    found = list_at(section(spec, "template", "spec"), "containers")
    names, images = ([text_at(one, key) for one in found] for key in ("name", "image"))
    return ",".join(names), ",".join(images)


def _selector(spec: Mapping[str, Json]) -> str:
    """A LabelSelector in the form that `kubectl -l` takes."""
    selector = section(spec, "selector")
    labels = section(selector, "matchLabels")
    parts = [(key, f"{key}={value}") for key, value in labels.items()]
    for one in list_at(selector, "matchExpressions"):
        key, operator, values = text_at(one, "key"), text_at(one, "operator"), one.get("values")
        listed = ",".join(sorted(map(str, values if isinstance(values, list) else ())))
        forms = {"In": f"{key} in ({listed})", "NotIn": f"{key} notin ({listed})", "Exists": key}
        parts.append((key, forms.get(operator, f"!{key}")))
    return ",".join(part for _, part in sorted(parts)) or NONE


def _budget(one: Manifest, now: int) -> list[Json]:
    spec = section(one, "spec")
    limits = [spec.get(key) for key in ("minAvailable", "maxUnavailable")]
    return [
        name_of(one),
        *("N/A" if limit is None else str(limit) for limit in limits),
        whole_at(section(one, "status"), "disruptionsAllowed", 0),
        _age(one, now),
    ]


def _priority_class(one: Manifest, now: int) -> list[Json]:
    policy = text_at(one, "preemptionPolicy") or "PreemptLowerPriority"
    is_default = one.get("globalDefault") is True
    return [name_of(one), whole_at(one, "value", 0), is_default, _age(one, now), policy]


def _namespace(one: Manifest, now: int) -> list[Json]:
    return [name_of(one), text_at(section(one, "status"), "phase"), _age(one, now)]


def _config_map(one: Manifest, now: int) -> list[Json]:
    count = len(section(one, "data")) + len(section(one, "binaryData"))
    return [name_of(one), count, _age(one, now)]


def _lease(one: Manifest, now: int) -> list[Json]:
    return [name_of(one), text_at(section(one, "spec"), "holderIdentity"), _age(one, now)]


_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def _claim(one: Manifest, now: int) -> list[Json]:
    spec, status = section(one, "spec"), section(one, "status")
    volume = text_at(spec, "volumeName")
    return [
        name_of(one),
        _volume_phase(one),
        volume,
        str(section(status, "capacity").get("storage", "")) if volume else "",
        _modes(status) if volume else "",
        _class_of(one),
        text_at(spec, "volumeAttributesClassName") or UNSET,
        _age(one, now),
        text_at(spec, "volumeMode") or "Filesystem",
    ]


def _volume(one: Manifest, now: int) -> list[Json]:
    spec = section(one, "spec")
    claim = section(spec, "claimRef")
    return [
        name_of(one),
        str(section(spec, "capacity").get("storage", "0")),
        _modes(spec),
        text_at(spec, "persistentVolumeReclaimPolicy") or "Retain",
        _volume_phase(one),
        f"{text_at(claim, 'namespace')}/{text_at(claim, 'name')}" if claim else "",
        _class_of(one),
        text_at(spec, "volumeAttributesClassName") or UNSET,
        text_at(section(one, "status"), "reason"),
        _age(one, now),
        text_at(spec, "volumeMode") or "Filesystem",
    ]


def _storage_class(one: Manifest, now: int) -> list[Json]:
    is_default = section(one, "metadata", "annotations").get(_DEFAULT_CLASS) == "true"
    return [
        f"{name_of(one)} (default)" if is_default else name_of(one),
        text_at(one, "provisioner"),
        text_at(one, "reclaimPolicy") or "Delete",
        text_at(one, "volumeBindingMode") or "Immediate",
        one.get("allowVolumeExpansion") is True,
        _age(one, now),
    ]


def _driver(one: Manifest, now: int) -> list[Json]:
    spec = section(one, "spec")
    modes, tokens = spec.get("volumeLifecycleModes"), list_at(spec, "tokenRequests")
    return [
        name_of(one),
        spec.get("attachRequired") is not False,
        spec.get("podInfoOnMount") is True,
        spec.get("storageCapacity") is True,
        ",".join(text_at(one, "audience") for one in tokens) or UNSET,
        spec.get("requiresRepublish") is True,
        ",".join(map(str, modes)) if isinstance(modes, list) and modes else "Persistent",
        _age(one, now),
    ]


def _volume_phase(one: Manifest) -> str:
    return "Terminating" if is_terminating(one) else text_at(section(one, "status"), "phase")


def _modes(of: Mapping[str, Json]) -> str:
    found = of.get("accessModes")
    stated = found if isinstance(found, list) else []
    return ",".join(short for mode, short in _MODES.items() if mode in stated)


def _class_of(one: Manifest) -> str:
    annotations = section(one, "metadata", "annotations")
    if BETA_CLASS in annotations:
        return text_at(annotations, BETA_CLASS)
    return text_at(section(one, "spec"), "storageClassName")


def _definition(one: Manifest, _now: int) -> list[Json]:
    return [name_of(one), text_at(section(one, "metadata"), "creationTimestamp")]


def _wide(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, priority=1) for name in names)


_TEMPLATE: Final = _wide("Containers", "Images")
_INTEGERS: Final = tuple(Column(name, "integer") for name in ("Desired", "Current", "Ready"))

PRINTERS: Final[dict[tuple[str, str], Printer]] = {
    ("Pod", ""): Printer(
        (
            *(NAME, Column("Ready"), Column("Status"), Column("Restarts"), AGE),
            *_wide("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        _pod,
    ),
    ("Node", ""): Printer(
        (
            *(NAME, Column("Status"), Column("Roles"), AGE, Column("Version")),
            *_wide("Internal-IP", "External-IP", "OS-Image"),
            *_wide("Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    **{
        ("Event", group): Printer(
            (
                *(Column("Last Seen"), Column("Type"), Column("Reason"), Column("Object")),
                *(*_wide("Subobject", "Source"), Column("Message")),
                *(*_wide("First Seen", "Count"), Column("Name", format="name", priority=1)),
            ),
            _event,
        )
        for group in ("", "events.k8s.io")
    },
    ("Namespace", ""): Printer((NAME, Column("Status"), AGE), _namespace),
    ("ConfigMap", ""): Printer((NAME, Column("Data"), AGE), _config_map),
    ("Job", "batch"): Printer(
        (
            *(NAME, Column("Status"), Column("Completions"), Column("Duration"), AGE),
            *(*_TEMPLATE, *_wide("Selector")),
        ),
        _job,
    ),
    ("Deployment", "apps"): Printer(
        (
            *(NAME, Column("Ready"), Column("Up-to-date"), Column("Available"), AGE),
            *(*_TEMPLATE, *_wide("Selector")),
        ),
        _deployment,
    ),
    ("ReplicaSet", "apps"): Printer(
        (NAME, *_INTEGERS, AGE, *_TEMPLATE, *_wide("Selector")), _replica_set
    ),
    ("StatefulSet", "apps"): Printer((NAME, Column("Ready"), AGE, *_TEMPLATE), _stateful_set),
    ("DaemonSet", "apps"): Printer(
        (
            *(NAME, *_INTEGERS, Column("Up-to-date", "integer"), Column("Available", "integer")),
            *(Column("Node Selector"), AGE, *_TEMPLATE, *_wide("Selector")),
        ),
        _daemon_set,
    ),
    ("PodDisruptionBudget", "policy"): Printer(
        (
            *(NAME, Column("Min Available"), Column("Max Unavailable")),
            *(Column("Allowed Disruptions", "integer"), AGE),
        ),
        _budget,
    ),
    ("PriorityClass", "scheduling.k8s.io"): Printer(
        (
            *(NAME, Column("Value", "integer"), Column("Global-Default", "boolean"), AGE),
            Column("PreemptionPolicy"),
        ),
        _priority_class,
    ),
    ("PersistentVolumeClaim", ""): Printer(
        (
            *(NAME, Column("Status"), Column("Volume"), Column("Capacity"), Column("Access Modes")),
            *(Column("StorageClass"), Column("VolumeAttributesClass"), AGE, *_wide("VolumeMode")),
        ),
        _claim,
    ),
    ("PersistentVolume", ""): Printer(
        (
            *(NAME, Column("Capacity"), Column("Access Modes"), Column("Reclaim Policy")),
            *(Column("Status"), Column("Claim"), Column("StorageClass")),
            *(Column("VolumeAttributesClass"), Column("Reason"), AGE, *_wide("VolumeMode")),
        ),
        _volume,
    ),
    ("StorageClass", "storage.k8s.io"): Printer(
        (
            *(NAME, Column("Provisioner"), Column("ReclaimPolicy"), Column("VolumeBindingMode")),
            *(Column("AllowVolumeExpansion"), AGE),
        ),
        _storage_class,
    ),
    ("CSIDriver", "storage.k8s.io"): Printer(
        (
            *(NAME, Column("AttachRequired", "boolean"), Column("PodInfoOnMount", "boolean")),
            *(Column("StorageCapacity", "boolean"), Column("TokenRequests")),
            *(Column("RequiresRepublish", "boolean"), Column("Modes"), AGE),
        ),
        _driver,
    ),
    ("Lease", "coordination.k8s.io"): Printer((NAME, Column("Holder"), AGE), _lease),
    ("CustomResourceDefinition", "apiextensions.k8s.io"): Printer(
        (NAME, Column("Created At", "date")), _definition
    ),
}
"""By kind and group."""
