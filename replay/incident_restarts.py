"""Restarts of jobs after faults as a log shows them: from the first deleted pod until all pods run again."""

from typing import Final

from msgspec import Struct, field, structs

from events.decision import Decision
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from events.decisions.pod_group_unschedulable import PodGroupUnschedulable
from events.decisions.reschedule import RESTARTED, RescheduleDecided, RestartedPod
from events.duration import SECOND
from events.record import Record
from projections.fault_options import FORCE
from projections.pod_groups import PodGroup
from projections.rescheduling import Restart
from projections.state import State
from replay.incident_answer import DeletionDecided, JobRestart, Move, Wait
from replay.incident_faults import TrackedFault, card_thousandths, cards_of_pod, sum_cards
from replay.log_time import format_time

WAITS_MAX: Final = 50
"""Answers between deletion and placement that are kept of a restart, the first ones."""
DECISIONS_MAX: Final = 50
"""Decisions to delete pods that are kept of a restart, the first ones."""

AGAIN: Final = "RestartedAgain"
DELETED: Final = "Deleted"
"""Outcomes of a restart beside those of the log: another one began before all pods ran; the job is gone."""


class _Deletion(Struct):
    at_ns: int
    is_healthy: bool
    cards: dict[str, int]
    is_forced: bool = False


class _Decided(Struct):
    position: int
    at_ns: int
    event: RescheduleDecided
    faulty: tuple[str, ...]
    healthy: tuple[str, ...]


class _Wait(Struct):
    position: int
    at_ns: int
    event: PodGroupUnschedulable
    terminating: int
    until_ns: int | None = None


class _Placed(Struct):
    pod: str
    uid: str
    node: str
    position: int


