"""Scenarios: plain Kubernetes manifests on a timeline, and the expected result.

Text in, data out: the command reads the files that a scenario names (a policy, a trace). Errors name file, line and
reason.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from msgspec import Struct

from events.duration import SECOND
from events.errors import DocumentError
from events.normalize import Json, JsonObject
from events.yaml_document import NODES_MAX, YamlValue, read_document
from simulator.fault_rates import FaultRates, read_fault_rates
from simulator.fault_steps import RaiseFault, RepairFault, read_raise, read_repair
from simulator.known_objects import KnownObjects, shown_name
from simulator.manifest import (
    KINDS,
    Kind,
    LocatedManifest,
    Manifest,
    read_kind,
    read_manifest,
    read_merge,
)


class Apply(Struct, frozen=True):
    """Create an object, or change it to its manifest."""

    at_ns: int
    kind: Kind
    manifest: Manifest


class Delete(Struct, frozen=True):
    """Delete an object."""

    at_ns: int
    kind: Kind
    namespace: str
    name: str


class Patch(Struct, frozen=True):
    """Change an object by a JSON merge patch."""

    at_ns: int
    kind: Kind
    namespace: str
    name: str
    merge: JsonObject


class Fail(Struct, frozen=True):
    """End a pod that has a node, with an exit code."""

    at_ns: int
    namespace: str
    name: str
    exit_code: int


class DevicePluginStep(Struct, frozen=True):
    """Change how the device plugin of a node behaves."""

    at_ns: int
    node: str
    confirm_ns: int | None = None
    """How long after a pod is bound its devices are confirmed; -1 for never, None for no change."""
    reject: str | None = None
    """With what it rejects pods; empty for not, None for no change."""


class DeviceReportStep(Struct, frozen=True):
    """Have the device plugin of a node report its devices."""

    at_ns: int
    node: str
    resource: str
    available: tuple[str, ...] | None = None
    """None: all of the node that are healthy and not in use."""
    unhealthy: tuple[str, ...] = ()
    network_unhealthy: tuple[str, ...] = ()
    recovering: tuple[str, ...] = ()
    super_pod_id: int = -1
    has_wrong_code: bool = False


Step: TypeAlias = (
    Apply | Delete | Patch | Fail | RaiseFault | RepairFault | DevicePluginStep | DeviceReportStep
)


class TraceSource(Struct, frozen=True):
    """The files of a published trace, and how to play it."""

    format: str
    nodes: str
    pods: str
    order: str = "time"
    """`time`: as recorded; `saturate`: one pod after the other, without departures."""
    arrivals: str | None = None
    """A published order of arrival for `saturate`; else the order of the file."""
    shares: str = "whole"
    """What a share of a card counts as: a `whole` card, or its `thousandths`."""


class WorkloadSource(Struct, frozen=True):
    """A cluster and a pod mix made from the counts that are shipped with muster."""

    name: str
    seed: int = 1
    scale_percent: int = 100
    """Percentage of the nodes and pods."""
    window_ns: int = 120 * SECOND
    """The time over which the pods arrive."""
    load_percent: int = 100
    """The requested load in percent of that of the trace."""
    spot_percent: int | None = None
    """The percentage of Spot jobs; None: as in the trace."""


class Scenario(Struct, frozen=True, kw_only=True):
    """A scenario. Times are whole nanoseconds from its start."""

    name: str
    source: str = "scenario"
    policy: dict[str, Json] | None = None
    policy_file: str | None = None
    policy_place: str = ""
    """`FILE:LINE` of the key with the policy or its file; empty without one."""
    period_ns: int = SECOND
    start_delay_ns: int = 0
    until_ns: int | None = None
    """None: until nothing more can happen."""
    cycles: int | None = None
    has_podgroup_controller: bool = False
    """Whether Volcano's controller creates PodGroup objects for pods that name none."""
    cluster: tuple[LocatedManifest, ...] = ()
    steps: tuple[Step, ...] = ()
    """By time; at equal times in the order of the text."""
    faults: FaultRates | None = None
    """Faults that are drawn, in addition to those of `steps`."""
    trace: TraceSource | None = None
    workload: WorkloadSource | None = None
    expect: Json = None
    """None: nothing is expected."""


