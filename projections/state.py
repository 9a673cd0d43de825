"""Keep all facts that the scheduler may read. `State.apply` is the only method that changes them.

The same records in the same order give the same State, on every machine and in every process.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from events.cluster import KindListed, ObjectDeleted, ObjectObserved, ObjectUnreadable
from events.cycle import CycleOpened
from events.daemon import DaemonStarted, PolicyChanged, PolicyWarned, RecordsLost
from events.decision import Decision
from events.errors import MusterError, UsageError
from events.messages import ObjectRevision, ResumePoint
from events.record import PodParts, Record
from events.revision import is_newer
from events.union import Event, Observation, Outcome
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
from projections.apply_outcome import Commitment
from projections.audit import audit
from projections.budget_refusals import wake_covered
from projections.cluster import Cluster
from projections.cycle_start import open_cycle
from projections.deadlines import expire_timeouts, next_deadline
from projections.deferred_work import DeferredWork
from projections.device_assignments import DeviceAssignments
from projections.feature import FeatureTable
from projections.fork import Copies
from projections.internal_error import OnError, ignore, report
from projections.kind_table import REQUIRED, kinds_with
from projections.kinds.pod_group import POD_GROUPS
from projections.left_out import LEAVABLE, ApplyError, LeftOut
from projections.node_updates import change_policy
from projections.observed_kind import ObservedKind, Reading
from projections.pod_devices import assign_devices
from projections.pod_group_resolution import group_key_of
from projections.pods import FAILED, RUNNING, SUCCEEDED, Pod
from projections.policy.policy import BUILT_IN, parse_policy
from projections.pool_facts import PoolFacts
from projections.quarantine import record_admission, record_rejection
from projections.rescheduling import pod_gone
from projections.revision_rollback import discard_unconfirmed
from projections.volumes import kind_status as volumes
from projections.wakeup_events import WakeupEvents

NEWEST_MAX: Final = 2
"""Number of objects of a kind that are remembered as changed last. Each is requested from the server before the
watch resumes."""

IDENTITY: Final = ("Namespace", "/kube-system")
"""The object whose UID identifies the cluster."""

Touched: TypeAlias = tuple[Pod | None, Record]
"""A pod as sums and indexes know it, None if they do not, and the last record that changed it."""

Newest: TypeAlias = tuple[str, str, bool]
"""UID, revision, and whether the object was deleted."""


class State:
    """The facts at one position of the log."""

    def __init__(self, features: FeatureTable, left_out: LeftOut | None = None) -> None:
        self.left_out: LeftOut = {} if left_out is None else left_out
        """Records that are skipped, because an earlier fold raised an exception when it applied them."""
        self.cluster = Cluster(features)
        self.position = 0
        self.cycle = 0
        """Position of the last `cycle_opened`."""
        self.now_ns = 0
        """Time of the last cycle."""
        self.period_ns = 0
        self.policy_position = 0
        self.policy_document = BUILT_IN
        """The policy in force, as in the log."""
        self.listed: dict[str, None] = {}
        """Kinds listed since the daemon last started."""
        self.watched: dict[str, str] = {}
        """Kind to the last revision of it in the log: the watch resumes there."""
        self.newest: dict[str, dict[str, Newest]] = {}
        """Kind to the objects of it that changed last, by subject; the latest is last."""
        self.commitments: dict[str, Commitment] = {}
        """Bindings without an outcome, by UID."""
        self.evictions: dict[str, Commitment] = {}
        """Evictions without an outcome, by UID."""
        self.assignments = DeviceAssignments()
        """Devices of pods that a device plugin has not confirmed."""
        self.cycle_events = WakeupEvents()
        """Events that the open cycle has to look at."""
        self.carried_work = self.deferred_work = DeferredWork()
        """Work that earlier cycles left for the open cycle, and work that the open cycle leaves for the next."""
        self._touched: dict[str, Touched] = {}
        """UIDs of the pods that were observed since State last settled, in the order in which they first were."""
        self._batch = 0
        """Batch of these observations."""

    def begin_at(self, position: int) -> None:
        """Set the position before the first record."""
        assert self.position == 0, "only an empty State can begin"
        self.position = position

    def fork(self) -> "State":
        """Return a settled copy that can be read, decided on and folded further without changing this State.

        Neither side may be changed while the copy is made. Caches of either side stay valid.
        """
        # The cache of charges is not copied: questions fill it again.
        charges, self.cluster.charges = self.cluster.charges, {}
        twin = Copies().of(self)
        self.cluster.charges = charges
        assert isinstance(twin, State)
        # From now on neither side changes the groups that both have.
        self.cluster.owner, twin.cluster.owner = object(), object()
        for uid in self._touched:
            # Settling completes the version of a pod that was observed.
            twin.cluster.pods[uid] = twin.cluster.pods[uid].copy()
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
        """Return whether all observed pods are counted in sums and indexes."""
        return not self._touched

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
        parts: PodParts | None = None,
    ) -> None:
        """Apply one record. `content` is the object that came with it, if any; `parts` are those of a pod's content,
        where they are known.

        Observed pods are counted in sums and indexes when State settles: before a record of another kind or batch, and
        with `settle`.

        Call `on_error` if reading the object or applying the record raises. After an ApplyError this State is
        partly changed: fold a new one without the record (`projections/left_out.py`).
        """
        assert record.position == self.position + 1, (record.position, self.position)
        is_pod = type(event) is ObjectObserved and record.subject.startswith("Pod/")
        if self._touched and not (is_pod and record.batch == self._batch):
            self.settle(on_error)
        self.position = self.cluster.position = record.position
        if record.position in self.left_out:
            self._skip(record, event)
            return
        try:
            if is_pod:
                assert isinstance(event, ObjectObserved)
                self._batch = record.batch
                self._record_seen("Pod", record, event)
                self._pod_observed(record, event, content, on_error, parts)
                return
            self._apply(record, event, content, on_error)
            self.cluster.finish_record()
        except MusterError:
            raise
        except Exception as error:  # any bug
            if not isinstance(event, LEAVABLE):
                raise
            raise _apply_error(error, record, on_error) from error

    def settle(self, on_error: OnError = ignore) -> None:
        """Count the pods that were observed since the last time in all sums and indexes: each once, as it is now.

        Raises ApplyError with the record of the pod that cannot be counted.
        """
        if not self._touched:
            return
        cluster, touched, self._touched = self.cluster, self._touched, {}
        try:
            pods = cluster.pods
            cluster.settle_pods(
                [(record.position, old, pods[uid]) for uid, (old, record) in touched.items()]
            )
        except Exception as error:  # any bug
            at = {record.position: record for _, record in touched.values()}
            raise _apply_error(error, at[cluster.position], on_error) from error
        cluster.position = self.position
        cluster.finish_record()

    def _skip(self, record: Record, event: Event) -> None:
        """Use only the revision of a record that is left out."""
        if isinstance(event, ObjectObserved | ObjectDeleted):
            self._record_seen(record.subject.partition("/")[0], record, event)

    def _apply(
        self,
        record: Record,
        event: Event,
        content: bytes | None,
        on_error: OnError,
    ) -> None:
        if isinstance(event, ObjectObserved):
            kind = record.subject.partition("/")[0]
            self._record_seen(kind, record, event)
            content = _content(record, content)
            reading = Reading(record, event.uid, content, on_error)
            apply_observation.apply_object(self.cluster, kind, record, reading)
        elif isinstance(event, Decision):
            apply_decision.apply_decision(self, record, event)
        elif isinstance(event, CycleOpened):
            self._cycle_opened(record, event)
        elif isinstance(event, Outcome):
            apply_outcome.apply_outcome(self, record, event)
        elif not isinstance(event, PolicyWarned):
            self._observed(record, event)

    # Observations

    def _observed(self, record: Record, event: Observation) -> None:
        assert not isinstance(event, ObjectObserved)
        match event:
            case ObjectDeleted():
                kind = record.subject.partition("/")[0]
                self._record_seen(kind, record, event)
                if kind == "Pod":
                    self._pod_deleted(event)
                else:
                    apply_observation.apply_deletion(self.cluster, kind, record, event)
            case RecordsLost():
                pass  # The lists and watches that follow show what was done there.
            case ObjectUnreadable():
                pass  # Keep the object as last read, or absent.
            case DaemonStarted():
                self._started(event)
            case PolicyChanged():
                self._policy_changed(record, event)
            case BindRejectedByNode():
                record_rejection(self.cluster, event)
            case ForeignPodPlaced():
                self.cluster.changed_rows.pods[event.uid] = None
            case _:
                self._watch_changed(event)

    def _watch_changed(
        self,
        event: KindListed
        | ServerDiscovered
        | WatchOpened
        | WatchClosed
        | WatchProgressed
        | KindCompared,
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
            case WatchProgressed():
                self.watched[event.resource] = event.resource_version
            case ServerDiscovered() | KindCompared():
                pass

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

    def _pod_observed(
        self,
        record: Record,
        event: ObjectObserved,
        content: bytes | None,
        on_error: OnError,
        parts: PodParts | None,
    ) -> None:
        cluster = self.cluster
        old = cluster.pods.get(event.uid)
        if old is not None and old.digest == record.object:
            return
        reading = Reading(record, event.uid, _content(record, content), on_error)
        pod = apply_observation.read_pod(cluster, reading, old, parts)
        if old is not None and _is_same_to_readers(old, pod) and not reading.is_failed:
            # Only status that no decision reads has changed: no sum, index or view row does.
            twin = old.copy()
            twin.digest, twin.stated = pod.digest, pod.stated
            if event.uid in self._touched:
                cluster.pods[event.uid] = twin
            else:
                cluster.exchange_pod(twin)
            return
        if reading.is_failed and old is not None:
            # The last known request is a better estimate of its use of the node than nothing.
            pod = Pod(old.facts, old.pod_class, reading.digest)
        if old is not None:
            _carry(old, pod, record)
            is_over = pod.node != old.node or pod.status in (SUCCEEDED, FAILED)
            if pod.status in (SUCCEEDED, FAILED) and old.status not in (SUCCEEDED, FAILED):
                group = cluster.groups.get(old.group_key)
                if (pools := cluster.tables.find(PoolFacts)) is not None:
                    pools.pod_ended(old, group, is_deleted=False)
            assign_devices(cluster, pod)
            # A statement that differs confirms nothing before the kubelet has started the pod.
            runs = not pod.stated_devices or pod.facts.phase != "Pending"
            if old.devices and (is_over or (pod.facts.is_confirmed and runs)):
                self.assignments.remove(old.node, event.uid)
        else:
            pod.bound_at = record.position if pod.facts.node else 0
            assign_devices(cluster, pod)
        if pod.facts.scheduler in cluster.scheduler_names:
            pod.group_key = group_key_of(pod.facts)
            if old is None and cluster.policy.pools.deciders:
                cluster.tables.of(PoolFacts).pod_added(pod)
        cluster.pods[event.uid] = pod
        known = self._touched.get(event.uid)
        self._touched[event.uid] = (old if known is None else known[0], record)
        if pod.facts.node in cluster.quarantines.of_node and _is_admitted(old, pod):
            record_admission(cluster, pod)

    def _pod_deleted(self, event: ObjectDeleted) -> None:
        old = self.cluster.pods.get(event.uid)
        if event.uid in self.cluster.eviction_backoff:
            wake_covered(self.cluster, (event.uid,))
        for kept in (self.commitments, self.evictions, self.cluster.eviction_backoff):
            kept.pop(event.uid, None)
        if old is not None:
            pod_gone(self.cluster, old.group_key, event.uid)
            group = self.cluster.groups.get(old.group_key)
            if (pools := self.cluster.tables.find(PoolFacts)) is not None:
                pools.pod_ended(old, group, is_deleted=True)
        self.assignments.ranks.pop(event.uid, None)
        if old is not None:
            self.assignments.remove(old.node, event.uid)
            self.cluster.replace_pod(old, None)
            self.cluster.config_errors.put(f"Pod/{old.key}", ())

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
            pod = old.copy()
            pod.group_key, pod.requested_charge = "", ()
            if pod.facts.scheduler in event.scheduler_names:
                cluster.adopt(pod)
            cluster.replace_pod(None, pod)
        cluster.update_all_groups()

    def _policy_changed(self, record: Record, event: PolicyChanged) -> None:
        policy, _ = parse_policy(bytes(event.policy), self.features.policy_table)
        self.policy_position, self.policy_document = record.position, bytes(event.policy)
        change_policy(self.cluster, policy)

    def _cycle_opened(self, record: Record, event: CycleOpened) -> None:
        assert event.at_ns >= self.now_ns, "time runs backwards"
        self.cycle, self.now_ns = record.position, event.at_ns
        self.cluster.now_ns = event.at_ns
        open_cycle(self.cluster, event.at_ns)
        if (pools := self.cluster.tables.find(PoolFacts)) is not None:
            pools.open_cycle(self.cluster.policy.pools, event.at_ns)
        expire_timeouts(self, event.at_ns)
        self.cycle_events, self.cluster.wakeup_events = self.cluster.wakeup_events, WakeupEvents()
        self.carried_work, self.deferred_work = self.deferred_work, DeferredWork()
        self.cluster.nodes.lay_out()


def _apply_error(error: Exception, record: Record, on_error: OnError) -> ApplyError:
    reason = report(error, record.subject, "apply", on_error)
    return ApplyError(record.position, record.subject, reason)


def _is_admitted(old: Pod | None, pod: Pod) -> bool:
    """Return whether the kubelet has just started a pod."""
    has_run = (RUNNING, SUCCEEDED)
    return old is not None and pod.status in has_run and old.status not in has_run


def _is_same_to_readers(old: Pod, pod: Pod) -> bool:
    """Return whether all that is read of a pod is as before, and no condition of it was reported: each observation
    clears the position of that report."""
    is_same_class = pod.pod_class.index in (old.pod_class.index, old.pod_class.plain)
    return is_same_class and not old.reported_at and pod.facts == old.facts


def _carry(old: Pod, pod: Pod, record: Record) -> None:
    """Copy what was decided about a pod to its new version, unless the new version contradicts it."""
    pod.failed_bindings, pod.is_stuck = old.failed_bindings, old.is_stuck
    if old.evicted:
        pod.evicted = old.evicted
    if old.facts.node and not pod.facts.node:
        # A pod loses its node (K8.5) only if the server was restored from an older state.
        pod.evicted, pod.is_stuck = 0, False
        return
    if not pod.facts.node:
        if old.assumed:
            pod.assumed = old.assumed
        pod.decision, pod.bound_at = old.decision, old.bound_at
        pod.devices, pod.are_devices_reported = old.devices, old.are_devices_reported
        pod.network = old.network
    elif pod.facts.node == old.node:
        is_back = pod.occupies and not old.occupies
        pod.decision, pod.bound_at = old.decision, record.position if is_back else old.bound_at
        pod.devices, pod.are_devices_reported = old.devices, old.are_devices_reported
        pod.network = old.network
    elif failed := old.failed_binding(pod.facts.decision, pod.facts.node):
        # The reported failure was wrong, or came before the binding took effect.
        pod.decision, pod.bound_at = pod.facts.decision, record.position
        pod.devices, pod.network = failed.devices, failed.network
        return
    else:
        pod.bound_at = record.position
        return
    pod.charge = old.charge


def _content(record: Record, content: bytes | None) -> bytes:
    if content is None:
        # Readers of the log detect a missing object.
        raise UsageError(
            f"position {record.position}: its object was redacted; it cannot be folded"
        )
    return content
