"""State: everything the scheduler may look at. `apply` is the only thing that changes it.

The same records in the same order make the same State, on every machine and in every process.
"""

from typing import Final

from events.cluster import (
    ConfigMapDeleted,
    ConfigMapObserved,
    HyperNodeDeleted,
    HyperNodeObserved,
    KindListed,
    NamespaceDeleted,
    NamespaceObserved,
    NodeDeleted,
    NodeObserved,
    PodDeleted,
    PodDisruptionBudgetDeleted,
    PodDisruptionBudgetObserved,
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
    EvictionDecided,
    GangBindDecided,
    ObjectFaulted,
    PipelineDecided,
    PipelineWithdrawn,
    QueueFaulted,
    RefusalDecided,
)
from events.errors import UsageError
from events.outcome import (
    BindFailed,
    BindOutcomeUnknown,
    EvictionFailed,
    EvictionOutcomeUnknown,
    PodBound,
    PodEvicted,
    PodGroupUpdated,
    PodGroupUpdateFailed,
    StatusNotTold,
    StatusTold,
)
from events.process import DaemonStarted, PolicyChanged, PolicyWarned
from events.record import Record
from events.revision import is_newer
from events.union import Event, Observation
from events.watching import (
    BindRejectedByNode,
    ForeignPodPlaced,
    ServerDiscovered,
    WatchClosed,
    WatchOpened,
    WatchProgressed,
)
from projections import decided, observed, outcomes
from projections.audit import audit
from projections.cluster import Cluster
from projections.deadlines import let_pass, next_deadline, shut_off
from projections.opening import open_cycle
from projections.outcomes import Commitment
from projections.pods import Pod
from projections.policy import BUILT_IN, parse_policy
from projections.quarantine import Quarantine
from projections.strangers import count_anew, count_pod
from projections.touched import Due