_KEYS: Final = (
    *("scenario", "policy", "policy_file", "period", "start_delay", "until", "cycles"),
    *("podgroup_controller", "faults"),
    *("cluster", "steps", "trace", "workload", "expect"),
)
_STEP_KEYS: Final = ("at", "apply", "delete", "patch", "fail", "repair", "devices")
_DEVICE_KEYS: Final = ("node", "confirm", "reject", "report")
_REPORT_LISTS: Final = ("available", "unhealthy", "network_unhealthy", "recovering")
_REPORT_KEYS: Final = ("resource", *_REPORT_LISTS, "super_pod_id", "wrong_code")
_TRACE_KEYS: Final = ("format", "nodes", "pods", "order", "arrivals", "shares")
_WORKLOAD_KEYS: Final = ("name", "seed", "scale", "window", "load", "spot")
_WINDOWS: Final = {"openb": 120 * SECOND, "spot-gpu": 24 * 3600 * SECOND}
"""The known workloads, and the default of their arrival window."""


RESULT: Final = (
    *("scenario", "at_seconds", "log", "decisions", "pods", "pod_groups", "queues", "switches"),
    *("workloads", "account", "expected"),
)
"""The keys of the result document, which may be expected."""
EXPERIMENTS: Final = "experiments"
"""One more, if there are experiments."""


def parse_scenario(text: str, source: str, nodes_max: int = NODES_MAX) -> Scenario:
    """Parse a scenario; `source` is the file's name in error messages."""
    document = read_document(text, source, nodes_max)
    fields = document.fields("a scenario", _KEYS)
    if "scenario" not in fields:
        raise document.error("a scenario must say what it shows, in a sentence: `scenario: ...`")
    for one, other in (("policy", "policy_file"), ("trace", "workload")):
        if one in fields and other in fields:
            raise fields[other].error(f"{other} cannot stand beside {one}")
    until = _time(fields, "until")
    cluster = _read_cluster(fields.get("cluster"))
    trace = _read_trace(fields["trace"]) if "trace" in fields else None
    workload = _read_workload(fields["workload"]) if "workload" in fields else None
    if "faults" in fields and until is None:
        raise fields["faults"].error("faults need an end of the scenario: `until: 168h`")
    known = KnownObjects(cluster, is_all=not (trace or workload))
    return Scenario(
        name=fields["scenario"].text("scenario"),
        source=source,
        policy=_read_policy(fields["policy"]) if "policy" in fields else None,
        policy_file=fields["policy_file"].text("policy_file") if "policy_file" in fields else None,
        policy_place=next(
            (fields[key].place for key in ("policy", "policy_file") if key in fields), ""
        ),
        period_ns=_period(fields),
        start_delay_ns=_time(fields, "start_delay") or 0,
        until_ns=until,
        cycles=fields["cycles"].whole("cycles", 1) if "cycles" in fields else None,
        has_podgroup_controller=_truth(fields, "podgroup_controller"),
        cluster=cluster,
        steps=tuple(_read_steps(fields.get("steps"), until, known)),
        faults=read_fault_rates(fields["faults"]) if "faults" in fields else None,
        trace=trace,
        workload=workload,
        expect=_read_expect(fields["expect"]) if "expect" in fields else None,
    )


def read_steps(
    value: YamlValue, until_ns: int | None, objects: tuple[LocatedManifest, ...] | None
) -> tuple[Step, ...]:
    """Read the steps of something else than a scenario, in which they may name these objects; None for any."""
    known = KnownObjects(objects or (), is_all=objects is not None)
    return tuple(_read_steps(value, until_ns, known, "the log"))


def read_policy_value(value: YamlValue) -> dict[str, Json]:
    """Read a policy that stands in another document."""
    return _read_policy(value)


def _time(fields: dict[str, YamlValue], name: str) -> int | None:
    return fields[name].time_ns(name) if name in fields else None


def _truth(fields: dict[str, YamlValue], name: str) -> bool:
    value = fields[name].plain() if name in fields else False
    if not isinstance(value, bool):
        raise fields[name].error(f"{name} must be true or false")
    return value


