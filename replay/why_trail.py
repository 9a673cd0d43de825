"""The records of a log about a subject, and the records that caused them.

Each record is checked before and after it is applied: a pod that leaves a node is on it before, a pod that joins a
group is in it after.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from events.cluster import ObjectDeleted, ObjectObserved
from events.cycle import CycleOpened
from events.decision import Decision, Eviction, Placement
from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    EvictionFailed,
    EvictionOutcomeUnknown,
    PodAnnotated,
    PodAnnotationFailed,
    PodAnnotationUnknown,
    PodBound,
    PodEvicted,
    ShadowDecisionEnded,
)
from events.record import Record
from events.union import Event
from projections.cluster import Cluster
from projections.pods import Pod
from replay.log_time import format_time
from replay.narrate import sentences
from replay.why_answer import Step

STEPS_FIRST: Final = 10
"""Steps kept from the beginning."""
STEPS_LAST: Final = 50
"""Steps kept from the end."""
DETAILS_MAX: Final = 8
"""The most lines under one step."""

_WITH_UID: Final = (
    ObjectObserved,
    ObjectDeleted,
    PodBound,
    BindFailed,
    BindOutcomeUnknown,
    PodAnnotated,
    PodAnnotationFailed,
    PodAnnotationUnknown,
    PodEvicted,
    EvictionFailed,
    EvictionOutcomeUnknown,
    ShadowDecisionEnded,
)


class LoggedEvent:
    """A record with its event and content, and the time at which the log began."""

    __slots__ = ("content", "event", "is_shadow", "record", "start_ns")

    def __init__(
        self,
        record: Record,
        event: Event,
        content: bytes | None,
        start_ns: int,
        *,
        is_shadow: bool = False,
    ) -> None:
        self.record = record
        self.event = event
        self.content = content
        self.start_ns = start_ns
        self.is_shadow = is_shadow

    def step(self, event: Event | None = None) -> Step:
        """Return the record as a step; `event` is the part that concerns the subject."""
        record = self.record
        first, *details = sentences(
            record, event or self.event, self.content, is_shadow=self.is_shadow
        )
        if len(details) > DETAILS_MAX:
            details[DETAILS_MAX:] = [f"and {len(details) - DETAILS_MAX} more"]
        return Step(
            position=record.position,
            at=format_time(record.recorded_at_ns, self.start_ns),
            at_ns=record.recorded_at_ns,
            kind=record.kind,
            text=first,
            details=details,
            cause=record.cause,
            last_position=record.position,
        )


class Recent:
    """The records since the cycle before the last: the causes of present decisions are among them."""

    def __init__(self) -> None:
        self._generations: tuple[dict[int, LoggedEvent], dict[int, LoggedEvent]] = ({}, {})

    def note(self, entry: LoggedEvent) -> None:
        """Keep a record until the cycle after the next."""
        if isinstance(entry.event, CycleOpened):
            self._generations = ({}, self._generations[0])
        self._generations[0][entry.record.position] = entry

    def find(self, position: int) -> LoggedEvent | None:
        """Return a kept record."""
        return self._generations[0].get(position) or self._generations[1].get(position)


class Causes(Protocol):
    """Where the record is found that caused another one."""

    def find(self, position: int) -> LoggedEvent | None:
        """Return a record; None if it is too far back to be shown."""


class Trail:
    """The steps of one subject. `kind` is Pod, PodGroup, Node or Queue; `key` its (namespaced) name."""

    def __init__(self, kind: str, key: str) -> None:
        self.kind = kind
        self.key = key
        self.pod: Pod | None = None
        """The pod at its last record."""
        self.left_out = 0
        self._subject = f"{kind}/{key}" if kind in ("Pod", "PodGroup") else f"{kind}//{key}"
        self._first: list[Step] = []
        self._last: deque[Step] = deque()
        self._positions: dict[int, None] = {}
        self._alike: tuple[int, dict[tuple[object, ...], Step]] = (0, {})

    @property
    def subject(self) -> str:
        """Return `Kind/namespace/name`."""
        return self._subject

    @property
    def is_seen(self) -> bool:
        """Return whether the log names it."""
        return bool(self._first)

    @property
    def steps(self) -> list[Step]:
        """Return the kept steps, oldest first."""
        return sorted((*self._first, *self._last), key=lambda step: step.position)

    def concerns(self, entry: LoggedEvent, cluster: Cluster) -> bool:
        """Return True if the record is about the subject, according to State at this moment."""
        if entry.record.subject == self._subject:
            return True
        match self.kind:
            case "Pod":
                return self._concerns_pod(entry, cluster)
            case "PodGroup":
                pod = cluster.pods.get(_uid(entry.event))
                is_ours = pod is not None and pod.group_key == self.key
                return is_ours or _favoured(entry.event) == self.key
            case "Node":
                return any(one.node == self.key for one in _placements(entry.event))
            case _:
                return getattr(entry.event, "queue", "") == self.key

    def is_host(self, entry: LoggedEvent, cluster: Cluster) -> bool:
        """Return True if the record is about a pod on the subject, a node."""
        node = cluster.nodes.nodes.get(self.key) if self.kind == "Node" else None
        return node is not None and _uid(entry.event) in node.pods

    def add(self, entry: LoggedEvent, recent: Causes, *, status: str) -> None:
        """Add a record, and before it the record that caused it; equal records of a batch are one step."""
        record = entry.record
        batch, alike = self._alike
        if batch != record.batch:
            self._alike = (record.batch, alike := {})
        look = (record.kind, record.cause, status, record.subject.partition("/")[0])
        if (
            self.kind != "Pod"
            and look[-1] == "Pod"
            and isinstance(entry.event, _WITH_UID)
            and look in alike
        ):
            alike[look].count += 1
            alike[look].last_position = record.position
            self._positions[record.position] = None
            return
        step = alike[look] = entry.step(self._own_part(entry.event))
        if self.kind == "Queue":
            step.details = []
        if self.kind in ("Pod", "PodGroup") and record.cause not in self._positions:
            cause = recent.find(record.cause or 0)
            if cause is not None:
                self._keep(cause.step(self._own_part(cause.event)))
        self._keep(step)

    def _keep(self, step: Step) -> None:
        self._positions[step.position] = None
        if len(self._first) < STEPS_FIRST:
            self._first.append(step)
            return
        self._last.append(step)
        if len(self._last) > STEPS_LAST:
            del self._positions[self._last.popleft().position]
            self.left_out += 1

    def _concerns_pod(self, entry: LoggedEvent, cluster: Cluster) -> bool:
        placements = _placements(entry.event)
        if any(one.pod == self.key for one in placements):
            return True
        if self.pod is None or (placements and not _favoured(entry.event)):
            return False
        known = cluster.pods.get(self.pod.facts.uid)
        if known is None or not known.group_key:
            return False
        of_group = entry.record.subject == f"PodGroup/{known.group_key}"
        return of_group or _favoured(entry.event) == known.group_key

    def _own_part(self, event: Event) -> Event:
        """Return the part of a decision on many pods that concerns the subject."""
        if not isinstance(event, Decision):
            return event
        ours = [one for one in event.pods if self.key == (one.pod, one.node)[self.kind == "Node"]]
        return event.with_pods(ours) if ours else event


def is_repeated(entry: LoggedEvent, cluster: Cluster) -> bool:
    """Return True if an observation shows an object unchanged."""
    record = entry.record
    if not isinstance(entry.event, ObjectObserved):
        return False
    kind, _, key = record.subject.partition("/")
    match kind:
        case "Pod":
            pod = cluster.pods.get(entry.event.uid)
            return pod is not None and pod.digest == record.object
        case "Node":
            node = cluster.nodes.nodes.get(key[1:])
            return node is not None and node.digest == record.object
        case "Queue":
            queue = cluster.queues.get(key[1:])
            return queue is not None and queue.digest == record.object
        case _:
            group = cluster.groups.get(key) if kind == "PodGroup" else None
            return group is not None and group.observed.digest == record.object


def without_repeated(entries: Iterable[LoggedEvent]) -> Iterator[LoggedEvent]:
    """Yield records in order, without observations that show an object unchanged since an earlier one of them."""
    digests: dict[tuple[str, str], str | None] = {}
    for entry in entries:
        record, event = entry.record, entry.event
        if isinstance(event, ObjectObserved):
            known = (record.subject, event.uid)
            is_repeated = known in digests and digests[known] == record.object
            digests[known] = record.object
            if is_repeated:
                continue
        elif isinstance(event, ObjectDeleted):
            digests.pop((record.subject, event.uid), None)
        yield entry


def _uid(event: Event) -> str:
    return event.uid if isinstance(event, _WITH_UID) else ""


def _placements(event: Event) -> Sequence[Placement | Eviction]:
    """Return the pods of a decision, each with the node that it gets or leaves."""
    return event.pods if isinstance(event, Decision) else ()


def _favoured(event: Event) -> str:
    """Return the pod group for which others are evicted."""
    return event.beneficiary if isinstance(event, Decision) else ""
