"""State: everything the scheduler may look at. `apply` is the only thing that changes it.

The same records in the same order make the same State, on every machine and in every process.
"""

from typing import Final

from msgspec import Struct

from events.cluster import (
    KindListed,
    NamespaceDeleted,
    NamespaceObserved,
    NodeDeleted,
    NodeObserved,
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
from events.cycle import CycleOpened
from events.decision import (
    EnqueueDecided,
    GangBindDecided,
    PipelineDecided,
    PipelineWithdrawn,
    QueueFaulted,
    RefusalDecided,
)
from events.errors import UsageError
from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    PodBound,
    PodGroupUpdated,
    PodGroupUpdateFailed,
)
from events.process import DaemonStarted, PolicyChanged, PolicyWarned
from events.record import Record
from events.union import Event, Outcome
from projections import observed
from projections.audit import audit
from projections.cluster import Cluster
from projections.pod_groups import INQUEUE, Refusal
from projections.pods import Pod
from projections.policy import BUILT_IN, parse_policy
from projections.touched import Due

REQUIRED: Final = ("Node", "PriorityClass", "Queue", "PodGroup", "Pod")
"""Kinds that must be listed whole before anything is decided."""

BACKOFF_MAX_NS: Final = 60_000_000_000
"""The longest wait after a binding failed; the first is a second, and each doubles."""


class Commitment(Struct, frozen=True):
    """A binding that was decided and has no outcome yet."""

    decision: int
    pod: str
    uid: str
    node: str
    is_unknown: bool = False
    """Whether an answer was missed: the pod must be read back."""