def _period(fields: dict[str, YamlValue]) -> int:
    if "period" not in fields:
        return SECOND
    period = fields["period"].time_ns("period")
    if period == 0:
        raise fields["period"].error("period must be longer than nothing")
    return period


def _read_policy(value: YamlValue) -> JsonObject:
    return {name: entry.plain() for name, entry in value.mapping("policy").items()}


def _read_expect(value: YamlValue) -> Json:
    return {
        name: entry.plain()
        for name, entry in value.fields("expect", (*RESULT, EXPERIMENTS)).items()
    }


def _read_cluster(value: YamlValue | None) -> tuple[LocatedManifest, ...]:
    objects: dict[tuple[Kind, str, str], LocatedManifest] = {}
    for item in value.items("cluster") if value is not None else ():
        for placed in read_manifest(item):
            key = (placed.kind, placed.namespace, placed.name)
            if key in objects:
                line = objects[key].place.rpartition(":")[2]
                raise item.error(
                    f"{placed.kind.kind} {shown_name(placed.namespace, placed.name)} is there already, "
                    f"from line {line}"
                )
            objects[key] = placed
    return tuple(objects.values())


def _read_steps(
    value: YamlValue | None,
    until: int | None,
    known: KnownObjects,
    end: str = "the scenario (until)",
) -> Iterator[Step]:
    before = 0
    for item in value.items("steps") if value is not None else ():
        fields = item.fields("a step", _STEP_KEYS)
        if "at" not in fields:
            raise item.error("a step must say when: `at: 5s`")
        at = fields["at"].time_ns("at")
        if at < before:
            raise fields["at"].error("at: this step comes before the one above it")
        if until is not None and at > until:
            raise fields["at"].error(f"at: this step comes after the end of {end}")
        before = at
        for name, field in fields.items():
            if name != "at":
                for action in field.items(name):
                    yield from _read_action(name, action, at, known)


def _read_action(name: str, value: YamlValue, at: int, known: KnownObjects) -> Iterator[Step]:
    match name:
        case "apply":
            for placed in read_manifest(value):
                known.add(placed, value)
                yield Apply(at, placed.kind, placed.manifest)
        case "delete":
            fields = value.fields("delete", ("kind", "apiVersion", "namespace", "name"))
            reference = _read_reference(value, fields, known)
            known.planned.remove(*reference)
            yield Delete(at, *reference)
        case "patch":
            fields = value.fields("patch", ("kind", "apiVersion", "namespace", "name", "merge"))
            if "merge" not in fields:
                raise value.error("a patch must say what changes: `merge: {...}`")
            entries = fields["merge"].mapping("merge")
            kind, namespace, name = _read_reference(value, fields, known)
            merge = read_merge(kind, entries)
            known.planned.patch(kind, namespace, name, merge, fields["merge"])
            yield Patch(at, kind, namespace, name, merge)
        case "devices":
            yield from _read_devices(value, at, known)
        case "repair":
            yield read_repair(value, at, known)
        case _ if "pod" in value.mapping("fail"):
            yield _read_fail(value, at, known)
        case _:
            yield read_raise(value, at, known)


def _read_reference(
    value: YamlValue, fields: dict[str, YamlValue], known: KnownObjects
) -> tuple[Kind, str, str]:
    kind = read_kind(value, fields)
    if "name" not in fields:
        raise value.error("name is missing")
    name = fields["name"].text("name")
    namespace = ""
    if kind.is_namespaced:
        namespace = fields["namespace"].text("namespace") if "namespace" in fields else "default"
    known.check(value, kind.kind, namespace, name)
    return kind, namespace, name


def _read_fail(value: YamlValue, at: int, known: KnownObjects) -> Fail:
    fields = value.fields("fail", ("pod", "exit_code"))
    namespace, slash, name = fields["pod"].text("pod").rpartition("/")
    namespace = namespace if slash else "default"
    known.check(fields["pod"], "Pod", namespace, name)
    exit_code = fields["exit_code"].whole("exit_code") if "exit_code" in fields else 1
    return Fail(at, namespace, name, exit_code)


