"""The synchronous core: what came in goes out as a batch of sealed records, and State is a batch further.

Nothing here waits, reads a clock or touches the world. The loop around it (`daemon/loop.py`) hands in what
arrived and the time, makes the batch durable, and only then has its decisions carried out.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from events.chain import Draft, seal
from events.cluster import (
    Deleted,
    KindListed,
    NamespaceDeleted,
    NamespaceObserved,
    NodeDeleted,
    NodeObserved,
    Observed,
    PodDeleted,
    PodGroupDeleted,
    PodGroupObserved,
    PodObserved,
    PriorityClassDeleted,
    PriorityClassObserved,
    QueueDeleted,
    QueueObserved,
    WorkloadDeleted,
    WorkloadObserved,
)
from events.codec import encode
from events.cycle import CycleOpened
from events.decision import GangBindDecided
from events.errors import ManifestError
from events.normalize import Normalized, normalize
from events.process import DaemonStarted, PolicyChanged, PolicyWarned
from events.record import Head, Record, StoredObject
from events.sighting import Answer, BindRequest, Gone, Listed, PhaseRequest, Request, Seen, Sighting
from events.union import Event, Observation
from projections.audit import audit_touched
from projections.batch import Batch
from projections.cluster import Cluster
from projections.policy import parse_policy
from projections.state import State
from projections.views.project import Views
from scheduling.answers import outcome_of
from scheduling.decide import DECIDER, Decider
from scheduling.wake import wakes

KNOWN_OBJECTS_MAX: Final = 500_000
"""Digests of objects already handed to the log that are remembered, so as not to hand them over again."""

SEEN: Final[dict[str, type[Observed]]] = {
    "Node": NodeObserved,
    "Pod": PodObserved,
    "PodGroup": PodGroupObserved,
    "Queue": QueueObserved,
    "PriorityClass": PriorityClassObserved,
    "Namespace": NamespaceObserved,
}
"""Kubernetes kind to the observation of it; every other kind is an owner of pods."""

GONE: Final[dict[str, type[Deleted]]] = {
    "Node": NodeDeleted,
    "Pod": PodDeleted,
    "PodGroup": PodGroupDeleted,
    "Queue": QueueDeleted,
    "PriorityClass": PriorityClassDeleted,
    "Namespace": NamespaceDeleted,
}

COUNTED: Final = ("Node", "Pod", "PodGroup", "Queue")
"""Kinds of which State can tell which objects it knows."""


def known_objects(cluster: Cluster, kind: str) -> list[tuple[str, str, str]]:
    """Subject, UID and digest of each object of a kind that the log shows as there."""
    match kind:
        case "Pod":
            return [(f"Pod/{one.key}", uid, one.digest) for uid, one in cluster.pods.items()]
        case "Node":
            nodes = cluster.nodes.nodes.values()
            return [(f"Node//{one.name}", one.facts.uid, one.digest) for one in nodes if one.facts]
        case "PodGroup":
            groups = cluster.groups.values()
            return [(f"PodGroup/{g.key}", g.facts.uid, g.digest) for g in groups if g.facts]
        case "Queue":
            queues = cluster.queues.values()
            return [(f"Queue//{q.name}", q.facts.uid, q.digest) for q in queues if q.facts]
        case _:
            return []


def digest_known(cluster: Cluster, seen: Normalized) -> str | None:
    """The digest of an object as the log last showed it; None where it does not show this one."""
    match seen.kind:
        case "Pod":
            pod = cluster.pods.get(seen.uid)
            return None if pod is None else pod.digest
        case "Node":
            node = cluster.nodes.nodes.get(seen.name)
            return node.digest if node and node.facts and node.facts.uid == seen.uid else None
        case "PodGroup":
            group = cluster.groups.get(f"{seen.namespace or 'default'}/{seen.name}")
            return group.digest if group and group.facts and group.uid == seen.uid else None
        case "Queue":
            queue = cluster.queues.get(seen.name)
            return queue.digest if queue and queue.facts and queue.facts.uid == seen.uid else None
        case _:
            return None


class _PodGlance(msgspec.Struct):
    """As much of a pod as tells whether a new sight of it answers our binding."""

    class Spec(msgspec.Struct):
        nodeName: str | None = None  # noqa: N815

    class Status(msgspec.Struct):
        phase: str | None = None

    spec: Spec | None = None
    status: Status | None = None


class Step:
    """The core around one State. `head` is the head of the log that State was folded from."""

    def __init__(
        self,
        state: State,
        head: Head,
        *,
        views: Views | None = None,
        secret: Iterable[str] = (),
        audits: bool = False,
    ) -> None:
        self.state = state
        self.head = head
        self.decider = Decider(state)
        self._views = views
        self._secret = frozenset(secret)
        self._audits = audits
        """Whether what a batch touched is counted again at its end."""
        self._known: dict[str, None] = {}
        self._records: list[Record] = []
        self._objects: list[StoredObject] = []
        self._before = head
        self._now_ns = 0
        self._listing: dict[str, dict[str, None]] = {kind: {} for kind in COUNTED}
        """Kinds being listed, and the UIDs shown so far."""

    def begin_listing(self) -> None:
        """Everything is about to be shown once more: what is not shown by the end of its list is gone."""
        self._listing = {kind: {} for kind in COUNTED}

    def is_due(self, at_ns: int) -> bool:
        """Whether a cycle at this moment could decide anything."""
        return wakes(self.state, max(at_ns, self.state.now_ns))

    def start(
        self, started: DaemonStarted, policy: PolicyChanged | None, epoch: int, now_ns: int
    ) -> Batch:
        """Begin an epoch: who holds the log, and the policy where it is another than before."""
        self.head = Head(position=self.head.position, digest=self.head.digest, epoch=epoch)
        self._open(now_ns)
        self._emit(started, f"Daemon//{started.holder}")
        if policy is not None:
            position = self._emit(policy, f"Policy//{policy.source}").position
            for warned in parse_policy(bytes(policy.policy))[1]:
                event = PolicyWarned(path=warned.path, message=warned.message)
                self._emit(event, f"Policy//{policy.source}", cause=position)
        return self._close()

    def observe(self, sightings: Iterable[Sighting], now_ns: int) -> Batch | None:
        """Take in what the cluster showed. What cannot be read as an object at all is an error."""
        self._open(now_ns)
        for sighting in sightings:
            match sighting:
                case Seen(raw=raw):
                    self._see(normalize(raw, secret_annotations=self._secret))
                case Gone(raw=raw, synthesized=synthesized):
                    self._miss(normalize(raw, secret_annotations=self._secret), synthesized)
                case Listed():
                    self._miss_unlisted(sighting)
                    listed = KindListed(
                        resource=sighting.resource,
                        resource_version=sighting.resource_version,
                        count=sighting.count,
                        served=sighting.served,
                    )
                    self._emit(listed, f"{sighting.resource}//")
        return self._close() if self._records else None

    def cycle(self, now_ns: int) -> Batch | None:
        """Hold a cycle if one is due."""
        at_ns = max(now_ns, self.state.now_ns)
        if not wakes(self.state, at_ns):
            return None
        self._open(now_ns)
        opened = CycleOpened(at_ns=at_ns, policy=self.state.policy_position, decider=DECIDER)
        position = self.head.position + 1
        self._emit(opened, "Cycle//", cycle=position)
        for decision in self.decider.decide():
            self._emit(decision, subject_of(decision), cycle=position, cause=self._cause(decision))
        return self._close()

    def report(self, answers: Iterable[Answer], now_ns: int) -> Batch | None:
        """Take in what came of decisions."""
        self._open(now_ns)
        for answer in answers:
            outcome, subject = outcome_of(answer)
            self._emit(outcome, subject, cause=answer.request.decision)
        return self._close() if self._records else None

    def requests(self) -> Iterator[Request]:
        """Everything that was decided and has no outcome yet, in the order of decisions."""
        commitments = sorted(self.state.commitments.values(), key=lambda one: one.decision)
        for one in commitments:
            namespace, _, name = one.pod.partition("/")
            yield BindRequest(
                decision=one.decision, namespace=namespace, name=name, uid=one.uid, node=one.node
            )
        for key, (decision, phase) in sorted(self.state.phases.items()):
            namespace, _, name = key.partition("/")
            group = self.state.cluster.groups.get(key)
            if group is not None:
                yield PhaseRequest(
                    decision=decision, namespace=namespace, name=name, uid=group.uid, phase=phase
                )

    # What an object says, and what brought it about

    def _see(self, seen: Normalized) -> None:
        event = SEEN.get(seen.kind, WorkloadObserved)(
            uid=_uid(seen), resource_version=seen.resource_version, heartbeats=seen.heartbeats
        )
        if seen.kind in self._listing:
            self._listing[seen.kind][seen.uid] = None
            if digest_known(self.state.cluster, seen) == seen.stored.digest:
                return  # A list that shows what is known already tells nothing new (K4).
        cause = self._answers(seen)
        self._emit(_observation(event), seen.subject, cause=cause, stored=seen.stored)

    def _miss(self, seen: Normalized, synthesized: bool) -> None:
        event = GONE.get(seen.kind, WorkloadDeleted)(
            uid=_uid(seen), resource_version=seen.resource_version, synthesized=synthesized
        )
        self._emit(_observation(event), seen.subject, stored=seen.stored)

    def _miss_unlisted(self, listed: Listed) -> None:
        """What the log knows and a whole list did not show is gone, though nobody saw it go (K4)."""
        shown = self._listing.pop(listed.resource, None)
        if shown is None:
            return
        for subject, uid, digest in sorted(known_objects(self.state.cluster, listed.resource)):
            if uid not in shown:
                event = GONE[listed.resource](
                    uid=uid, resource_version=listed.resource_version, synthesized=True
                )
                self._emit(_observation(event), subject, known=digest)

    def _answers(self, seen: Normalized) -> int | None:
        """The decision that a new sight of an object answers, or None where it came from outside."""
        if seen.kind == "PodGroup":
            told = self.state.told.get(f"{seen.namespace}/{seen.name}")
            return (
                told[0] if told and f'"phase":"{told[1]}"'.encode() in seen.stored.content else None
            )
        pod = self.state.cluster.pods.get(seen.uid) if seen.kind == "Pod" else None
        if pod is None or not pod.decision or pod.digest == seen.stored.digest:
            return None
        try:
            glance = msgspec.json.decode(seen.stored.content, type=_PodGlance)
        except msgspec.ValidationError:
            return None
        node = glance.spec.nodeName if glance.spec else None
        phase = glance.status.phase if glance.status else None
        if node != pod.node:
            return None
        return pod.decision if pod.assumed or phase != pod.facts.phase else None

    def _cause(self, event: Event) -> int | None:
        """The record that led to a decision: what last changed the group, or gave something back."""
        key = getattr(event, "pod_group", "")
        group = self.state.cluster.groups.get(key)
        if group is None:
            return None
        considered = self.state.considered
        if key in considered.groups or key in self.state.cluster.due.groups:
            return group.cause or None
        eased = considered.eased_at.get(group.queue, 0)
        freed = considered.freed_at
        if isinstance(event, GangBindDecided):
            freed = max((considered.freed.get(one.node, 0) for one in event.placements), default=0)
        return max(eased, freed) or group.cause or None

    # Records

    def _open(self, now_ns: int) -> None:
        self._records, self._objects = [], []
        self._before, self._now_ns = self.head, now_ns

    def _emit(
        self,
        event: Event,
        subject: str,
        *,
        cycle: int | None = None,
        cause: int | None = None,
        stored: StoredObject | None = None,
        known: str | None = None,
    ) -> Record:
        """`stored` is the object that comes with the event; `known`, the digest of one in the log."""
        position = self.head.position + 1
        draft = Draft(
            position=position,
            batch=self._before.position + 1,
            epoch=self.head.epoch,
            recorded_at_ns=self._now_ns,
            cycle=cycle,
            cause=cause,
            kind=event.kind,
            subject=subject,
            body=encode(event),
            object=stored.digest if stored is not None else known,
        )
        record = seal(self.head.digest, draft)
        self.head = Head(position=position, digest=record.digest, epoch=self.head.epoch)
        self._records.append(record)
        if stored is not None and stored.digest not in self._known:
            self._objects.append(stored)
            if len(self._known) >= KNOWN_OBJECTS_MAX:
                self._known.clear()
            self._known[stored.digest] = None
        self.state.apply(record, event, stored.content if stored is not None else None)
        if self._views is not None:
            self._views.note(record, event)
        return record

    def _close(self) -> Batch:
        views = {}
        cluster = self.state.cluster
        if self._audits:
            audit_touched(self.state, cluster.touched)
        if self._views is not None:
            views = self._views.rows(self.head.position, self._now_ns)
        else:
            cluster.forget_touched()
        return Batch(before=self._before, records=self._records, objects=self._objects, views=views)


def subject_of(event: Event) -> str:
    """Whom a decision is about, as `Kind/namespace/name`."""
    group = getattr(event, "pod_group", "")
    return f"PodGroup/{group}" if group else f"Queue//{getattr(event, 'queue', '')}"


def _uid(seen: Normalized) -> str:
    if not seen.uid:
        raise ManifestError(f"{seen.subject}: metadata.uid is missing")
    return seen.uid


def _observation(event: Observed | Deleted) -> Observation:
    return event  # type: ignore[return-value]  # SEEN and GONE hold nothing but observations