REQUIRED: Final = ("Node", "PriorityClass", "Queue", "PodGroup", "Pod")
"""Kinds that must be listed whole before anything is decided."""


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
        self.watched: dict[str, str] = {}
        """Kind to the last revision that the log has seen of it: from there a watch goes on."""
        self.commitments: dict[str, Commitment] = {}
        """By UID: bindings without an outcome."""
        self.evictions: dict[str, Commitment] = {}
        """By UID: evictions without an outcome."""
        self.quarantined: dict[str, dict[str, Quarantine]] = {}
        """Node to resource to its quarantine there."""
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
        return next_deadline(self)

    def apply(self, record: Record, event: Event, content: bytes | None) -> None:
        """Take one record in. `content` is the object that came with it, where it has one."""
        assert record.position == self.position + 1, (record.position, self.position)
        self.position = self.cluster.position = record.position
        self._apply(record, event, content)
        self.cluster.balance()

    def _apply(self, record: Record, event: Event, content: bytes | None) -> None:
        match event:
            case PodObserved():
                # By far the most frequent, so it comes first.
                self._saw(record, event.resource_version)
                self._pod_observed(record, event, content)
            case (
                EnqueueDecided()
                | GangBindDecided()
                | PipelineDecided()
                | PipelineWithdrawn()
                | EvictionDecided()
                | RefusalDecided()
                | QueueFaulted()
                | ObjectFaulted()
            ):
                decided.take(self, record, event)
            case CycleOpened():
                self._cycle_opened(record, event)
            case (
                PodBound()
                | BindFailed()
                | BindOutcomeUnknown()
                | PodGroupUpdated()
                | PodGroupUpdateFailed()
                | PodEvicted()
                | EvictionFailed()
                | EvictionOutcomeUnknown()
                | StatusTold()
                | StatusNotTold()
            ):
                outcomes.take(self, record, event)
            case PolicyWarned():
                pass
            case _:
                self._observed(record, event, content)

    # What was observed

    def _observed(self, record: Record, event: Observation, content: bytes | None) -> None:
        assert not isinstance(event, PodObserved)
        match event:
            case PodDeleted():
                self._saw(record, event.resource_version)
                self._pod_deleted(event)
            case (
                NodeObserved()
                | QueueObserved()
                | PodGroupObserved()
                | PriorityClassObserved()
                | NamespaceObserved()
                | WorkloadObserved()
                | PodDisruptionBudgetObserved()
                | HyperNodeObserved()
                | ConfigMapObserved()
            ):
                self._saw(record, event.resource_version)
                observed.see(self.cluster, record, event, _content(record, content))
            case (
                NodeDeleted()
                | QueueDeleted()
                | PodGroupDeleted()
                | PriorityClassDeleted()
                | NamespaceDeleted()
                | WorkloadDeleted()
                | PodDisruptionBudgetDeleted()
                | HyperNodeDeleted()
                | ConfigMapDeleted()
            ):
                self._saw(record, event.resource_version)
                observed.miss(self.cluster, record, event)
            case DaemonStarted():
                self._started(event)
            case PolicyChanged():
                self._policy_changed(record, event)
            case BindRejectedByNode():
                shut_off(self, event)
            case ForeignPodPlaced():
                self.cluster.touched.pods[event.uid] = None
            case _:
                self._watched(event)

    def _watched(
        self, event: KindListed | ServerDiscovered | WatchOpened | WatchClosed | WatchProgressed
    ) -> None:
        match event:
            case KindListed():
                self.listed[event.resource] = None
                self.watched[event.resource] = event.resource_version
            case WatchOpened():
                if event.is_resumed:
                    self.listed[event.resource] = None
            case WatchClosed():
                if event.has_gap:
                    self.listed.pop(event.resource, None)
            case WatchProgressed():
                self.watched[event.resource] = event.resource_version
            case ServerDiscovered():
                pass

    def _saw(self, record: Record, resource_version: str) -> None:
        """Remember how far a kind has been seen."""
        resource = record.subject.partition("/")[0]
        if is_newer(resource_version, self.watched.get(resource, "")):
            self.watched[resource] = resource_version

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
        count_pod(cluster, old, pod)

    def _pod_deleted(self, event: PodDeleted) -> None:
        old = self.cluster.pods.get(event.uid)
        for kept in (self.commitments, self.evictions, self.cluster.spared):
            kept.pop(event.uid, None)
        if old is not None:
            self.cluster.replace_pod(old, None)
            count_pod(self.cluster, old, None)

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
        count_anew(cluster, cluster.pods.values())

    def _policy_changed(self, record: Record, event: PolicyChanged) -> None:
        policy, _ = parse_policy(bytes(event.policy))
        self.policy_position, self.policy_document = record.position, bytes(event.policy)
        self.cluster.change_policy(policy)
        # Not all that moved was noted where the rules before did not look at it.
        self.cluster.nodes.stir_all()

    def _cycle_opened(self, record: Record, event: CycleOpened) -> None:
        assert event.at_ns >= self.now_ns, "time runs backwards"
        self.cycle, self.now_ns = record.position, event.at_ns
        open_cycle(self.cluster)
        let_pass(self, event.at_ns)
        self.considered, self.cluster.due = self.cluster.due, Due()
        self.cluster.nodes.lay_out()


def _carry(old: Pod, pod: Pod, record: Record) -> None:
    """What muster decided about a pod outlives a new sight of it, unless it shows otherwise."""
    pod.evicted = old.evicted
    if not pod.facts.node:
        pod.assumed, pod.decision, pod.bound_at = old.assumed, old.decision, old.bound_at
    elif pod.facts.node == old.node:
        pod.decision, pod.bound_at = old.decision, old.bound_at
    else:
        pod.bound_at = record.position
        return
    pod.charge = old.charge


def _content(record: Record, content: bytes | None) -> bytes:
    if content is None:
        # A missing object is found by whoever reads the log.
        raise UsageError(
            f"position {record.position}: its object was redacted; it cannot be folded"
        )
    return content
