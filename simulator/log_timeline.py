"""The changes of a cluster from outside, as a log shows them, on the timeline of a scenario.

What the scheduler did and what followed from it (nodes of pods, their start, the end of evicted ones, phases of pod
groups) is left out: the simulation makes it again. Workloads are left out, since their controllers would create pods
that the log has.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct, structs

from events.cluster import ObjectDeleted, ObjectObserved
from events.daemon import PolicyChanged
from events.decisions.eviction import EvictionDecided
from events.duration import SECOND
from events.normalize import JsonObject
from events.record import Record
from events.union import Event
from projections.kinds.workload import REPLACING
from projections.pods import FAILED, SUCCEEDED
from projections.state import State
from simulator.manifest import STOP_SECONDS, Kind, LocatedManifest, Manifest
from simulator.manifest_fields import changed, section
from simulator.scenario import Apply, Delete, Patch, Scenario, Step
from simulator.standing_objects import (
    StandingObject,
    manifest_of,
    scenario_kinds,
    with_relative_times,
    with_scheduler,
    without_decisions,
)

_LONG_STOP: Final = "3600"
"""Seconds that a pod takes to stop which is terminating at the end of the log."""
_NOISE: Final = ("uid", "creationTimestamp", "ownerReferences", "generation", "finalizers")


class TimedChange(Struct, frozen=True):
    """A change of an object at a time since everything was listed."""

    at_ns: int
    subject: str
    unit: str
    """The pod group of a pod or PodGroup; else the object."""
    kind: Kind
    manifest: Manifest | None
    """What is applied; None for a deletion."""
    phase: str = ""
    """The phase in which a pod ends, if that is the change."""


class TimelineTracker:
    """Gathers the changes of a log that is being folded. `add` is called before a record is applied, `add_applied` after."""

    def __init__(self, scheduler_names: tuple[str, ...]) -> None:
        self._scheduler_names = scheduler_names
        self._kinds = scenario_kinds()
        self._origin_ns: int | None = None
        self._changes: list[TimedChange] = []
        self._latest: dict[str, bytes] = {}
        """Subject to the content that was applied last, without status."""
        self._stopping: dict[str, tuple[int, int]] = {}
        """Subject of a pod that is deleted or evicted to the index of its creation and the time."""
        self._created: dict[str, int] = {}
        """Subject of a pod to the index of its creation."""

    @property
    def origin_ns(self) -> int:
        """The time at which everything had been listed; 0 before it."""
        return self._origin_ns or 0

    def begin(self, objects: Iterable[StandingObject], origin_ns: int) -> None:
        """Begin with the objects of the facts before the first record, with the times of the log; `origin_ns` is the time there."""
        self._origin_ns = origin_ns
        for one in objects:
            kind, manifest = one.located.kind, one.located.manifest
            if one.subject.partition("/")[0] in REPLACING:
                continue
            if kind.kind == "Pod":
                self._created[one.subject] = len(self._changes)
            else:
                self._latest[one.subject] = _compared(kind, manifest)
            self._append(TimedChange(0, one.subject, one.unit, kind, manifest))

    def add(self, record: Record, event: Event, content: bytes | None, state: State) -> None:
        """Note what a record changes. `state` is State before it."""
        if isinstance(event, EvictionDecided):
            self._mark_evicted(event, record.recorded_at_ns)
        if not isinstance(event, ObjectObserved | ObjectDeleted):
            return
        name = record.subject.partition("/")[0]
        kind = self._kinds.get(name)
        if kind is None or name in REPLACING:
            return
        at_ns = 0 if self._origin_ns is None else max(0, record.recorded_at_ns - self._origin_ns)
        if name == "Pod":
            self._add_pod(record, event, content, state, kind, at_ns)
        elif isinstance(event, ObjectDeleted):
            self._latest.pop(record.subject, None)
            self._append(TimedChange(at_ns, record.subject, record.subject, kind, None))
        elif content is not None:
            self._add_object(record, content, kind, at_ns)

    def changes(self) -> list[TimedChange]:
        """Return the changes in order, those of the first lists at time 0."""
        for subject, (index, _) in self._stopping.items():
            self._set_stop(subject, index, _LONG_STOP)
        self._stopping.clear()
        return [self._with_relative_times(one) for one in self._changes]

    def _with_relative_times(self, change: TimedChange) -> TimedChange:
        if change.manifest is None:
            return change
        manifest = with_relative_times(change.manifest, self.origin_ns)
        return structs.replace(change, manifest=manifest)

    def add_applied(self, record: Record, event: Event, state: State) -> None:
        """Note what State has behind a record: the pod group of a pod that was created, the end of the first lists."""
        if self._origin_ns is None and state.is_synced:
            self._origin_ns = record.recorded_at_ns
        index = self._created.get(record.subject, -1)
        pod = state.cluster.pods.get(event.uid) if isinstance(event, ObjectObserved) else None
        if pod is not None and index == len(self._changes) - 1:
            unit = f"PodGroup/{pod.group_key}"
            self._changes[index] = structs.replace(self._changes[index], unit=unit)

    def _mark_evicted(self, event: EvictionDecided, at_ns: int) -> None:
        for one in event.evictions:
            subject = f"Pod/{one.pod}"
            if subject in self._created:
                since = max(0, at_ns - self.origin_ns)
                self._stopping.setdefault(subject, (self._created[subject], since))

    def _append(self, change: TimedChange) -> None:
        self._changes.append(change)

    def _add_object(self, record: Record, content: bytes, kind: Kind, at_ns: int) -> None:
        manifest = manifest_of(kind, content)
        is_new = record.subject not in self._latest
        if kind.kind in ("PodGroup", "Queue") and (at_ns or not is_new):
            status = section(manifest, "status")
            manifest = {key: one for key, one in manifest.items() if key != "status"}
            if kind.kind == "Queue" and "state" in status:
                manifest["status"] = {"state": status["state"]}
        compared = _compared(kind, manifest)
        if self._latest.get(record.subject) == compared:
            return
        self._latest[record.subject] = compared
        name = record.subject.partition("/")[2]
        unit = f"PodGroup/{name}" if kind.kind == "PodGroup" else record.subject
        self._append(TimedChange(at_ns, record.subject, unit, kind, manifest))

    def _add_pod(
        self,
        record: Record,
        event: ObjectObserved | ObjectDeleted,
        content: bytes | None,
        state: State,
        kind: Kind,
        at_ns: int,
    ) -> None:
        subject = record.subject
        old = state.cluster.pods.get(event.uid)
        if isinstance(event, ObjectDeleted):
            if (stop := self._stopping.pop(subject, None)) is not None:
                self._set_stop(subject, stop[0], str((at_ns - stop[1] + SECOND - 1) // SECOND))
            elif old is not None:
                unit = f"PodGroup/{old.group_key}"
                self._append(TimedChange(at_ns, subject, unit, kind, None))
            self._created.pop(subject, None)
            return
        if content is None:
            return
        if old is None:
            self._create_pod(subject, content, kind, at_ns, state.cluster.scheduler_names)
            return
        manifest: Manifest = msgspec.json.decode(content)
        unit = f"PodGroup/{old.group_key}"
        phase = section(manifest, "status").get("phase")
        has_ended = old.status in (SUCCEEDED, FAILED)
        if isinstance(phase, str) and phase in ("Succeeded", "Failed") and not has_ended:
            self._append(TimedChange(at_ns, subject, unit, kind, None, phase))
        is_deleted = "deletionTimestamp" in section(manifest, "metadata")
        if is_deleted and not old.facts.is_releasing and subject not in self._stopping:
            self._stopping[subject] = (self._created.get(subject, -1), at_ns)
            self._append(TimedChange(at_ns, subject, unit, kind, None))

    def _create_pod(
        self, subject: str, content: bytes, kind: Kind, at_ns: int, own_names: tuple[str, ...]
    ) -> None:
        manifest = without_decisions(manifest_of(kind, content))
        manifest = with_scheduler(manifest, own_names, self._scheduler_names)
        if at_ns:
            spec = {key: one for key, one in section(manifest, "spec").items() if key != "nodeName"}
            manifest = {key: one for key, one in manifest.items() if key != "status"} | {
                "spec": spec
            }
        self._created[subject] = len(self._changes)
        self._append(TimedChange(at_ns, subject, subject, kind, manifest))

    def _set_stop(self, subject: str, index: int, seconds: str) -> None:
        """Let a pod take as long to stop as it did, unless its annotation says so already."""
        if index < 0:
            return
        created = self._changes[index]
        assert created.manifest is not None
        annotations = section(created.manifest, "metadata", "annotations")
        if created.subject == subject and STOP_SECONDS not in annotations and seconds != "0":
            there: JsonObject = {**annotations, STOP_SECONDS: seconds}
            manifest = changed(created.manifest, "metadata", annotations=there)
            self._changes[index] = structs.replace(created, manifest=manifest)


def _compared(kind: Kind, manifest: Manifest) -> bytes:
    """Return what of an object must differ for a change."""
    metadata = {
        key: one
        for key, one in section(manifest, "metadata").items()
        if key not in ("generation", "creationTimestamp")
    }
    without_status = {key: one for key, one in manifest.items() if key != "status"}
    known = without_status if kind.kind == "PodGroup" else manifest
    return msgspec.json.encode({**known, "metadata": metadata}, order="deterministic")


def timeline_scenario(
    changes: Iterable[TimedChange], period_ns: int, until_ns: int, policy: PolicyChanged
) -> Scenario:
    """Return a scenario of changes. What changes an object that is not there is left out."""
    cluster: dict[str, LocatedManifest] = {}
    steps: list[Step] = []
    there: dict[str, None] = {}
    for one in changes:
        _, namespace, name = one.subject.split("/", 2)
        if one.manifest is not None:
            there[one.subject] = None
            if one.at_ns == 0 and not steps:
                cluster[one.subject] = LocatedManifest(one.kind, one.manifest, "log")
            else:
                steps.append(Apply(one.at_ns, one.kind, one.manifest))
        elif one.subject not in there:
            continue
        elif one.phase:
            merge: JsonObject = {"status": {"phase": one.phase}}
            steps.append(Patch(one.at_ns, one.kind, namespace, name, merge))
        else:
            del there[one.subject]
            steps.append(Delete(one.at_ns, one.kind, namespace, name))
    return Scenario(
        name="reduce",
        period_ns=period_ns,
        until_ns=until_ns,
        cluster=tuple(cluster.values()),
        steps=tuple(steps),
        policy=msgspec.json.decode(policy.policy),
    )


def without_noise(changes: Iterable[TimedChange]) -> Iterator[TimedChange]:
    """Yield the changes without metadata that only a server sets."""
    for one in changes:
        manifest = one.manifest
        if manifest is not None:
            metadata = {
                key: value
                for key, value in section(manifest, "metadata").items()
                if key not in _NOISE
            }
            manifest = {**manifest, "metadata": metadata}
        yield structs.replace(one, manifest=manifest)
