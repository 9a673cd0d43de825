"""Keep all facts that the scheduler may read. `State.apply` is the only method that changes them.

The same records in the same order give the same State, on every machine and in every process.
"""

from collections.abc import Iterator
from typing import Final, get_args

from events.cluster import KindListed, ObjectDeleted, ObjectObserved, ObjectUnreadable
from events.cycle import CycleOpened
from events.daemon import DaemonStarted, PolicyChanged, PolicyWarned, RecordsLost
from events.decision import Decision
from events.errors import MusterError, UsageError
from events.messages import ObjectRevision, ResumePoint
from events.record import Record
from events.revision import is_newer
from events.union import EVENTS, Event, Outcome
from events.watch import (
    FORBIDDEN,
    WENT_BACK,
    BindRejectedByNode,
    ForeignPodPlaced,
    KindCompared,
    ServerDiscovered,
    WatchClosed,
    WatchOpened,
    WatchProgressed,
)
from projections import apply_decision, apply_observation, apply_outcome
from projections.apply_pod import settle_pod
from projections.audit import audit
from projections.cycle_start import open_cycle
from projections.deadlines import expire_timeouts, next_deadline
from projections.deferred_work import DeferredWork
from projections.feature import FeatureTable
from projections.fork import Copies
from projections.internal_error import OnError, ignore, report
from projections.kind_table import REQUIRED, kinds_with, settling_places
from projections.kinds.pod_group import POD_GROUPS
from projections.left_out import LEAVABLE, ApplyError, LeftOut
from projections.node_updates import change_policy
from projections.observed_kind import ObservedKind
from projections.pod_reading import PodRead
from projections.pods import Pod, PodFacts
from projections.policy.policy import parse_policy
from projections.quarantine import record_rejection
from projections.revision_rollback import discard_unconfirmed
from projections.state_facts import StateFacts
from projections.unsettled import POD, ObservedObject, Unsettled
from projections.volumes import kind_status as volumes
from projections.wakeup_events import WakeupEvents

NEWEST_MAX: Final = 2
"""Number of objects of a kind that are remembered as changed last. Each is requested from the server before the
watch resumes."""

IDENTITY: Final = ("Namespace", "/kube-system")
"""The object whose UID identifies the cluster."""

_WITHOUT_INDEXES: Final = frozenset(
    one
    for one in EVENTS
    if issubclass(
        one,
        (
            ObjectObserved,
            ObjectDeleted,
            CycleOpened,
            WatchOpened,
            WatchProgressed,
            WatchClosed,
            Decision,
            *get_args(Outcome),
        ),
    )
)
"""Events that are applied without indexes where a fold leaves them out. Before any other they are computed."""

_UNSETTLED: Final = (
    ObjectObserved,
    ObjectDeleted,
    ObjectUnreadable,
    WatchProgressed,
    KindCompared,
    ServerDiscovered,
    PolicyWarned,
)
"""Events before which State need not settle. What is done with any other may depend on all observations before it."""


