"""Pod groups: pods that belong together, their phase, and what holds them up."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from projections.gang_minimum import MinMemberSet
from projections.group_facts import GroupFacts, spec_of
from projections.pod_class import Amounts, PodClass
from projections.pods import (
    ALLOCATED,
    BINDING,
    BOUND,
    FAILED,
    GONE,
    PENDING,
    READY,
    RELEASING,
    RUNNING,
    SUCCEEDED,
    Charge,
    Pod,
)
from projections.refusals import EVICTION_CODES
from projections.sub_groups import SubGroupKey, SubGroups, TopologyConstraint

WAITING: Final = "Pending"
INQUEUE: Final = "Inqueue"
RUNS: Final = "Running"
UNSURE: Final = "Unknown"
COMPLETED: Final = "Completed"

Status = tuple[str, int, int, int]
"""What the status of a PodGroup says: its phase, and how many pods are running, succeeded and failed."""


EquivalenceKey = tuple[str, tuple[object, ...]]
"""Action and signature: groups with the same signature get the same answer from that action."""


class Refusal(Struct, frozen=True):
    """Why a group waits, as last recorded."""

    code: str
    limit: str
    message: str
    pod: str
    position: int
    requeue_on_quota: tuple[str, ...] = ()
    requeue_on_node: bool = False
    never_fits: bool = False
    fits_only_closed_nodes: bool = False
    is_timed_out: bool = False
    """Whether it has been shut out for long."""


class Nomination(Struct, frozen=True):
    """Room on a node that is held for a pod, and what its queue is charged for that."""

    node: str
    request: tuple[tuple[str, int], ...]
    charge: Charge
    position: int = 0
    """Of the decision that promised it."""


class ReportedStatus(Struct):
    """What the object of a pod group should say, and what of that it was told, by positions of records."""

    status: Status = ("", 0, 0, 0)
    since: int = 0
    """Since when it should say this status."""
    phase_since: int = 0
    """Since when it should say this phase."""
    before: tuple[str, int] = ("", 0)
    """The phase that it should have said before this one, and since when."""
    reported_at: int = 0
    """Up to where it was told, or would not hear it."""
    ready_since: int = 0
    """Since when the gang is whole; 0 while it is not."""
    conditions_reported_at: int = 0
    """What its conditions have been told of, or would not say."""

    def set_status(self, status: Status, position: int) -> None:
        """From here on it should say this."""
        if status[0] != self.status[0]:
            self.before, self.phase_since = (self.status[0], self.phase_since), position
        self.status, self.since = status, position

    def phase_set_at(self, phase: str) -> int:
        """Since when the object should say, or should have said, this phase."""
        return self.before[1] if phase == self.before[0] else self.phase_since


class PodGroup:
    """A pod group and its pods. Only State changes it."""

    __slots__ = (
        "allocated",
        "best_effort_count",
        "cached_min_members",
        "cause",
        "classes",
        "counts",
        "created_ns",
        "digest",
        "elastic",
        "facts",
        "fingerprint",
        "has_surplus",
        "held",
        "inqueue",
        "is_foreign",
        "key",
        "live_classes",
        "min_available",
        "min_tasks",
        "needs_object",
        "nominations",
        "pending",
        "pending_classes",
        "phase",
        "pods",
        "pods_by_node",
        "priority",
        "queue",
        "ready_by_role",
        "ready_count",
        "refusals",
        "reported_status",
        "spec",
        "sub_groups",
        "uid",
        "victim_fingerprint",
    )  # fmt: skip

    spec: GroupFacts | None
    """What its object says, without what the scheduler tells it."""
    sub_groups: SubGroups | None
    """Its sub-groups, where it has policies of such."""
    pods_by_node: dict[tuple[SubGroupKey | None, str], int] | None
    """Sub-group and node to how many of its charged pods stand there, where it matters how close they are."""
    cached_min_members: MinMemberSet | None
    """The first pods, as many as the gang needs, once anybody has asked."""
    fingerprint: tuple[object, ...]
    victim_fingerprint: tuple[object, ...]

    def __init__(self, key: str) -> None:
        self.key = self.uid = key
        """`namespace/name`"""
        self.facts: GroupFacts | None = None
        """None where there is no PodGroup object."""
        self.reported_status, self.cause = ReportedStatus(), 0
        """What its object is to say; and the position of the record that last changed it."""
        self.spec = self.sub_groups = self.pods_by_node = self.cached_min_members = None
        self.needs_object = self.has_surplus = self.is_foreign = False
        """Whether it is nothing without an object; whether it has more pods than its gang needs; whether it
        belongs to another scheduler (`projections/foreign_pod_groups.py`)."""
        self.digest = self.queue = ""
        self.priority, self.created_ns, self.min_available = 0, 0, 1
        self.min_tasks: dict[str, int] = {}
        self.phase = WAITING
        self.pods: dict[str, Pod] = {}
        """By UID, in the order in which they were seen."""
        self.pending: list[Pod] = []
        """Pods that wait for a node, in task order."""
        self.counts: dict[str, int] = {}
        """Pods by status; a releasing pod counts only while it is on a node."""
        self.ready_by_role: dict[str, int] = {}
        """Role to pods that count towards the gang, as `ready_count` does; pods without a role under ""."""
        self.classes: dict[int, PodClass] = {}
        self.live_classes: dict[int, int] = {}
        self.pending_classes: dict[int, int] = {}
        """Class index to the class, of its pods that are neither finished nor releasing; to the number of these;
        and to that of its waiting pods, best-effort pods left out."""
        self.best_effort_count = self.ready_count = 0
        """Waiting pods that ask for nothing but a place; and pods that count towards the gang, those
        included: they always fit."""
        self.allocated: Amounts = {}
        """What its queue is charged for its pods."""
        self.held: Amounts = {}
        """What its pods request that are charged, by resource."""
        self.inqueue: Charge = ()
        self.elastic: Charge = ()
        """What of its queue's `inqueue` and `elastic` is its own."""
        self.refusals: dict[str, Refusal] = {}
        """Action to the refusal that stands."""
        self.nominations: dict[str, Nomination] = {}
        """UID to the room that is being freed for that pod."""
        self.fingerprint = self.victim_fingerprint = ()
        """What of it a cycle looks at: when this changes, the next cycle looks again."""

    def set_object(self, facts: GroupFacts | None) -> None:
        """Take over what its object asks for; None where there is no object."""
        self.facts, self.spec = facts, spec_of(facts)
        rules = () if facts is None else facts.sub_group_rules
        had = () if self.sub_groups is None else self.sub_groups.rules
        if rules == had and self.has_topology_constraint == (self.pods_by_node is not None):
            return
        self.sub_groups = SubGroups(rules) if rules else None
        self.pods_by_node = {} if self.has_topology_constraint else None
        for pod in self.pods.values():
            self._count_part(pod, pod.status, 1)

    @property
    def topology_constraint(self) -> TopologyConstraint | None:
        """How close its pods must be in the network, or had better be; None where it does not matter."""
        return None if self.facts is None else self.facts.topology_constraint

    @property
    def has_topology_constraint(self) -> bool:
        """Whether it matters how close its pods are, all of them or those of a sub-group."""
        rules = () if self.sub_groups is None else self.sub_groups.rules
        return self.topology_constraint is not None or any(
            rule.topology_constraint is not None for rule in rules
        )

    @property
    def problem(self) -> tuple[str, str] | None:
        """Code and message of what keeps the group from being considered at all."""
        if self.facts is None:
            if self.needs_object:
                return "PodGroupNotFound", f"PodGroup {self.key} does not exist"
            return None
        return ("InvalidPodGroup", self.facts.problem) if self.facts.problem else None

    @property
    def never_fits(self) -> bool:
        """Whether what would be reserved for it, nobody could have."""
        return any(one.never_fits for one in self.refusals.values())

    @property
    def scheduled_count(self) -> int:
        """Pods that count towards the phase."""
        have = self.counts.get
        ended = have(SUCCEEDED, 0) + have(FAILED, 0)
        return have(BOUND, 0) + have(RUNNING, 0) + ended + have(RELEASING, 0)

    @property
    def allocated_count(self) -> int:
        """Pods that are charged to the queue."""
        have = self.counts.get
        return have(BINDING, 0) + have(BOUND, 0) + have(RUNNING, 0)

    @property
    def valid_count(self) -> int:
        """Pods that could still make up the gang."""
        return self.ready_count - self.best_effort_count + self.counts.get(PENDING, 0)

    @property
    def valid_by_role(self) -> Counter[str]:
        """Role to pods that could still make up the gang."""
        have = Counter(self.ready_by_role)  # Best-effort pods that wait are among these.
        have.update(pod.facts.role for pod in self.pending if not pod.pod_class.is_best_effort)
        return have

    @property
    def enforced_roles(self) -> dict[str, int]:
        """Role to its minimum; empty where the roles' minimums exceed that of the group."""
        if not self.min_tasks:
            return self.min_tasks
        return self.min_tasks if sum(self.min_tasks.values()) <= self.min_available else {}

    @property
    def is_ready(self) -> bool:
        """Whether the gang is whole: further pods are bound one at a time."""
        return self.is_ready_with(0, {})

    def is_ready_with(
        self, more: int, roles: dict[str, int], parts: Mapping[SubGroupKey, int] | None = None
    ) -> bool:
        """Whether the gang is whole once `more` pods, `roles` by role and `parts` by sub-group, have nodes."""
        if self.ready_count + more < self.min_available:
            return False
        if self.sub_groups is not None and not self.sub_groups.are_enough_ready(parts or {}):
            return False
        if not self.min_tasks:
            return True
        have = self.ready_by_role
        return all(
            have.get(role, 0) + roles.get(role, 0) >= least
            for role, least in self.enforced_roles.items()
        )

    def is_ready_without_waiting(self, placed: Iterable[Pod], evicted: Iterable[Pod] = ()) -> bool:
        """Whether the gang is whole with `placed` and without `evicted`, where a pod that waits does not count:
        not even a best-effort pod."""
        more, roles = -self.best_effort_count, Counter[str]()
        if self.best_effort_count:
            roles.subtract(pod.facts.role for pod in self.pending if pod.pod_class.is_best_effort)
        for pod in placed:
            more += 1
            roles[pod.facts.role] += 1
        for pod in evicted:
            more -= 1
            roles[pod.facts.role] -= 1
        return self.is_ready_with(more, roles)

    @property
    def min_member_set(self) -> MinMemberSet:
        """The first pods, as many as the gang needs; found anew where it needs others."""
        if self.cached_min_members is None or not self.cached_min_members.is_for(
            self.min_available, self.enforced_roles
        ):
            live = [pod for pod in self.pods.values() if pod.status not in GONE]
            self.cached_min_members = MinMemberSet(self.min_available, self.enforced_roles, live)
        return self.cached_min_members

    @property
    def has_enough_pods(self) -> bool:
        """Whether there are pods enough to make up the gang."""
        return self.valid_count >= self.min_available

    def add_pod(self, pod: Pod) -> None:
        """Count a pod in, with the status it has now."""
        self.pods[pod.facts.uid] = pod
        status = pod.status
        self._count(pod, status, 1)
        self._count_part(pod, status, 1)
        if status == PENDING:
            insort(self.pending, pod, key=_sort_key)

    def remove_pod(self, pod: Pod) -> None:
        """Count a pod out; it must have the status that it was counted in with."""
        status = pod.status
        self._count(pod, status, -1)
        self._count_part(pod, status, -1)
        if status == PENDING:
            index = bisect_left(self.pending, pod.sort_key, key=_sort_key)
            assert self.pending[index] is pod
            del self.pending[index]
        del self.pods[pod.facts.uid]

    def replace_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Count a pod out as it was and in as it is."""
        if old is not None and new is not None and _counts_alike(old, new):
            before, after = old.status, new.status
            if before != after:
                self.counts[before] -= 1
                self.counts[after] = self.counts.get(after, 0) + 1
            del self.pods[old.facts.uid]
            self.pods[new.facts.uid] = new
            return
        if old is not None:
            self.remove_pod(old)
        if new is not None:
            self.add_pod(new)

    def _count(self, pod: Pod, status: str, sign: int) -> None:
        if status != RELEASING or pod.node:
            self.counts[status] = self.counts.get(status, 0) + sign
        if status in ALLOCATED:
            held = self.held
            for name, amount in pod.pod_class.request:
                held[name] = held.get(name, 0) + sign * amount
        if status in READY:
            self._count_ready(pod, sign)
        if status not in GONE:
            if self.cached_min_members is not None:
                self.cached_min_members.count(pod, sign)
            index = pod.pod_class.index
            self.classes[index] = pod.pod_class
            _shift(self.live_classes, index, sign)
            if index not in self.live_classes:
                del self.classes[index]
        if status == PENDING:
            if pod.pod_class.is_best_effort:
                self.best_effort_count += sign
                self._count_ready(pod, sign)
            else:
                _shift(self.pending_classes, pod.pod_class.index, sign)

    def _count_ready(self, pod: Pod, sign: int) -> None:
        """Count a pod towards the gang, and towards the minimum of its role."""
        role = pod.facts.role
        self.ready_count += sign
        self.ready_by_role[role] = self.ready_by_role.get(role, 0) + sign

    def _count_part(self, pod: Pod, status: str, sign: int) -> None:
        """Count a pod in its sub-group, if it counts towards the gang, and where it stands."""
        if self.sub_groups is None and self.pods_by_node is None:
            return
        key = None if self.sub_groups is None else self.sub_groups.key_of(pod.facts.labels)
        is_free = status == PENDING and pod.pod_class.is_best_effort
        if self.sub_groups is not None and key is not None and (status in READY or is_free):
            self.sub_groups.count(key, sign)
        if self.pods_by_node is not None and status in ALLOCATED:
            place = (key, pod.node)
            self.pods_by_node[place] = self.pods_by_node.get(place, 0) + sign
            if not self.pods_by_node[place]:
                del self.pods_by_node[place]

    def next_phase(self) -> str:
        """The phase that follows from its pods and what was decided on those that wait (volcano A.2).

        A gang whose last pods are on their way to their nodes, or are promised room that others leave for it,
        keeps its phase until they are seen there.
        """
        if self.is_foreign:
            return (self.facts.phase if self.facts else "") or WAITING
        scheduled = self.scheduled_count
        finished = self.counts.get(SUCCEEDED, 0) + self.counts.get(FAILED, 0)
        if self.counts.get(RUNNING, 0) and self.is_stuck:
            return UNSURE
        if scheduled and scheduled >= self.min_available:
            return COMPLETED if scheduled == finished else RUNS
        placed = self.ready_count > self.best_effort_count
        if (placed or self.nominations) and self.is_ready_with_nominated:
            return self.phase
        return WAITING if self.phase in (RUNS, UNSURE, COMPLETED) else self.phase

    @property
    def is_ready_with_nominated(self) -> bool:
        """Whether the gang is whole with the pods that are promised room; a best-effort pod that waits does not count."""
        return self.is_ready_without_waiting(self.pods[uid] for uid in self.nominations)

    @property
    def is_stuck(self) -> bool:
        """Whether the gang is not whole, and those who wait have been refused or are promised room only;
        or, where it ran before, nobody waits to make it whole again."""
        if self.is_ready:
            return False
        if not self.pending:
            # Its object may be listed before its pods: then it is the object that says so.
            stated = "" if self.facts is None else self.facts.phase
            has_run = self.phase in (RUNS, UNSURE) or stated in (RUNS, UNSURE)
            return has_run and self.scheduled_count < self.min_available
        return bool(self.nominations) or any(action != "enqueue" for action in self.refusals)

    @property
    def is_broken(self) -> bool:
        """Whether the gang has fallen below its minimum and no pod of it waits: it cannot become whole by itself."""
        if self.is_foreign or self.pending or self.is_ready:
            return False
        return 0 < self.scheduled_count < self.min_available

    @property
    def main_refusal(self) -> Refusal | None:
        """The refusal that is shown for the group: that no pod is evicted for it comes after all others."""
        refusals = self.refusals.values()
        return min(refusals, key=lambda one: one.code in EVICTION_CODES, default=None)

    @property
    def status_now(self) -> Status:
        """What the status of its object should say."""
        have = self.counts.get
        return self.phase, have(RUNNING, 0), have(SUCCEEDED, 0), have(FAILED, 0)


def _shift(counts: dict[int, int], key: int, sign: int) -> None:
    left = counts.get(key, 0) + sign
    if left:
        counts[key] = left
    else:
        del counts[key]


def _counts_alike(old: Pod, new: Pod) -> bool:
    """Whether two sights of a pod on its node count alike in all but their status."""
    return (
        old.status in ALLOCATED
        and new.status in ALLOCATED
        and old.pod_class is new.pod_class
        and old.sort_key == new.sort_key
        and old.node == new.node
        and old.facts.role == new.facts.role
        and old.facts.labels == new.facts.labels
    )


def _sort_key(pod: Pod) -> tuple[int, int, int, str]:
    return pod.sort_key
