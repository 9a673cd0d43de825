"""The synchronous core: makes a batch of sealed records of each input and applies it to State.

Nothing here waits, reads a clock or does I/O. The loop (`daemon/loop.py`) passes in messages and the time, makes the
batch durable, and only then has its decisions carried out.
"""

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from engine.batch import Batch
from engine.ingest import Ingest
from engine.outcomes import outcome_of
from engine.pending_requests import (
    NOTHING_UNDER_WAY,
    StatusUpdates,
    bindings_and_evictions,
    follow_ups,
    phase_updates,
)
from engine.report_ages import STALE_NS, StaleReports
from engine.shadow import HOLD_NS, ShadowDecisions
from events.chain import Draft, seal
from events.codec import encode
from events.cycle import CycleOpened
from events.daemon import DaemonStarted, PolicyChanged, PolicyWarned
from events.decisions.gang_bind import GangBindDecided
from events.messages import (
    AnnotateRequest,
    Answer,
    PodGroupCountsRequest,
    Request,
    WatchMessage,
)
from events.record import Head, Record, StoredObject
from events.union import Event
from projections.audit import RollingAudit
from projections.internal_error import OnError, ignore, report
from projections.left_out import ApplyError
from projections.pod_reading import PodRead
from projections.policy.policy import Policy, PolicyWarning, parse_policy
from projections.state import State
from projections.views.project import Views
from scheduling.decide import DECIDER, Decider
from scheduling.failed_objects import FailedObjects

KNOWN_OBJECTS_MAX: Final = 50_000
"""Digests of objects already handed to the log that are remembered, so as not to hand them over again: up to
twice as many, about 20 MB."""


RECORDS_MAX: Final = 20_000
"""Records of one batch of watch messages, after which a list goes on in the next batch."""


class ObjectFailedError(ApplyError):
    """State could not take in an object that the cluster showed."""


