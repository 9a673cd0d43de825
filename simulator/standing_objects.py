"""The objects of a log as they stand at a position, as manifests of a scenario.

What was decided and is not yet shown by the API server is written into them: the node of a pod that is being bound,
the deletion of a pod that is being evicted, the phase of a pod group.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct

from engine.ingest import known_objects
from engine.pending_requests import bindings_and_evictions
from events.cluster import ObjectDeleted, ObjectObserved
from events.messages import AnnotateRequest, BindRequest
from events.normalize import Json, JsonObject
from events.record import Record
from events.union import Event
from features.table import KINDS
from projections.objects import nanoseconds_of
from projections.pods import DECISION, FAILED, SUCCEEDED, WITHDRAWN, Pod
from projections.state import State
from simulator.manifest import KINDS as SCENARIO_KINDS
from simulator.manifest import Kind, LocatedManifest, Manifest
from simulator.manifest_fields import changed, section

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIMES: Final = ("creationTimestamp", "deletionTimestamp")
PLACED_POD: Final = "placed pod"
OTHER_SCHEDULER: Final = "another-scheduler"
"""The `schedulerName` of pods that were not for this scheduler, if that name would be in a simulation."""


class StandingObject(Struct, frozen=True):
    """An object as it stands at a position."""

    subject: str
    """`Kind/namespace/name`, as in the log."""
    located: LocatedManifest
    sort: str
    """Its kind; of pods also whether they wait, have a node, or have ended."""
    unit: str
    """The objects with which it belongs together: those of a pod group that waits, or of a node with its pods."""
    waits_in: str = ""
    """The pod group of a pod without a node, or whose PodGroup this is."""


class ObjectTracker:
    """Keeps the latest content of every object of a log that is being folded."""

    def __init__(self) -> None:
        self._contents: dict[str, tuple[str, bytes]] = {}
        """Subject to digest and content."""

    def add(self, record: Record, event: Event, content: bytes | None) -> None:
        """Note what a record shows of an object."""
        if isinstance(event, ObjectObserved) and content is not None:
            self._contents[record.subject] = (record.object or "", content)
        elif isinstance(event, ObjectDeleted):
            self._contents.pop(record.subject, None)

    def contents(self, state: State) -> Iterator[tuple[str, bytes]]:
        """Yield subject and content of the objects that State holds, in the order of kinds and subjects."""
        for kind in dict.fromkeys((*KINDS, *state.cluster.others)):
            for subject, _, digest in sorted(known_objects(state, kind)):
                found = self._contents.get(subject)
                if found is not None and found[0] == digest:
                    yield subject, found[1]


def standing_objects(
    contents: Iterator[tuple[str, bytes]],
    state: State,
    at_ns: int,
    scheduler_names: tuple[str, ...],
) -> list[StandingObject]:
    """Return the objects of State, with times relative to `at_ns`, for a simulation with these scheduler names.

    Kinds that the simulated cluster does not read (DaemonSet) are left out.
    """
    kinds = scenario_kinds()
    pods = {f"Pod/{pod.key}": pod for pod in state.cluster.pods.values()}
    devices = _device_annotations(state)
    found: list[StandingObject] = []
    for subject, content in contents:
        kind = kinds.get(subject.partition("/")[0])
        if kind is None:
            continue
        manifest = with_relative_times(manifest_of(kind, content), at_ns)
        sort, unit, waits_in = kind.kind, subject, ""
        if (pod := pods.get(subject)) is not None:
            manifest = _with_decisions(manifest, pod, devices.get(pod.facts.uid, {}))
            manifest = with_scheduler(manifest, state.cluster.scheduler_names, scheduler_names)
            unit = f"Node//{pod.node}" if pod.node else f"PodGroup/{pod.group_key}"
            waits_in = "" if pod.node else pod.group_key
            if pod.status in (SUCCEEDED, FAILED):
                sort = "ended pod"
            else:
                sort = PLACED_POD if pod.node else "waiting pod"
        elif kind.kind == "PodGroup":
            group = state.cluster.groups.get(subject.partition("/")[2])
            if group is not None:
                manifest = changed(manifest, "status", phase=group.decided.phase)
                waits_in = "" if group.counts.allocated else group.key
        place = LocatedManifest(kind, manifest, "log")
        found.append(StandingObject(subject, place, sort, unit, waits_in))
    return found


def _device_annotations(state: State) -> dict[str, dict[str, str]]:
    """Return the annotations that name devices, of pods that are being bound, by UID."""
    found: dict[str, dict[str, str]] = {}
    for request in bindings_and_evictions(state):
        if isinstance(request, AnnotateRequest):
            found[request.uid] = request.annotations
        elif isinstance(request, BindRequest):
            found[request.uid] = request.devices
    return found


def scenario_kinds() -> dict[str, Kind]:
    """Return the kinds that a simulated cluster reads, by their names in records."""
    read = {name: Kind.of(one.resource) for name, one in KINDS.items()}
    return {name: kind for name, kind in read.items() if kind in SCENARIO_KINDS}


def manifest_of(kind: Kind, content: bytes) -> Manifest:
    """Return the manifest of an object in the log."""
    decoded: Manifest = msgspec.json.decode(content)
    return {**decoded, "apiVersion": kind.api_version, "kind": kind.kind}


def with_relative_times(manifest: Manifest, at_ns: int) -> Manifest:
    """Return a manifest with the times of its metadata as they are in a simulation that begins at `at_ns`."""
    metadata = section(manifest, "metadata")
    times: JsonObject = {
        name: _relative(time, at_ns)
        for name in _TIMES
        if isinstance(time := metadata.get(name), str)
    }
    return changed(manifest, "metadata", **times) if times else manifest


def _relative(time: str, at_ns: int) -> str:
    """Return a time as it is in a simulation that begins at `at_ns`. What cannot be read stays as it is."""
    since = nanoseconds_of(time)
    if not since:
        return time
    at = _EPOCH + timedelta(microseconds=(since - at_ns) // 1000)
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _with_decisions(manifest: Manifest, pod: Pod, devices: Mapping[str, str]) -> Manifest:
    """Return a pod with what was decided about it."""
    manifest = without_decisions(manifest)
    if pod.node and not pod.facts.node:
        there = section(manifest, "metadata", "annotations")
        if devices:
            manifest = changed(manifest, "metadata", annotations={**there, **devices})
        manifest = changed(manifest, "spec", nodeName=pod.node)
    if pod.evicted and not pod.facts.is_releasing:
        manifest = changed(manifest, "metadata", deletionTimestamp="1970-01-01T00:00:30Z")
    return manifest


def without_decisions(manifest: Manifest) -> Manifest:
    """Return a pod without the annotations that name positions of its log."""
    there = section(manifest, "metadata", "annotations")
    left = {key: value for key, value in there.items() if key not in (DECISION, WITHDRAWN)}
    return manifest if left == there else changed(manifest, "metadata", annotations=left)


def with_scheduler(
    manifest: Manifest, own_names: tuple[str, ...], scheduler_names: tuple[str, ...]
) -> Manifest:
    """Return a pod that is for the scheduler of a simulation if it was for that of the log, with `own_names`."""
    spec = dict(section(manifest, "spec"))
    name: Json = spec.pop("schedulerName", "")
    if name not in own_names:
        spec["schedulerName"] = OTHER_SCHEDULER if name in ("", *scheduler_names) else name
    return {**manifest, "spec": spec}
