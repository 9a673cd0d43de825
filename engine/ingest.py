"""Ingest: make records of watch messages (objects seen and deleted, lists, the state of watches).

A list is compared with State as a whole. First the objects that State holds and the list does not are recorded as
deleted (`synthesized`); then new and changed objects are recorded, in the order of namespace, name and UID. An object
that equals the one in State is not recorded again.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Final, Protocol

import msgspec

from engine.report_ages import STALE_NS, ReportAges
from events.cluster import KindListed, ObjectDeleted, ObjectObserved, ObjectUnreadable
from events.errors import ManifestError
from events.limits import clipped
from events.messages import (
    DeletionSeen,
    FullListEnded,
    FullListPage,
    FullListStarted,
    ListCompleted,
    ListStarted,
    ObjectSeen,
    WatchMessage,
)
from events.normalize import Normalized
from events.normalize_pod import normalize_object
from events.outcome import PodBound
from events.record import Record, StoredObject
from events.union import Event
from events.watch import (
    BindRejectedByNode,
    ForeignPodPlaced,
    KindCompared,
    ServerDiscovered,
    WatchClosed,
    WatchOpened,
    WatchProgressed,
)
from features.table import KINDS
from projections.cluster import Cluster
from projections.group_facts import group_facts, spec_of
from projections.internal_error import OnError
from projections.kind_table import selections_with
from projections.objects import NodeObject, NodeSpec, PodGroupObject, Taint, read
from projections.pod_reading import PodRead, pod_reader
from projections.pods import NODE_OWNERS, PodFacts
from projections.quarantine import rejected_resources
from projections.state import State
from projections.unsettled import POD

FIRST_LISTS: Final = ("Node", "Pod", "PodGroup", "Queue")
"""Kinds whose first list is compared with State without a `ListStarted`."""

_WITHOUT_HEARTBEATS: Final = tuple(
    name for name, kind in KINDS.items() if not kind.records_heartbeats
)

DEDICATED: Final = "muster.sh/dedicated"
"""Key of a label or taint of nodes on which only muster may place pods."""


class Emit(Protocol):
    """Seals an event into a record and applies it to State."""

    def __call__(
        self,
        event: Event,
        subject: str,
        *,
        cycle: int | None = None,
        cause: int | None = None,
        stored: StoredObject | None = None,
        known: str | None = None,
        read: PodRead = None,
    ) -> Record:
        """`stored` is the object that comes with the event; `known`, the digest of one in the log; `read`, what was read of a
        pod."""


def known_objects(state: State, resource: str) -> list[tuple[str, str, str]]:
    """Return subject, UID and digest of each object of a kind that State holds."""
    known = _settled_objects(state.cluster, resource)
    if state.is_settled:
        return known
    newest = {
        subject if resource != "Pod" else one.uid: (subject, one)
        for subject, one in state.unsettled.of_kind(resource)
    }
    kept = [one for one in known if (one[0] if resource != "Pod" else one[1]) not in newest]
    found = ((subject, one.known) for subject, one in newest.values())
    return [*kept, *((subject, *shown) for subject, shown in found if shown is not None)]


def _settled_objects(cluster: Cluster, resource: str) -> list[tuple[str, str, str]]:
    match resource:
        case "Pod":
            return [(f"Pod/{one.key}", uid, one.digest) for uid, one in cluster.pods.items()]
        case "Node":
            nodes = cluster.nodes.nodes.values()
            return [(f"Node//{one.name}", one.facts.uid, one.digest) for one in nodes if one.facts]
        case "PodGroup":
            groups = cluster.groups.values()
            return [
                (f"PodGroup/{g.key}", g.observed.facts.uid, g.observed.digest)
                for g in groups
                if g.observed.facts
            ]
        case "Queue":
            queues = cluster.queues.values()
            return [(f"Queue//{q.name}", q.facts.uid, q.digest) for q in queues if q.facts]
        case _:
            others = cluster.others.get(resource, {}).items()
            return [(f"{resource}/{name}", uid, digest) for name, (uid, digest) in others]


def digest_known(state: State, seen: Normalized) -> str | None:
    """Return the digest of an object as State holds it; None if it holds no object of this name and UID."""
    if state.unsettled.batch:
        newest = state.unsettled.of(seen.kind, seen.subject, seen.uid)
        if newest is not None:
            uid, digest = newest.known or ("", "")
            return digest if uid == seen.uid else None
    return _digest_settled(state.cluster, seen)


def _digest_settled(cluster: Cluster, seen: Normalized) -> str | None:
    match seen.kind:
        case "Pod":
            pod = cluster.pods.get(seen.uid)
            return None if pod is None else pod.digest
        case "Node":
            node = cluster.nodes.nodes.get(seen.name)
            return node.digest if node and node.facts and node.facts.uid == seen.uid else None
        case "PodGroup":
            group = cluster.groups.get(f"{seen.namespace or 'default'}/{seen.name}")
            return (
                group.observed.digest
                if group and group.observed.facts and group.observed.uid == seen.uid
                else None
            )
        case "Queue":
            queue = cluster.queues.get(seen.name)
            return queue.digest if queue and queue.facts and queue.facts.uid == seen.uid else None
        case _:
            name = f"{seen.namespace}/{seen.name}"
            uid, digest = cluster.others.get(seen.kind, {}).get(name, ("", ""))
            return digest if uid == seen.uid else None


class _Comparison(msgspec.Struct):
    """A full list that is being compared with State while the watch goes on.

    The revision of the list is one that the watch had reached when the list began. Objects that the watch sends
    meanwhile are newer than the list and are left out of the comparison.
    """

    resource_version: str
    changed: dict[str, None] = {}
    """UIDs of objects that the watch has sent since."""
    there: dict[str, None] = {}
    """UIDs of all objects of the list."""
    different: list[Normalized] = []
    is_readable: bool = True
    """Whether all objects of the list could be read; else a missing object may be an unreadable one."""


class Ingest:
    """Makes records of the watch messages for one State."""

    def __init__(
        self,
        state: State,
        emit: Emit,
        secret: Iterable[str],
        failure_of: Callable[[str], str],
        on_error: OnError,
    ) -> None:
        self._state, self._on_error = state, on_error
        self._emit = emit
        self._failure_of = failure_of
        """Returns why State must not apply the object of a subject, because that raised before; empty if it may."""
        self._secret = frozenset(secret)
        self._selections = selections_with(state.features)
        self._pods = pod_reader(state.cluster.device_families)
        self.now_ns = 0
        """Time of the messages that are taken in."""
        self.has_failures = False
        """Whether State must not apply the objects of some subjects, for which `failure_of` returns why."""
        self.report_ages = ReportAges()
        self._listing: dict[str, list[Normalized]] = {kind: [] for kind in FIRST_LISTS}
        """Kinds being listed, and their objects so far."""
        self._comparing: dict[str, _Comparison] = {}
        """Kinds that are being compared with a full list."""
        self._gaps: dict[str, int] = {}
        """Kind to the position of the record that began a gap in its watch."""
        self.blind_since = 0
        """Position of the record that began the gap of every kind that is not in `_gaps`."""

    def begin_listing(self) -> None:
        """Expect a new list of every kind."""
        self._listing = {kind: [] for kind in FIRST_LISTS}
        self._comparing.clear()

    def take_in(self, messages: deque[WatchMessage]) -> Iterator[None]:
        """Record messages, and take them out of the deque. Yield after each of them, and after each object of a list:
        there the records made so far can be appended. Bytes that are not an object are recorded as `object_unreadable`.
        """
        while messages:
            match message := messages.popleft():
                case ObjectSeen(raw=raw) | DeletionSeen(raw=raw):
                    self._on_object(message, raw)
                case ListStarted(resource=resource):
                    self._listing[resource] = []
                    self._comparing.pop(resource, None)
                case FullListStarted() | FullListPage() | FullListEnded():
                    self._on_full_list(message)
                case ListCompleted():
                    yield from self._on_list(message)
                case WatchOpened() | WatchClosed() | WatchProgressed() | ServerDiscovered():
                    self._on_watch(message)
            yield

    # Objects

    def _on_object(self, message: ObjectSeen | DeletionSeen, raw: bytes) -> None:
        try:
            seen = normalize_object(
                raw, secret_annotations=self._secret, selections=self._selections
            )
        except ManifestError as error:
            self._report_unreadable(raw, str(error), "Object//", None)
            return
        if not seen.uid:
            reason = "metadata.uid is missing"
            self._report_unreadable(raw, reason, seen.subject, seen.stored)
        elif isinstance(message, DeletionSeen):
            self._on_deleted(seen, message.synthesized)
        else:
            self._on_seen(seen)

    def _report_unreadable(
        self, raw: bytes, reason: str, subject: str, stored: StoredObject | None
    ) -> None:
        event = ObjectUnreadable(
            reason=clipped(reason), shown_digest=sha256(raw).hexdigest(), size_bytes=len(raw)
        )
        self._emit(event, subject, stored=stored)

    def _is_left_out(self, subject: str, stored: StoredObject | None, known: str | None) -> bool:
        """Record an object on which State raised as unreadable; return whether it is one."""
        reason = self._failure_of(subject)
        if not reason:
            return False
        digest = known or "" if stored is None else stored.digest
        size_bytes = 0 if stored is None else len(stored.content)
        event = ObjectUnreadable(reason=clipped(reason), shown_digest=digest, size_bytes=size_bytes)
        self._emit(event, subject, stored=stored, known=known)
        return True

    def _on_seen(self, seen: Normalized) -> None:
        if self._comparing:
            self._mark_changed(seen)
        if seen.kind in STALE_NS:
            self.report_ages.saw(seen.kind, f"{seen.namespace}/{seen.name}", self.now_ns)
        listing = self._listing.get(seen.kind)
        if listing is not None:
            # The fold finds the parts again: a list is held as a whole until it is complete.
            stored = StoredObject(seen.stored.digest, seen.stored.content)
            listing.append(msgspec.structs.replace(seen, stored=stored))
        else:
            self._record(seen)

    def _record(self, seen: Normalized, cause: int | None = None) -> None:
        if self.has_failures and self._is_left_out(seen.subject, seen.stored, None):
            return
        if seen.kind in _WITHOUT_HEARTBEATS and self._is_heartbeat(seen):
            return
        event = ObjectObserved(
            uid=seen.uid,
            resource_version=seen.resource_version,
            heartbeats=seen.heartbeats,
            changed_by=seen.changed_by,
        )
        if seen.kind == POD:
            self._record_pod(seen, event, cause)
        else:
            cause = self._cause_of_status(seen) or cause
            self._emit(event, seen.subject, cause=cause, stored=seen.stored)

    def _record_pod(self, seen: Normalized, event: ObjectObserved, cause: int | None) -> None:
        digest, had = self._state.seen_pod(seen.uid)
        if digest == seen.stored.digest:
            self._emit(event, seen.subject, cause=cause, stored=seen.stored)
            return
        try:
            read = self._pods.read_facts(seen.stored.content, seen.stored.parts)
        except Exception:  # a bug of a reader, which State meets and reports as it takes the pod in
            read = None
        if not isinstance(read, tuple):
            self._emit(event, seen.subject, cause=cause, stored=seen.stored)
            return
        facts = read[0]
        if had is not None:
            cause = self._cause_of_pod(facts, had) or cause
        record = self._emit(event, seen.subject, cause=cause, stored=seen.stored, read=read)
        if facts.node:
            is_first = had is None or had.node != facts.node
            has_failed = facts.phase == "Failed" and (had is None or had.phase != "Failed")
            if is_first or has_failed:
                self._record_consequences(record, facts, had, has_failed=has_failed)

    def _is_heartbeat(self, seen: Normalized) -> bool:
        """Return whether an object only repeats what State holds."""
        return digest_known(self._state, seen) == seen.stored.digest

    def _mark_changed(self, seen: Normalized) -> None:
        if (comparison := self._comparing.get(seen.kind)) is not None:
            comparison.changed[seen.uid] = None

    def _on_deleted(self, seen: Normalized, synthesized: bool) -> None:
        self._mark_changed(seen)
        if self._is_left_out(seen.subject, seen.stored, None):
            return
        event = ObjectDeleted(
            uid=seen.uid, resource_version=seen.resource_version, synthesized=synthesized
        )
        self._emit(event, seen.subject, stored=seen.stored)

    def _on_list(self, listed: ListCompleted) -> Iterator[None]:
        """Record how a complete list differs from State; yield after each object."""
        resource, state = listed.resource, self._state
        shown = self._listing.pop(resource, None)
        if shown is not None:
            there = dict.fromkeys(one.uid for one in shown)
            cause = self._gaps.pop(resource, self.blind_since) or None
            for subject, uid, digest in sorted(known_objects(state, resource)):
                if uid not in there:
                    self._record_missing((subject, uid, digest), listed, cause)
                    yield
            shown.sort(key=lambda one: (one.namespace, one.name, one.uid), reverse=True)
            while shown:
                seen = shown.pop()  # What is recorded is not held any longer.
                if digest_known(state, seen) != seen.stored.digest:
                    self._record(seen)
                    yield
        completed = KindListed(
            resource=resource,
            resource_version=listed.resource_version,
            count=listed.count,
            served=listed.served,
        )
        self._emit(completed, f"{resource}//")

    def _record_missing(
        self, known: tuple[str, str, str], listed: ListCompleted | FullListEnded, cause: int | None
    ) -> None:
        """Record the deletion of an object that State holds and a list does not."""
        subject, uid, digest = known
        if self._is_left_out(subject, None, digest):
            return
        event = ObjectDeleted(uid=uid, resource_version=listed.resource_version, synthesized=True)
        self._emit(event, subject, cause=cause, known=digest)

    # Full lists beside a watch

    def _on_full_list(self, message: FullListStarted | FullListPage | FullListEnded) -> None:
        resource = message.resource
        if isinstance(message, FullListStarted):
            if resource not in self._listing:
                self._comparing[resource] = _Comparison(message.resource_version)
            return
        comparison = self._comparing.get(resource)
        if comparison is None:
            return  # A gap came in between, and a list that is taken in as a whole.
        if isinstance(message, FullListPage):
            for raw in message.raws:
                self._compare_object(comparison, raw)
            return
        del self._comparing[resource]
        if message.is_whole:
            self._end_comparison(comparison, message)

    def _compare_object(self, comparison: _Comparison, raw: bytes) -> None:
        try:
            seen = normalize_object(
                raw, secret_annotations=self._secret, selections=self._selections
            )
        except ManifestError:
            # It was recorded as unreadable when the watch showed it; which object it is cannot be said.
            comparison.is_readable = False
            return
        comparison.there[seen.uid] = None
        if seen.uid in comparison.changed:
            return
        if digest_known(self._state, seen) != seen.stored.digest:
            comparison.different.append(seen)

    def _end_comparison(self, comparison: _Comparison, ended: FullListEnded) -> None:
        """Record how many objects differ, then each of them as the list shows it."""
        missing = [
            known
            for known in sorted(known_objects(self._state, ended.resource))
            if comparison.is_readable
            and known[1] not in comparison.there
            and known[1] not in comparison.changed
        ]
        different = [one for one in comparison.different if one.uid not in comparison.changed]
        compared = KindCompared(
            resource=ended.resource,
            resource_version=ended.resource_version,
            count=len(comparison.there),
            differences=len(missing) + len(different),
        )
        cause = self._emit(compared, f"{ended.resource}//").position
        for known in missing:
            self._record_missing(known, ended, cause)
        for seen in sorted(different, key=lambda one: (one.namespace, one.name, one.uid)):
            self._record(seen, cause)

    # Watches

    def _on_watch(
        self, message: WatchOpened | WatchClosed | WatchProgressed | ServerDiscovered
    ) -> None:
        """Record what a watch reports about itself. After a gap the kind has to be listed."""
        if isinstance(message, ServerDiscovered):
            self._emit(message, "Server//")
            return
        resource = message.resource
        if isinstance(message, WatchOpened) and message.is_resumed:
            self._listing.pop(resource, None)
        record = self._emit(message, f"{resource}//")
        if isinstance(message, WatchClosed) and message.has_gap:
            self._gaps[resource] = record.position
            self._comparing.pop(resource, None)

    # What follows from an observation

    def _cause_of_status(self, seen: Normalized) -> int | None:
        """Return the position of the record that led to a new status of a PodGroup; None for any other change."""
        if seen.kind != "PodGroup" or self._state.cluster.is_shadow:
            return None
        if self._state.unsettled.of(seen.kind, seen.subject, seen.uid) is not None:
            self._state.settle(self._on_error)
        try:
            return _cause_of_status(self._state.cluster, seen)
        except MemoryError:
            raise
        except (
            Exception
        ):  # a bug of a reader, which State meets and reports as it takes the object in
            return None

    def _cause_of_pod(self, facts: PodFacts, had: PodFacts) -> int | None:
        """Return the position of the decision that caused a change of a pod, seen before as `had`; None for a change from
        outside."""
        pod = self._state.cluster.pods.get(facts.uid)
        if pod is None or not pod.decided.decision or self._state.cluster.is_shadow:
            return None  # In a shadow nothing was carried out.
        assumed, decision = pod.decided.assumed, pod.decided.decision
        if facts.node != (had.node or assumed):
            # Until it is bound, only the annotations of its devices are ours.
            one = self._state.commitments.get(facts.uid)
            is_annotation = one is not None and one.assigned_ns and not facts.node
            return decision if is_annotation and facts.phase == had.phase else None
        is_seen_first = bool(assumed) and not had.node
        return decision if is_seen_first or facts.phase != had.phase else None

    def _record_consequences(
        self, record: Record, facts: PodFacts, had: PodFacts | None, *, has_failed: bool
    ) -> None:
        """Record that a pod is bound after all, that its kubelet rejected it, or that another scheduler placed it on a
        dedicated node. `had` is how it was seen before."""
        state, uid = self._state, facts.uid
        pod = state.cluster.pods.get(uid)
        failed, decision = None, 0
        if pod is not None and pod.node == facts.node:
            decision = pod.decided.decision
        elif pod is not None and pod.decided.failed_bindings:
            failed = pod.failed_binding(facts.decision, facts.node)
            decision = facts.decision if failed else 0
        subject, is_shadow = record.subject, state.cluster.is_shadow
        if failed is not None and had is not None and not had.node and not is_shadow:
            name = subject.removeprefix("Pod/")
            bound = PodBound(pod=name, uid=uid, node=facts.node, attempts=0)
            self._emit(bound, subject, cause=decision)
        if decision and has_failed:
            if rejected_resources(facts.reason, ()):
                self._record_rejection(record, uid)
        elif is_shadow and facts.scheduler in state.cluster.scheduler_names:
            return
        elif (
            not decision
            and facts.phase not in ("Succeeded", "Failed")
            and (had is None or not had.node)
        ):
            self._record_foreign(record, facts)

    def _record_rejection(self, record: Record, uid: str) -> None:
        """Record that the kubelet rejected a pod. State settles before that record, in every fold."""
        self._state.settle(self._on_error)
        pod = self._state.cluster.pods[uid]
        rejected = BindRejectedByNode(
            pod=pod.key,
            uid=uid,
            node=pod.facts.node,
            reason=pod.facts.reason,
            resources=rejected_resources(pod.facts.reason, pod.pod_class.request),
        )
        self._emit(rejected, record.subject, cause=record.position)

    def _record_foreign(self, record: Record, facts: PodFacts) -> None:
        """Record that another scheduler placed a pod on a dedicated node."""
        kind = facts.owner.kind if facts.owner else ""
        if kind in NODE_OWNERS:
            return
        if self._is_dedicated(facts.node):
            placed = ForeignPodPlaced(
                pod=record.subject.removeprefix("Pod/"),
                uid=facts.uid,
                node=facts.node,
                scheduler=facts.scheduler,
            )
            self._emit(placed, record.subject, cause=record.position)

    def _is_dedicated(self, name: str) -> bool:
        """Return whether only muster may place pods on a node, as it was last observed."""
        newest = self._state.unsettled.of("Node", f"Node//{name}", "")
        if newest is None:
            node = self._state.cluster.nodes.nodes.get(name)
            facts = None if node is None else node.facts
            return facts is not None and _has_dedication(facts.labels, facts.taints)
        shown = "" if newest.content is None else read(NodeObject, newest.content)
        if isinstance(shown, str):
            return False
        taints = (shown.spec or NodeSpec()).taints or ()
        return _has_dedication(shown.metadata.labels or {}, taints)


def _cause_of_status(cluster: Cluster, seen: Normalized) -> int | None:
    """Return the position of the record that led to a new status of a PodGroup, which only muster writes; None if
    something else changed."""
    group = cluster.groups.get(f"{seen.namespace or 'default'}/{seen.name}")
    known = None if group is None else group.observed.facts
    obj = read(PodGroupObject, seen.stored.content)
    if group is None or known is None or isinstance(obj, str):
        return None
    facts = group_facts(obj, cluster.device_families)
    if spec_of(facts) != group.observed.spec:
        return None
    if facts.phase != known.phase:
        return group.decided.reported_status.phase_set_at(facts.phase) or None
    if facts.counts != known.counts:
        return group.decided.reported_status.since or None
    if facts.conditions != known.conditions:
        refused = [one.position for one in group.decided.refusals.values()]
        return (
            max(
                (
                    group.decided.reported_status.conditions_reported_at,
                    group.decided.reported_status.ready_since,
                    *refused,
                )
            )
            or None
        )
    return None


def _has_dedication(labels: Mapping[str, str], taints: Iterable[Taint]) -> bool:
    is_labelled = labels.get(DEDICATED, "false") != "false"
    return is_labelled or any(taint.key == DEDICATED for taint in taints)