class State(StateFacts):
    """The facts at one position of the log, and what changes them."""

    def __init__(self, features: FeatureTable, left_out: LeftOut | None = None) -> None:
        self.left_out: LeftOut = {} if left_out is None else left_out
        """Records that are skipped, because an earlier fold raised an exception when it applied them."""
        super().__init__(features)
        self.unsettled = Unsettled()
        self._indexes_from = 0
        """Position of the cycle from which indexes are kept up; 0 if no fold leaves them out."""
        self._left_out_from = 0
        """Position from which they may be left out again, after a record that reads them."""
        self._records_per_pod = 1
        """So many records for each pod are folded at least between two times that indexes are computed."""

    @property
    def are_indexes_left_out(self) -> bool:
        """Return whether a fold is under way that leaves indexes out: nothing may be decided or asked now."""
        return self.cluster.indexes.are_left_out

    def begin_at(self, position: int) -> None:
        """Set the position before the first record."""
        assert self.position == 0, "only an empty State can begin"
        self.position = position

    def fork(self) -> "State":
        """Return a settled copy that can be read, decided on and folded further without changing this State.

        Neither side may be changed while the copy is made. Caches of either side stay valid.
        """
        assert not self.are_indexes_left_out, "a fold is under way"
        # The cache of charges is not copied: questions fill it again.
        charges, self.cluster.charges = self.cluster.charges, {}
        unsettled, self.unsettled = self.unsettled, Unsettled()
        twin = Copies().of(self)
        self.cluster.charges, self.unsettled = charges, unsettled
        assert isinstance(twin, State)
        twin.unsettled = unsettled.copy()
        for one in (self.cluster, twin.cluster):
            one.pod_groups.share(one.groups)
        twin.settle()
        return twin

    @property
    def features(self) -> FeatureTable:
        """Return all features that there are."""
        return self.cluster.features.table

    @property
    def kinds(self) -> dict[str, ObservedKind]:
        """Return all observed kinds, by the name in records."""
        return kinds_with(self.features)

    @property
    def is_settled(self) -> bool:
        """Return whether all observations are in tables, sums and indexes."""
        return not self.unsettled.batch

    def validate(self) -> None:
        """Recount all sums. Raise AssertionError if one differs from the sum that is kept."""
        audit(self)

    @property
    def is_synced(self) -> bool:
        """Return whether all required kinds were listed."""
        return all(kind in self.listed for kind in REQUIRED)

    @property
    def next_deadline_ns(self) -> int | None:
        """Return the time at which a cycle is due even if no event arrives."""
        return next_deadline(self)

    def apply(
        self,
        record: Record,
        event: Event,
        content: bytes | None,
        on_error: OnError = ignore,
        read: PodRead = None,
    ) -> None:
        """Apply one record. `content` is the object that came with it, if any; `read` is what was read of a pod, if it was.

        Observed objects are in tables, sums and indexes when State settles: before a record of another batch, before one
        that may depend on them, and with `settle`.

        Call `on_error` if reading the object or applying the record raises. After an ApplyError this State is
        partly changed: fold a new one without the record (`projections/left_out.py`).
        """
        assert record.position == self.position + 1, (record.position, self.position)
        unsettled, kind = self.unsettled, type(event)
        if unsettled.batch and (
            record.batch != unsettled.batch
            or kind not in _UNSETTLED
            # What caused its change is read from the group as it was before.
            or record.subject in unsettled.objects.get(POD_GROUPS.kind, ())
        ):
            self.settle(on_error)
        self.position = self.cluster.position = record.position
        if self._indexes_from:
            self._choose_indexes(record, kind)
        if record.position in self.left_out:
            self._skip(record, event)
            return
        try:
            if isinstance(event, ObjectObserved | ObjectDeleted):
                self._observed(record, event, content, on_error, read)
            elif kind not in _UNSETTLED:
                self._apply(record, event)
                self.cluster.finish_record()
            elif isinstance(event, WatchProgressed):
                self.watched[event.resource] = event.resource_version
        except MusterError:
            raise
        except Exception as error:  # any bug
            if not isinstance(event, LEAVABLE):
                raise
            raise _apply_error(error, record, on_error) from error

    def leave_indexes_out(self, until: int, *, records_per_pod: int = 1) -> None:
        """Apply the records before the cycle at `until` without indexes where facts can do without, and compute these then.

        What a cycle has to look at are the events since the last cycle before. So from the cycle after that at `until` on State is
        the same as if indexes had been kept up all the time; nothing may be decided or asked before. A bug of an index does not show
        up in records that are applied without it.

        Computing indexes takes about as long as applying a record for each pod: they are left out only for as many records or more
        (`records_per_pod`).
        """
        if not self.left_out:
            self._indexes_from, self._left_out_from = until, self.position
            self._records_per_pod = records_per_pod

    def _choose_indexes(self, record: Record, kind: type[Event]) -> None:
        """Compute the indexes that were left out before a record that needs them; leave them out again from a later cycle on."""
        cluster, until = self.cluster, self._indexes_from
        if record.position >= until:
            self._indexes_from = 0
            self._compute_indexes()
        elif self.are_indexes_left_out:
            if kind not in _WITHOUT_INDEXES:
                self._compute_indexes()
        elif (
            kind is CycleOpened
            and record.position >= self._left_out_from
            and until - record.position > self._records_per_pod * len(cluster.pods)
            and cluster.can_leave_indexes_out
        ):
            cluster.leave_indexes_out()

    def _compute_indexes(self) -> None:
        if self.are_indexes_left_out:
            self.cluster.compute_indexes_left_out()
            self._left_out_from = self.position + self._records_per_pod * len(self.cluster.pods)

    def settle(self, on_error: OnError = ignore) -> None:
        """Put what was observed since the last time into tables, sums and indexes: each object once, as it is now.

        Pods come after all that they refer to. Raises ApplyError with the
        record of the object that cannot be counted.
        """
        if not self.unsettled.batch:
            return
        unsettled, self.unsettled = self.unsettled, Unsettled()
        cluster = self.cluster
        try:
            if any(kind != POD_GROUPS.kind for kind in unsettled.objects):
                self._compute_indexes()
            places = settling_places(self.features) if unsettled.objects else {}
            for kind in sorted(unsettled.objects, key=lambda kind: places.get(kind, -1)):
                for one in unsettled.objects[kind].values():
                    cluster.position = one.record.position
                    apply_observation.apply_object(cluster, kind, one, on_error)
            if unsettled.objects:
                # Pods are charged to the queue of their group, if its namespace may use that.
                cluster.pod_groups.settle(cluster)
            changed: list[tuple[int, Pod | None, Pod | None]] = []
            for one in unsettled.pods.values():
                cluster.position = one.record.position
                if (pair := settle_pod(self, one, on_error)) is not None:
                    changed.append((one.record.position, *pair))
            cluster.settle_pods(changed)
            cluster.position = self.position
            cluster.finish_record()
        except MusterError:
            raise
        except Exception as error:  # any bug
            raise _apply_error(error, unsettled.record_at(cluster.position), on_error) from error

    def _skip(self, record: Record, event: Event) -> None:
        """Use only the revision of a record that is left out."""
        if isinstance(event, ObjectObserved | ObjectDeleted):
            self._record_seen(record.subject.partition("/")[0], record, event)

    def _apply(self, record: Record, event: Event) -> None:
        if isinstance(event, Decision):
            apply_decision.apply_decision(self, record, event)
        elif isinstance(event, CycleOpened):
            self._cycle_opened(record, event)
        elif isinstance(event, Outcome):
            apply_outcome.apply_outcome(self, record, event)
        else:
            self._heard(record, event)

    # Observations

    def _observed(
        self,
        record: Record,
        event: ObjectObserved | ObjectDeleted,
        content: bytes | None,
        on_error: OnError,
        read: PodRead,
    ) -> None:
        """Record an object that was observed or deleted, in place of an older observation of it."""
        kind, subject, uid = record.subject.partition("/")[0], record.subject, event.uid
        self._record_seen(kind, record, event)
        unsettled = self.unsettled
        before = unsettled.pods.get(uid) if kind == POD else unsettled.of(kind, subject, uid)
        if before is not None and before.content is None:
            # It is another object of the same name.
            self.settle(on_error)
            before = None
        unsettled = self.unsettled
        unsettled.batch = record.batch
        if kind != POD:
            if isinstance(event, ObjectDeleted):
                content = None
            elif content is None:
                raise _redacted(record)
            unsettled.objects.setdefault(kind, {})[subject] = ObservedObject(record, uid, content)
        elif isinstance(event, ObjectDeleted):
            # Behind what was observed of other pods of its group.
            unsettled.pods.pop(uid, None)
            unsettled.pods[uid] = ObservedObject(record, uid, None)
        else:
            if before is not None:
                known = before.record.object
            else:
                pod = self.cluster.pods.get(uid)
                known = None if pod is None else pod.observed.digest
            if record.object != known:
                if content is None:
                    raise _redacted(record)
                unsettled.pods[uid] = ObservedObject(record, uid, content, read)

    def seen_pod(self, uid: str) -> tuple[str, PodFacts | None]:
        """Return the digest of a pod as it was last observed, settled or not, and what was read of it; "" and None if there is
        none."""
        newest = self.unsettled.pods.get(uid)
        if newest is None:
            pod = self.cluster.pods.get(uid)
            return ("", None) if pod is None else (pod.observed.digest, pod.facts)
        if newest.content is None:
            return "", None
        facts = newest.pod[0] if isinstance(newest.pod, tuple) else None
        return newest.record.object or "", facts

    def _heard(self, record: Record, event: Event) -> None:
        match event:
            case RecordsLost():
                pass  # The lists and watches that follow show what was done there.
            case DaemonStarted():
                self._started(event)
            case PolicyChanged():
                self._policy_changed(record, event)
            case BindRejectedByNode():
                record_rejection(self.cluster, event)
            case ForeignPodPlaced():
                self.cluster.changed_rows.pods[event.uid] = None
            case KindListed() | WatchOpened() | WatchClosed():
                self._watch_changed(event)
            case _:
                raise AssertionError(event)

    def _watch_changed(
        self,
        event: KindListed | WatchOpened | WatchClosed,
    ) -> None:
        match event:
            case KindListed():
                self.listed[event.resource] = None
                if event.resource == POD_GROUPS.kind and event.served:
                    self.cluster.are_groups_listed = True
                volumes.set_kind_status(
                    self.cluster, event.resource, "" if event.served else volumes.NOT_SERVED
                )
                self.watched[event.resource] = event.resource_version
                # Objects seen between a gap and the list may belong to the lost history.
                newest = self.newest.get(event.resource, {})
                for subject, (_, revision, _) in list(newest.items()):
                    if is_newer(revision, event.resource_version):
                        del newest[subject]
            case WatchOpened():
                if event.is_resumed:
                    self.listed[event.resource] = None
                    volumes.set_kind_status(self.cluster, event.resource, "")
            case WatchClosed():
                if event.has_gap:
                    # A list follows, whatever its revision, also after a restart.
                    for kept in (self.listed, self.watched, self.newest):
                        kept.pop(event.resource, None)
                if event.resource not in self.listed:
                    why = volumes.FORBIDDEN if event.cause == FORBIDDEN else volumes.NOT_LISTED
                    volumes.set_kind_status(self.cluster, event.resource, why)
                if event.cause == WENT_BACK:
                    discard_unconfirmed(self, event.resource)

    def _record_seen(
        self, resource: str, record: Record, event: ObjectObserved | ObjectDeleted
    ) -> None:
        """Record the last revision of a kind, and which of its objects changed last."""
        newest = self.newest.get(resource, {})
        known = self.watched.get(resource)
        if known is None:
            # Its list is not complete: a watch that begins here would miss what the list does not hold yet.
            known = next((one[1] for one in reversed(newest.values())), "")
        if not is_newer(event.resource_version, known):
            return
        if resource in self.watched:
            self.watched[resource] = event.resource_version
        newest = self.newest.setdefault(resource, {})
        newest.pop(record.subject, None)
        is_gone = isinstance(event, ObjectDeleted)
        newest[record.subject] = (event.uid, event.resource_version, is_gone)
        if len(newest) > NEWEST_MAX:
            del newest[next(iter(newest))]

    @property
    def progress(self) -> dict[str, ResumePoint]:
        """Return the last revision of each kind, and the objects that show whether the server still has the same
        history."""
        return {
            resource: ResumePoint(revision, tuple(self._known(resource)))
            for resource, revision in self.watched.items()
        }

    def _known(self, resource: str) -> Iterator[ObjectRevision]:
        for subject, (uid, revision, is_gone) in self.newest.get(resource, {}).items():
            _, namespace, name = subject.split("/", 2)
            yield ObjectRevision(namespace, name, uid, revision, is_gone)
        if resource == IDENTITY[0]:
            uid, _ = self.cluster.others.get(resource, {}).get(IDENTITY[1], ("", ""))
            if uid:
                yield ObjectRevision("", IDENTITY[1].strip("/"), uid, "")

    def _started(self, event: DaemonStarted) -> None:
        cluster = self.cluster
        self.listed, self.period_ns = {}, event.period_ns
        cluster.is_shadow = event.is_shadow
        cluster.volume_kinds = dict.fromkeys(event.volume_kinds, volumes.NOT_LISTED)
        apply_outcome.mark_outcomes_unknown(self)
        if event.pod_labels != cluster.pod_labels:
            cluster.pod_labels = event.pod_labels
            cluster.changed_rows.pod_attributes.update(dict.fromkeys(cluster.pods))
        if event.scheduler_names == cluster.scheduler_names:
            return
        cluster.scheduler_names = event.scheduler_names
        for old in list(cluster.pods.values()):
            cluster.replace_pod(old, None)
            cluster.pod_groups.settle(cluster)
            pod = old.in_group(cluster.group_key_of(old.facts))
            if pod.group_key:
                cluster.pod_groups.adopt(cluster, pod)
            cluster.replace_pod(None, pod)
        cluster.pod_groups.mark_all(cluster.groups, cluster.position)

    def _policy_changed(self, record: Record, event: PolicyChanged) -> None:
        policy, _ = parse_policy(bytes(event.policy), self.features.policy_table)
        self.policy_position, self.policy_document = record.position, bytes(event.policy)
        change_policy(self.cluster, policy)

    def _cycle_opened(self, record: Record, event: CycleOpened) -> None:
        assert event.at_ns >= self.now_ns, "time runs backwards"
        self.cycle, self.now_ns = record.position, event.at_ns
        self.cluster.now_ns = event.at_ns
        open_cycle(self.cluster, event.at_ns)
        for table in self.cluster.tables.of_cycles:
            table.cycle_opened(self.cluster)
        expire_timeouts(self, event.at_ns)
        self.cluster.pod_groups.settle(self.cluster)
        self.cycle_events, self.cluster.wakeup_events = self.cluster.wakeup_events, WakeupEvents()
        self.carried_work, self.deferred_work = self.deferred_work, DeferredWork()
        self.cluster.nodes.lay_out()


def _apply_error(error: Exception, record: Record, on_error: OnError) -> ApplyError:
    reason = report(error, record.subject, "apply", on_error)
    return ApplyError(record.position, record.subject, reason)


def _redacted(record: Record) -> UsageError:
    """Return the error of a record without its object. Readers of the log detect a missing object."""
    return UsageError(f"position {record.position}: its object was redacted; it cannot be folded")