class Engine:
    """The core around one State. `head` is the head of the log that State was folded from."""

    def __init__(
        self,
        state: State,
        head: Head,
        *,
        views: Views | None = None,
        secret: Iterable[str] = (),
        on_error: OnError = ignore,
    ) -> None:
        self.state = state
        self.head = head
        self.decider = Decider(state, on_error)
        self._on_error = on_error
        self._views = views
        self.audit = RollingAudit(state)
        """Recounts what batches touched, when called (`daemon/auditing.py`)."""
        self.updates_status = False
        """Whether conditions, counts and allocated amounts are updated, not only phases."""
        self.shadow_hold_ns = HOLD_NS
        """How long a shadow assumes a decision that the cluster does not show."""
        self._shadow_decisions = ShadowDecisions(state)
        self._status_updates = StatusUpdates(state)
        self._known: dict[str, None] = {}
        self._known_before: dict[str, None] = {}
        """The digests that were known before those."""
        self._records: list[Record] = []
        self._events: list[Event] = []
        self._objects: list[StoredObject] = []
        self._before = head
        self._now_ns = 0
        self.is_taking_in = False
        """Whether `observe_in_parts` has more to record."""
        self.failed_objects = FailedObjects()
        """Objects withheld from State for now; the loop keeps it from one engine to the next."""
        self._ingest = Ingest(state, self._emit, secret, self._failure_of, on_error)

    def begin_listing(self) -> None:
        """Expect a new list of every kind: an object that is not in its list is deleted."""
        self._ingest.begin_listing()

    def is_due(self, at_ns: int) -> bool:
        """Return True if a cycle at this time could decide anything."""
        return self.decider.wakes(max(at_ns, self.state.now_ns))

    @property
    def is_cut_short(self) -> bool:
        """Return whether the last cycle deferred work to the next one, which is due at once."""
        return not self.state.deferred_work.is_empty

    def start(
        self, started: DaemonStarted, policy: PolicyChanged | None, epoch: int, now_ns: int
    ) -> Batch:
        """Begin an epoch: record the holder of the log, and the policy if it changed."""
        self.head = Head(position=self.head.position, digest=self.head.digest, epoch=epoch)
        self._open(now_ns)
        self._ingest.blind_since = self._emit(started, f"Daemon//{started.holder}").position
        if policy is not None:
            self._put_in_force(policy)
        return self._close()

    def change_policy(self, policy: PolicyChanged, now_ns: int) -> Batch:
        """Record a new policy, in force from the next cycle on."""
        self._open(now_ns)
        self._put_in_force(policy)
        return self._close()

    def is_in_force(self, policy: PolicyChanged) -> bool:
        """Return True if the policy in force has the same content."""
        stands = self.state.policy_position and self.state.cluster.policy
        return bool(stands) and self._parsed(policy)[0] == stands

    def policy_problem(self, policy: PolicyChanged) -> str:
        """Return why a policy cannot take the place of the one in force, or ""."""
        cluster = self.state.cluster
        members = cluster.features.pool_members
        return "" if members is None else members.policy_problem(cluster, self._parsed(policy)[0])

    def observe(self, messages: Iterable[WatchMessage], now_ns: int) -> Batch | None:
        """Record watch messages and apply them to State, all in one batch.

        Raises ObjectFailedError if State cannot apply an object: this engine must not be used any more. The next one
        that is given its `failed_objects` records the object as unreadable.
        """
        return next(self.observe_in_parts(deque(messages), now_ns, sys.maxsize), None)

    def observe_in_parts(
        self, messages: deque[WatchMessage], now_ns: int, records_max: int = RECORDS_MAX
    ) -> Iterator[Batch]:
        """Record watch messages as `observe` does, in batches of about `records_max` records, so that a long list is
        never held as one batch. Messages are taken out of the deque. Nothing else may be asked of this engine before
        `is_taking_in` is false."""
        self.is_taking_in = True
        steps = self._ingest.take_in(messages)
        while self.is_taking_in:
            self._open(now_ns)
            try:
                self.is_taking_in = False
                for _ in steps:
                    if len(self._records) >= records_max:
                        self.is_taking_in = True
                        break
                self.state.settle(self._on_error)
            except ApplyError as error:
                self.failed_objects.add(error.subject, error.reason, now_ns)
                raise ObjectFailedError(error.position, error.subject, error.reason) from error
            if self._records:
                yield self._close()

    def stale_reports(self, now_ns: int) -> tuple[StaleReports, ...]:
        """Return the device reports that were not updated for too long. Nothing is decided by it."""
        others = self.state.cluster.others
        known = {kind: list(others[kind]) for kind in STALE_NS if kind in others}
        return self._ingest.report_ages.stale(known, now_ns)

    def _failure_of(self, subject: str) -> str:
        return self.failed_objects.reason(subject, self._now_ns)

    def cycle(self, now_ns: int) -> Batch | None:
        """Run a cycle if one is due."""
        at_ns = max(now_ns, self.state.now_ns)
        if not self.decider.wakes(at_ns):
            return None
        self._open(now_ns)
        opened = CycleOpened(
            at_ns=at_ns,
            policy=self.state.policy_position,
            decider=DECIDER,
            plugins=self.state.cluster.plugins.versions,
        )
        position = self.head.position + 1
        self._emit(opened, "Cycle//", cycle=position)
        for decision in self.decider.decide():
            self._emit(decision, decision.subject, cycle=position, cause=self._cause(decision))
        return self._close()

    def report(self, answers: Iterable[Answer], now_ns: int) -> Batch | None:
        """Record the outcomes of requests."""
        self._open(now_ns)
        for answer in answers:
            try:
                outcome, subject = outcome_of(answer)
            except Exception as error:  # a bug: the request is made again
                report(error, f"Pod//{answer.request.uid}", "report", self._on_error)
                continue
            self._emit(outcome, subject, cause=answer.request.decision)
        return self._close() if self._records else None

    def end_shadow_decisions(self, now_ns: int) -> Batch | None:
        """Record which decisions of a shadow are not assumed any longer."""
        if not self.state.cluster.is_shadow:
            return None
        self._open(now_ns)
        for ended, decision in self._shadow_decisions.ended(now_ns, self.shadow_hold_ns):
            self._emit(ended, f"Pod/{ended.pod}", cause=decision)
        return self._close() if self._records else None

    def requests(self, under_way: Mapping[str, int] = NOTHING_UNDER_WAY) -> Iterator[Request]:
        """Yield requests for all decisions without an outcome, then status updates. A shadow has none.

        `under_way` has pods that are being bound: UID to decision. They are left out.
        """
        if self.state.cluster.is_shadow:
            return
        yield from bindings_and_evictions(self.state, self._on_error, under_way)
        if self.updates_status:
            yield from self._status_updates.requests(self._on_error)

    def urgent_requests(self) -> Iterator[Request]:
        """Yield requests that do not wait for the next cycle: phases of pod groups, for which controllers wait."""
        if self.state.cluster.is_shadow:
            return iter(())
        return phase_updates(self.state, self._on_error)

    def follow_up_requests(self, answers: Iterable[Answer]) -> Iterator[Request]:
        """Yield the requests that were waiting for these answers, or for the confirmation of a device plugin: bindings
        of pods on which their devices are written, the pods that are next on their nodes, and phases of pod groups
        whose counts were being updated."""
        if self.state.cluster.is_shadow:
            return
        requests = [one.request for one in answers]
        uids = [one.uid for one in requests if isinstance(one, AnnotateRequest)]
        yield from follow_ups(self.state, uids, self._on_error)
        groups = {
            f"{one.namespace}/{one.name}": None
            for one in requests
            if isinstance(one, PodGroupCountsRequest)
        }
        yield from phase_updates(self.state, self._on_error, groups)

    @property
    def has_status_updates(self) -> bool:
        """Return whether status updates are left to do, though no cycle may be due."""
        is_shadow = self.state.cluster.is_shadow
        return not is_shadow and self._status_updates.are_left(updates_status=self.updates_status)

    def _cause(self, event: Event) -> int | None:
        """Return the position of the record that led to a decision: the last change of the group,
        or the last release of quota or of a node."""
        key = getattr(event, "in_favour_of", "") or getattr(event, "pod_group", "")
        group = self.state.cluster.groups.get(key)
        if group is None:
            return None
        considered = self.state.cycle_events
        if key in considered.groups or key in self.state.cluster.wakeup_events.groups:
            return group.decided.cause or None
        eased = considered.quota_released_at.get(group.queue, 0)
        freed = considered.nodes_freed_at
        if isinstance(event, GangBindDecided):
            freed = max(
                (considered.nodes_freed.get(one.node, 0) for one in event.placements), default=0
            )
        rewired = considered.hyper_nodes_changed_at if group.has_topology_constraint else 0
        return max(eased, freed, rewired) or group.decided.cause or None

    # Records

    def _parsed(self, policy: PolicyChanged) -> tuple[Policy, tuple[PolicyWarning, ...]]:
        return parse_policy(bytes(policy.policy), self.state.features.policy_table)

    def _put_in_force(self, policy: PolicyChanged) -> None:
        position = self._emit(policy, f"Policy//{policy.source}").position
        for warned in self._parsed(policy)[1]:
            event = PolicyWarned(path=warned.path, message=warned.message)
            self._emit(event, f"Policy//{policy.source}", cause=position)

    def _open(self, now_ns: int) -> None:
        self._records, self._events, self._objects = [], [], []
        self._before, self._now_ns = self.head, now_ns
        self._ingest.now_ns = now_ns
        self._ingest.has_failures = not self.failed_objects.is_empty
        self._ingest.report_ages.begin(now_ns)

    def _emit(
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
        position, epoch = self.head.position + 1, self.head.epoch
        draft = Draft(
            position,
            self._before.position + 1,
            epoch,
            self._now_ns,
            cycle,
            cause,
            event.kind,
            subject,
            encode(event),
            known if stored is None else stored.digest,
        )
        record = seal(self.head.digest, draft)
        self.head = Head(position, record.digest, epoch)
        self._records.append(record)
        self._events.append(event)
        if stored is not None and stored.digest not in self._known:
            if stored.digest not in self._known_before:
                self._objects.append(stored)
            if len(self._known) >= KNOWN_OBJECTS_MAX:
                self._known, self._known_before = {}, self._known
            self._known[stored.digest] = None
        if stored is None:
            self.state.apply(record, event, None, self._on_error)
        else:
            self.state.apply(record, event, stored.content, self._on_error, read)
        if self._views is not None and stored is None:
            # Observed objects have no rows of their own.
            self._views.note(record, event)
        return record

    def _close(self) -> Batch:
        views = {}
        if self.state.unsettled.batch:
            self.state.settle(self._on_error)
        cluster = self.state.cluster
        self.audit.note(cluster.changed_rows)
        if self._views is not None:
            views = self._views.rows(self.head.position, self._now_ns)
        else:
            cluster.clear_changed_rows()
        self.decider.drop_stale()
        batch = Batch(
            before=self._before,
            records=self._records,
            objects=self._objects,
            views=views,
            events=self._events,
        )
        # The batch alone keeps the objects.
        self._records, self._events, self._objects = [], [], []
        return batch