class State:
    """What is true, as far as the log goes."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.position = 0
        self.cycle = 0
        """Position of the last `cycle_opened`."""
        self.now_ns = 0
        """The time of the last cycle."""
        self.period_ns = 0
        self.policy_position = 0
        self.policy_document = BUILT_IN
        """The policy in force, as it stands in the log."""
        self.listed: dict[str, None] = {}
        """Kinds listed since the daemon last started."""
        self.commitments: dict[str, Commitment] = {}
        """By UID: bindings without an outcome."""
        self.phases: dict[str, tuple[int, str]] = {}
        """Pod group key to the decision and phase that its object is still to be told."""
        self.told: dict[str, tuple[int, str]] = {}
        """Pod group key to the decision and phase of which the API server's answer is not seen yet."""
        self.considered = Due()
        """What the cycle now open has to look at."""

    def begin_at(self, position: int) -> None:
        """The records to come follow this position."""
        assert self.position == 0, "only an empty State can begin"
        self.position = position

    def validate(self) -> None:
        """Count everything again that is kept as a sum. What does not add up is an AssertionError."""
        audit(self)

    @property
    def is_synced(self) -> bool:
        """Whether every required kind has been listed."""
        return all(kind in self.listed for kind in REQUIRED)

    @property
    def next_deadline_ns(self) -> int | None:
        """When a cycle is due even if nothing happens."""
        return min(self.cluster.resting.values(), default=None)

    def apply(self, record: Record, event: Event, content: bytes | None) -> None:
        """Take one record in. `content` is the object that came with it, where it has one."""
        assert record.position == self.position + 1, (record.position, self.position)
        self.position = self.cluster.position = record.position
        self._apply(record, event, content)
        self.cluster.balance()

    def _apply(self, record: Record, event: Event, content: bytes | None) -> None:  # noqa: C901
        match event:
            case PodObserved():
                self._pod_observed(record, event, content)
            case PodDeleted():
                self._pod_deleted(event)
            case (
                NodeObserved()
                | QueueObserved()
                | PodGroupObserved()
                | PriorityClassObserved()
                | NamespaceObserved()
                | WorkloadObserved()
            ):
                observed.see(self.cluster, record, event, _content(record, content))
                if record.cause is not None:
                    self.told.pop(record.subject.partition("/")[2], None)
            case (
                NodeDeleted()
                | QueueDeleted()
                | PodGroupDeleted()
                | PriorityClassDeleted()
                | NamespaceDeleted()
                | WorkloadDeleted()
            ):
                observed.miss(self.cluster, record, event)
                self.phases.pop(record.subject.partition("/")[2], None)
                self.told.pop(record.subject.partition("/")[2], None)
            case KindListed():
                self.listed[event.resource] = None
            case CycleOpened():
                self._cycle_opened(record, event)
            case EnqueueDecided():
                self._enqueued(record, event)
            case GangBindDecided():
                self._bind_decided(record, event)
            case RefusalDecided():
                self._refused(record, event)
            case PipelineDecided():
                self._pipelined(event)
            case PipelineWithdrawn():
                self._withdrawn(event)
            case QueueFaulted():
                queue = self.cluster.queues[event.queue]
                self.cluster.tell_faults(queue, ((event.code, event.message),))
            case (
                PodBound()
                | BindFailed()
                | BindOutcomeUnknown()
                | PodGroupUpdated()
                | PodGroupUpdateFailed()
            ):
                self._came_out(event)
            case DaemonStarted():
                self._started(event)
            case PolicyChanged():
                self._policy_changed(record, event)
            case PolicyWarned():
                pass

    # What was observed

    def _pod_observed(self, record: Record, event: PodObserved, content: bytes | None) -> None:
        cluster = self.cluster
        old = cluster.pods.get(event.uid)
        if old is not None and old.digest == record.object:
            return
        pod = observed.pod(cluster, record, _content(record, content))
        if old is not None:
            _carry(old, pod, record)
        elif pod.facts.node:
            pod.bound_at = record.position
        if pod.facts.scheduler in cluster.scheduler_names:
            cluster.adopt(pod)
        cluster.replace_pod(old, pod)

    def _pod_deleted(self, event: PodDeleted) -> None:
        old = self.cluster.pods.get(event.uid)
        self.commitments.pop(event.uid, None)
        if old is not None:
            self.cluster.replace_pod(old, None)

    def _started(self, event: DaemonStarted) -> None:
        cluster = self.cluster
        self.listed, self.period_ns = {}, event.period_ns
        if event.scheduler_names == cluster.scheduler_names:
            return
        cluster.scheduler_names = event.scheduler_names
        for pod in list(cluster.pods.values()):
            cluster.replace_pod(pod, None)
            pod.group_key = ""
            if pod.facts.scheduler in event.scheduler_names:
                cluster.adopt(pod)
            cluster.replace_pod(None, pod)

    def _policy_changed(self, record: Record, event: PolicyChanged) -> None:
        policy, _ = parse_policy(bytes(event.policy))
        self.policy_position, self.policy_document = record.position, bytes(event.policy)
        self.cluster.change_policy(policy)

    # What was decided

    def _cycle_opened(self, record: Record, event: CycleOpened) -> None:
        assert event.at_ns >= self.now_ns, "time runs backwards"
        self.cycle, self.now_ns = record.position, event.at_ns
        resting = self.cluster.resting
        for key in [key for key, until in resting.items() if until <= event.at_ns]:
            self.cluster.rouse(key)
        self.considered, self.cluster.due = self.cluster.due, Due()
        self.cluster.nodes.lay_out()

    def _enqueued(self, record: Record, event: EnqueueDecided) -> None:
        group = self.cluster.groups[event.pod_group]
        group.phase = INQUEUE
        group.cause = record.position
        if group.facts is not None:
            self.phases[group.key] = self.told[group.key] = (record.position, INQUEUE)
        self.cluster.settle(group)

    def _bind_decided(self, record: Record, event: GangBindDecided) -> None:
        cluster = self.cluster
        group = cluster.groups[event.pod_group]
        cluster.break_promise(group, is_kept=True)
        for placement in event.placements:
            old = cluster.pods[placement.uid]
            assert not old.node, f"{old.key} is already on {old.node}"
            pod = old.twin()
            pod.assumed, pod.decision, pod.bound_at = (
                placement.node,
                record.position,
                record.position,
            )
            cluster.replace_pod(old, pod, is_last=False)
            self.commitments[placement.uid] = Commitment(
                decision=record.position, pod=placement.pod, uid=placement.uid, node=placement.node
            )
        group.refusals.clear()
        cluster.settle(group)
        cluster.due.groups.pop(group.key, None)

    def _refused(self, record: Record, event: RefusalDecided) -> None:
        group = self.cluster.groups[event.pod_group]
        group.refusals[event.action] = Refusal(
            code=event.code,
            limit=event.limit,
            message=event.message,
            pod=event.pod,
            position=record.position,
            barred=event.barred,
        )
        self.cluster.settle(group)
        self.cluster.due.groups.pop(group.key, None)

    def _pipelined(self, event: PipelineDecided) -> None:
        cluster = self.cluster
        group = cluster.groups[event.pod_group]
        cluster.break_promise(group, is_kept=True)
        cluster.promise(group, [(cluster.pods[one.uid], one.node) for one in event.placements])
        group.refusals.clear()
        cluster.settle(group)
        cluster.due.groups.pop(group.key, None)

    def _withdrawn(self, event: PipelineWithdrawn) -> None:
        group = self.cluster.groups[event.pod_group]
        self.cluster.break_promise(group)
        self.cluster.settle(group)
        self.cluster.due.groups.pop(group.key, None)

    # What came of it

    def _came_out(self, event: Outcome) -> None:
        match event:
            case PodBound():
                self.commitments.pop(event.uid, None)
                self.cluster.failures.pop(self._group_of(event.uid), None)
            case BindFailed():
                self._bind_failed(event)
            case BindOutcomeUnknown():
                if (commitment := self.commitments.get(event.uid)) is not None:
                    self.commitments[event.uid] = _unknown(commitment)
            case PodGroupUpdated() | PodGroupUpdateFailed():
                self.phases.pop(event.pod_group, None)

    def _bind_failed(self, event: BindFailed) -> None:
        cluster = self.cluster
        commitment = self.commitments.pop(event.uid, None)
        old = cluster.pods.get(event.uid)
        if commitment is None or old is None or old.facts.node:
            return
        pod = old.twin()
        pod.assumed, pod.decision, pod.bound_at, pod.charge = "", 0, 0, None
        key = old.group_key
        failed = cluster.failures[key] = cluster.failures.get(key, 0) + 1
        wait = min(BACKOFF_MAX_NS, 1_000_000_000 << min(failed - 1, 10))
        cluster.resting[key] = self.now_ns + wait
        cluster.replace_pod(old, pod)

    def _group_of(self, uid: str) -> str:
        pod = self.cluster.pods.get(uid)
        return "" if pod is None else pod.group_key


def _carry(old: Pod, pod: Pod, record: Record) -> None:
    """What muster decided about a pod outlives a new sight of it, unless it shows otherwise."""
    if not pod.facts.node:
        pod.assumed, pod.decision, pod.bound_at = old.assumed, old.decision, old.bound_at
    elif pod.facts.node == old.node:
        pod.decision, pod.bound_at = old.decision, old.bound_at
    else:
        pod.bound_at = record.position
        return
    pod.charge = old.charge


def _unknown(commitment: Commitment) -> Commitment:
    return Commitment(
        decision=commitment.decision,
        pod=commitment.pod,
        uid=commitment.uid,
        node=commitment.node,
        is_unknown=True,
    )


def _content(record: Record, content: bytes | None) -> bytes:
    if content is None:
        # A missing object is found by whoever reads the log.
        raise UsageError(
            f"position {record.position}: its object was redacted; it cannot be folded"
        )
    return content