class TrackedRestart(Struct, eq=False):
    """A job of which pods were deleted after a fault."""

    pod_group: str
    queue: str
    position: int
    at_ns: int
    fault_ns: int | None
    """When the first fault that it is restarted for was seen; None if that was before the first record of the log."""
    lost_ns: int
    """Since when the job does not work."""
    members: dict[str, RestartedPod] = field(default_factory=dict)
    """UID of each pod that the job had to what it was."""
    cards: dict[str, dict[str, int]] = field(default_factory=dict)
    """UID of a member to its cards."""
    _places: dict[str, str] = field(default_factory=dict)
    """UID of a member, or of a pod that has taken its place, to that of the member."""
    required: int = 0
    """Number of pods with which the job is complete."""
    deleted: dict[str, _Deletion] = field(default_factory=dict)
    decided: list[_Decided] = field(default_factory=list)
    waits: list[_Wait] = field(default_factory=list)
    waits_left_out: int = 0
    placed: dict[str, _Placed] = field(default_factory=dict)
    """UID of a member to the pod that has its place."""
    outcome: str = ""
    message: str = ""
    ended_ns: int | None = None
    """When the record that ends it was written."""
    bound_ns: int | None = None
    running_ns: int | None = None
    faults: list[TrackedFault] = field(default_factory=list)
    """The faults that it is restarted for."""

    @property
    def is_over(self) -> bool:
        """Return whether nothing more is expected of it."""
        if self.ended_ns is None:
            return False
        return self.running_ns is not None or self.outcome != RESTARTED

    def leaving(self, state: State) -> list[str]:
        """Return the UIDs of deleted pods that are not gone."""
        return [uid for uid in self.deleted if uid in state.cluster.pods]

    # Records

    def add_decision(self, state: State, record: Record, event: RescheduleDecided) -> None:
        """Add a decision to delete pods; State has applied it."""
        at_ns, cluster = record.recorded_at_ns, state.cluster
        for one in event.members:
            place = self._places.get(one.uid)
            if place is None:
                place = self._places[one.uid] = one.uid
                self.members[place] = one
                pod = cluster.pods.get(one.uid)
                self.cards[place] = {} if pod is None else cards_of_pod(cluster, pod)
            elif one.fault and not self.members[place].fault:
                self.members[place] = structs.replace(self.members[place], fault=one.fault)
        group = cluster.groups.get(self.pod_group)
        least = 0 if group is None else group.observed.min_available
        self.required = max(least, len(event.members))
        faulty = {one.uid for one in event.members if one.fault}
        for deleted in event.evictions:
            before, pod = self.deleted.get(deleted.uid), cluster.pods.get(deleted.uid)
            if before is not None:
                before.is_forced = before.is_forced or event.mode == FORCE
                continue
            is_healthy = deleted.uid not in faulty
            cards = {} if pod is None else cards_of_pod(cluster, pod)
            self.deleted[deleted.uid] = _Deletion(at_ns, is_healthy, cards)
            place = self._places.get(deleted.uid, "")
            if place in self.placed and self.placed[place].uid == deleted.uid:
                del self.placed[place]
        self.bound_ns = self.running_ns = None
        self.end_wait(at_ns)
        if len(self.decided) < DECISIONS_MAX:
            self.decided.append(
                _Decided(
                    record.position,
                    at_ns,
                    event,
                    tuple([one.pod for one in event.evictions if one.uid in faulty]),
                    tuple([one.pod for one in event.evictions if one.uid not in faulty]),
                )
            )

    def add_answer(self, state: State, record: Record, event: Decision) -> None:
        """Add an answer about the job: it is refused, pods are nominated, or placed."""
        self.end_wait(record.recorded_at_ns)
        if isinstance(event, PodGroupUnschedulable):
            if len(self.waits) >= WAITS_MAX:
                self.waits_left_out += 1
                return
            leaving = len(self.leaving(state))
            self.waits.append(_Wait(record.position, record.recorded_at_ns, event, leaving))
        elif isinstance(event, GangBindDecided | PipelineDecided):
            self._add_placements(state, record, event)

    def _add_placements(
        self, state: State, record: Record, event: GangBindDecided | PipelineDecided
    ) -> None:
        restart = state.cluster.reschedulings.restarts.get(self.pod_group)
        replaced = {} if restart is None else restart.replaced
        old_of = {new: old for old, new in replaced.items()}
        for one in event.placements:
            old = old_of.get(one.uid)
            place = "" if old is None else self._places.get(old, "")
            if place:
                self._places[one.uid] = place
                self.placed[place] = _Placed(one.pod, one.uid, one.node, record.position)
        group = state.cluster.groups.get(self.pod_group)
        if isinstance(event, GangBindDecided) and group is not None and self._has_all(state, group):
            self.bound_ns = record.recorded_at_ns

    def begin_earlier(self, state: State, standing: Restart, now_ns: int) -> None:
        """Take what the facts say of a restart that was open before the first record of the log, which begins at `now_ns`."""
        self.fault_ns = None
        self.at_ns = self.lost_ns = standing.begun_ns
        for old, new in standing.replaced.items():
            pod = state.cluster.pods.get(new)
            place = self._places.get(old, "")
            if pod is not None and place and pod.node:
                self._places[new] = place
                self.placed[place] = _Placed(pod.key, new, pod.node, pod.decision)
        group = state.cluster.groups.get(self.pod_group)
        if group is not None and self._has_all(state, group):
            self.bound_ns = now_ns
            self.update_running(state, now_ns)

    def end_wait(self, at_ns: int) -> None:
        """End the last wait."""
        if self.waits and self.waits[-1].until_ns is None:
            self.waits[-1].until_ns = at_ns

    def _has_all(self, state: State, group: PodGroup) -> bool:
        is_complete = group.counts.allocated >= self.required
        return is_complete and not self.leaving(state)

    def update_running(self, state: State, at_ns: int) -> bool:
        """Record when all pods run; return whether they newly do."""
        group = state.cluster.groups.get(self.pod_group)
        if self.running_ns is not None or self.bound_ns is None or group is None:
            return False
        running = group.counts.running + group.counts.succeeded
        if running < self.required or not self._has_all(state, group):
            return False
        self.running_ns = at_ns
        return True

    def end(self, at_ns: int, outcome: str, message: str) -> None:
        """End it."""
        self.end_wait(at_ns)
        self.ended_ns, self.outcome, self.message = at_ns, outcome, message

    # The answer

    def lost_card_seconds(self, now_ns: int) -> tuple[float, float]:
        """Return the cards of the gang times the time that it did not work, and the part of deleted healthy pods."""
        until = self.running_ns or (self.ended_ns if self.is_over else None) or now_ns
        whole = card_thousandths(sum_cards(self.cards.values())) * (until - self.lost_ns)
        healthy = sum(
            card_thousandths(one.cards) * (until - one.at_ns)
            for one in self.deleted.values()
            if one.is_healthy
        )
        return whole / (1000 * SECOND), healthy / (1000 * SECOND)

    def answer(self, now_ns: int, start_ns: int) -> JobRestart:
        """Return what is known of it at a time, of a log that began at `start_ns`."""
        lost, healthy = self.lost_card_seconds(now_ns)
        return JobRestart(
            pod_group=self.pod_group,
            queue=self.queue,
            position=self.position,
            at=format_time(self.at_ns, start_ns),
            at_ns=self.at_ns,
            cards=sum_cards(self.cards.values()),
            decisions=tuple([_decision(one, start_ns) for one in self.decided]),
            waits=tuple([_waited(one, start_ns) for one in self.waits]),
            waits_left_out=self.waits_left_out,
            moves=tuple(self._moves()),
            outcome=self.outcome,
            message=self.message,
            evicted=len(self.deleted),
            evicted_healthy=sum(one.is_healthy for one in self.deleted.values()),
            forced=sum(one.is_forced for one in self.deleted.values()),
            seconds_to_decision=_seconds(self.fault_ns, self.at_ns),
            seconds_to_bound=_seconds(self.fault_ns, self.bound_ns),
            seconds_to_running=_seconds(self.fault_ns, self.running_ns),
            lost_card_seconds=lost,
            healthy_card_seconds=healthy,
            is_over=self.is_over,
        )

    def _moves(self) -> list[Move]:
        found = []
        for one in sorted(self.members.values(), key=lambda one: (one.rank, one.pod, one.uid)):
            placed, is_deleted = self.placed.get(one.uid), one.uid in self.deleted
            stays = "" if is_deleted else one.node
            found.append(
                Move(
                    rank=one.rank,
                    pod=one.pod if placed is None else placed.pod,
                    old_pod=one.pod,
                    from_node=one.node,
                    to_node=stays if placed is None else placed.node,
                    was_faulty=bool(one.fault),
                    was_deleted=is_deleted,
                    position=None if placed is None else placed.position,
                )
            )
        return found


def _decision(one: _Decided, start_ns: int) -> DeletionDecided:
    return DeletionDecided(
        position=one.position,
        at=format_time(one.at_ns, start_ns),
        at_ns=one.at_ns,
        code=one.event.code,
        message=one.event.message,
        mode=one.event.mode,
        scope=one.event.scope,
        is_escalation=one.event.is_escalation,
        faulty=one.faulty,
        healthy=one.healthy,
    )


def _waited(one: _Wait, start_ns: int) -> Wait:
    return Wait(
        position=one.position,
        at=format_time(one.at_ns, start_ns),
        at_ns=one.at_ns,
        action=one.event.action,
        code=one.event.code,
        message=one.event.message,
        terminating=one.terminating,
        seconds=_seconds(one.at_ns, one.until_ns),
    )


def _seconds(begun_ns: int | None, until_ns: int | None) -> float | None:
    return None if until_ns is None or begun_ns is None else (until_ns - begun_ns) / SECOND