def _read_devices(value: YamlValue, at: int, known: KnownObjects) -> Iterator[Step]:
    fields = value.fields("devices", _DEVICE_KEYS)
    if "node" not in fields:
        raise value.error("node is missing")
    node = fields["node"].text("node")
    known.check(fields["node"], "Node", "", node)
    if "confirm" in fields or "reject" in fields:
        confirm = fields.get("confirm")
        is_never = confirm is not None and confirm.plain() == "never"
        delay = None if confirm is None else -1 if is_never else confirm.time_ns("confirm")
        reject = fields["reject"].plain() if "reject" in fields else None
        if reject is not None and not isinstance(reject, str):
            raise fields["reject"].error("reject must be a text")
        yield DevicePluginStep(at, node, delay, reject)
    if "report" in fields:
        yield _read_report(fields["report"], at, node)


def _read_report(value: YamlValue, at: int, node: str) -> DeviceReportStep:
    fields = value.fields("report", _REPORT_KEYS)
    lists = {
        name: tuple(one.text(name) for one in fields[name].items(name))
        for name in _REPORT_LISTS
        if name in fields
    }
    place = fields["super_pod_id"].plain() if "super_pod_id" in fields else -1
    if not isinstance(place, int):
        raise fields["super_pod_id"].error("super_pod_id must be a whole number")
    return DeviceReportStep(
        at,
        node,
        fields["resource"].text("resource") if "resource" in fields else "huawei.com/Ascend910",
        available=lists.get("available"),
        unhealthy=lists.get("unhealthy", ()),
        network_unhealthy=lists.get("network_unhealthy", ()),
        recovering=lists.get("recovering", ()),
        super_pod_id=place,
        has_wrong_code=_truth(fields, "wrong_code"),
    )


def _read_trace(value: YamlValue) -> TraceSource:
    fields = value.fields("trace", _TRACE_KEYS)
    for name in ("format", "nodes", "pods"):
        if name not in fields:
            raise value.error(f"trace: {name} is missing")
    trace = TraceSource(**{name: field.text(f"trace.{name}") for name, field in fields.items()})
    if trace.format != "openb":
        raise fields["format"].error(f"trace.format: {trace.format!r} is not known; known is openb")
    if trace.order not in ("time", "saturate"):
        raise fields["order"].error(f"trace.order: {trace.order!r} is neither time nor saturate")
    if trace.shares not in ("whole", "thousandths"):
        text = f"trace.shares: {trace.shares!r} is neither whole nor thousandths"
        raise fields["shares"].error(text)
    if trace.arrivals is not None and trace.order != "saturate":
        raise fields["arrivals"].error("trace.arrivals goes with `order: saturate` only")
    return trace


def _read_workload(value: YamlValue) -> WorkloadSource:
    fields = {"name": value} if value.is_scalar else value.fields("workload", _WORKLOAD_KEYS)
    if "name" not in fields:
        raise value.error("workload: name is missing")
    name = fields["name"].text("workload.name")
    if name not in _WINDOWS:
        raise value.error(f"workload: {name!r} is not known; known are {', '.join(_WINDOWS)}")
    for key in ("load", "spot"):
        if key in fields and name != "spot-gpu":
            raise fields[key].error(f"workload.{key} goes with `name: spot-gpu` only")
    return WorkloadSource(
        name=name,
        seed=fields["seed"].whole("workload.seed") if "seed" in fields else 1,
        scale_percent=_percent(fields, "scale", 10) or 100,
        window_ns=fields["window"].time_ns("window") if "window" in fields else _WINDOWS[name],
        load_percent=_percent(fields, "load", 10) or 100,
        spot_percent=_percent(fields, "spot", 1),
    )


def _percent(fields: dict[str, YamlValue], name: str, most: int) -> int | None:
    """Read a share such as 0.25, in percent."""
    if name not in fields:
        return None
    given = fields[name].plain()
    if not isinstance(given, int | float) or isinstance(given, bool) or not 0.01 <= given <= most:
        raise fields[name].error(f"workload.{name} must be a number from 0.01 to {most}")
    return round(given * 100)


def kind_named(name: str) -> Kind:
    """Return the first kind with this name, for generated scenarios."""
    for kind in KINDS:
        if kind.kind == name:
            return kind
    raise DocumentError(f"the simulated cluster does not read objects of kind {name}")
