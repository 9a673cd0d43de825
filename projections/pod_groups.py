"""Pod groups: their pods, phase, refusals and nominations."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import ClassVar, Final, TypeVar

from projections.gang_minimum import MinMemberSet
from projections.group_rows import NO_RESERVATION, DecidedGroup, ObservedGroup, Refusal
from projections.pod_annotations import FOREIGN_GROUP
from projections.pod_class import Amounts, PodClass
from projections.pod_terms import Labels
from projections.pods import (
    ALLOCATED,
    BINDING,
    GONE,
    PENDING,
    Charge,
    Pod,
    SortKey,
)
from projections.refusals import EVICTION_CODES
from projections.reported_status import Status
from projections.status_counts import NO_PODS, bound, counted, moved
from projections.sub_groups import SubGroupKey, SubGroups, TopologyConstraint

WAITING: Final = "Pending"
INQUEUE: Final = "Inqueue"
RUNS: Final = "Running"
UNSURE: Final = "Unknown"
COMPLETED: Final = "Completed"

PHASES: Final = (WAITING, INQUEUE, RUNS, UNSURE, COMPLETED)
"""The phases of a PodGroup."""

SELECTING_OWNERS: Final = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""Kinds of owners whose selector is for their own pods alone."""
GANG_SIZE_MISMATCH: Final = "GANG_SIZE_MISMATCH"
GANG_PRIORITY_MISMATCH: Final = "GANG_PRIORITY_MISMATCH"
"""Codes of a gang whose pods do not agree."""

KeyT = TypeVar("KeyT", str, int)

SHARED_MAX: Final = 4
"""Counts of up to so many keys are shared."""

SHARED_DICTS_MAX: Final = 4096
"""Different dicts that are shared at most."""

EquivalenceKey = tuple[str, tuple[object, ...]]
"""Action and signature: groups with the same signature get the same answer from that action."""

DeviceJob = tuple[Labels, int, tuple[tuple[int, int], ...]]
"""What device families read of a group (`PodGroup.device_job`)."""


UNDECIDED_GROUP: Final = DecidedGroup(WAITING)
"""What was decided about a new group: nothing."""


class PodGroup:
    """A pod group: its rows, what settling found for it, and its pods with their counts.

    Only State changes it, and only through its own version (`PodGroupIndex.own`): forks of State share groups until one of
    them changes.
    """

    __slots__ = (
        "allocated",
        "cached_min_members",
        "classes",
        "counts",
        "decided",
        "denied",
        "fingerprint",
        "has_surplus",
        "held",
        "is_foreign",
        "key",
        "live_classes",
        "observed",
        "owned_count",
        "pending",
        "pending_classes",
        "pods",
        "pods_by_node",
        "priority",
        "queue",
        "ready_by_role",
        "reservation",
        "sub_groups",
        "unnumbered",
        "victim_fingerprint",
    )  # fmt: skip

    COMPARED: ClassVar[tuple[str, ...]] = (
        "owned_count",
        "pending",
        "counts",
        "ready_by_role",
        "classes",
        "live_classes",
        "pending_classes",
        "allocated",
        "held",
        "sub_groups",
        "pods_by_node",
        "cached_min_members",
        "unnumbered",
    )

    sub_groups: SubGroups | None
    """Its sub-groups, if it has a subGroupPolicy."""
    pods_by_node: dict[tuple[SubGroupKey | None, str], int] | None
    """Sub-group and node to the number of charged pods there; None if no topology constraint needs it."""
    cached_min_members: MinMemberSet | None
    """The first `minMember` pods, once pods with unlike requests competed for these places."""
    fingerprint: tuple[object, ...]
    victim_fingerprint: tuple[object, ...]

    def __init__(self, key: str) -> None:
        self.key = key
        """`namespace/name`"""
        self.observed = ObservedGroup(key)
        self.decided = UNDECIDED_GROUP
        self.queue = ""
        self.priority = 0
        self.denied: tuple[str, str] | None = None
        """Code and message of why its namespace may not use its queue or pool; None if it may."""
        self.has_surplus = self.is_foreign = False
        """Whether it has more ready pods than its minimum; whether it belongs to another scheduler
        (`projections/foreign_pod_groups.py`)."""
        self.reservation = NO_RESERVATION
        self.fingerprint = self.victim_fingerprint = ()
        """Fingerprints of what a cycle reads of the group, and of what preemptors read: when one changes, the group
        or its nodes are evaluated again."""
        self.pods: dict[str, Pod] = {}
        """By UID, in the order of observation."""
        self.pending: list[Pod] = []
        """Pending pods, in task order."""
        self.owned_count = self.unnumbered = 0
        """Number of pods that are in the group as pods of its controlling owner, one of `SELECTING_OWNERS`; number of pods
        without a number: if there are any, age decides on the order of pods before numbers do."""
        self.counts = NO_PODS
        """Number of pods by status."""
        self.ready_by_role: dict[str, int] = {}
        """Role to the number of pods that count towards minMember; "" for pods without a role."""
        self.classes: dict[int, PodClass] = {}
        self.live_classes: dict[int, int] = {}
        self.pending_classes: dict[int, int] = {}
        """Class index to the class, for pods that are neither finished nor releasing; to the number of these pods;
        and to the number of its pending pods without best-effort pods."""
        self.allocated: Amounts = {}
        """What its queue is charged for its pods. Not changed in place, because groups of one pod share it."""
        self.held: Amounts = {}
        """Requests of its charged pods, by resource. Not changed in place."""
        self.sub_groups = self.pods_by_node = self.cached_min_members = None

    def observe(self, observed: ObservedGroup) -> None:
        """Set what was observed of the group; its pods are counted by the sub-groups of its object."""
        self.observed, facts = observed, observed.facts
        rules = () if facts is None else facts.sub_group_rules
        had = () if self.sub_groups is None else self.sub_groups.rules
        if rules == had and self._counts_nodes == (self.pods_by_node is not None):
            return
        self.sub_groups = SubGroups(rules) if rules else None
        self._count_sub_groups_again()

    @property
    def _counts_nodes(self) -> bool:
        """Return whether the pods on each node are counted: for a topology constraint, or to spread the pods of an owner."""
        return self.has_topology_constraint or self.owned_count > 0

    def _count_sub_groups_again(self) -> None:
        if self.sub_groups is not None:
            self.sub_groups = SubGroups(self.sub_groups.rules)
        self.pods_by_node = {} if self._counts_nodes else None
        for pod in self.pods.values():
            self._count_sub_group(pod, pod.status, 1)

    def copy(self) -> "PodGroup":
        """Return a copy that can be changed without changing this version. Pods and refusals are shared."""
        twin = PodGroup(self.key)
        for name in _SHARED:
            setattr(twin, name, getattr(self, name))
        for name in _COPIED:
            setattr(twin, name, getattr(self, name).copy())
        if self.sub_groups is not None:
            twin.sub_groups = self.sub_groups.copy()
        if self.pods_by_node is not None:
            twin.pods_by_node = self.pods_by_node.copy()
        if self.cached_min_members is not None:
            twin.cached_min_members = self.cached_min_members.copy()
        return twin

    def rebuilt(self, _cluster: object, /) -> "PodGroup":
        """Count the pods of the group again."""
        twin = PodGroup(self.key)
        twin.observe(self.observed)
        for pod in self.pods.values():
            twin.load_pod(pod)
        if self.cached_min_members is not None:
            live = [pod for pod in self.pods.values() if pod.status not in GONE]
            twin.cached_min_members = self.cached_min_members.rebuilt(live)
        return twin

    @property
    def topology_constraint(self) -> TopologyConstraint | None:
        """Return the network topology constraint of the group; None without one."""
        return None if self.observed.facts is None else self.observed.facts.topology_constraint

    @property
    def has_topology_constraint(self) -> bool:
        """Return whether the group or one of its sub-groups has a network topology constraint."""
        if self.observed.facts is not None and self.observed.facts.topology_constraint is not None:
            return True
        return self.sub_groups is not None and any(
            rule.topology_constraint is not None for rule in self.sub_groups.rules
        )

    @property
    def problem(self) -> tuple[str, str] | None:
        """Return code and message of an error that keeps the group from being considered at all."""
        if self.denied is not None:
            return self.denied
        if self.observed.facts is None:
            if self.observed.needs_object:
                text = f"PodGroup {self.key} does not exist"
                pod = next(iter(self.pods.values()), None)
                if pod is not None and any(key == FOREIGN_GROUP for key, _ in pod.facts.labels):
                    text += f"; a PodGroup of scheduling.x-k8s.io, which label {FOREIGN_GROUP} names, is not supported"
                    return "UnsupportedDemand", text
                return "PodGroupNotFound", text
            return self._disagreement if len(self.pods) > 1 else None
        return (
            ("InvalidPodGroup", self.observed.facts.problem)
            if self.observed.facts.problem
            else None
        )

    @property
    def _disagreement(self) -> tuple[str, str] | None:
        """Return code and message if live pods of a gang that labels make state different minimums or priorities
        (determined 5.2)."""
        first: Pod | None = None
        for pod in self.pods.values():
            if pod.status in GONE:
                continue
            if first is None:
                if not pod.facts.group_name:
                    return None  # Its pods name no group: they are no gang that labels make.
                first = pod
                continue
            one, other = first.facts, pod.facts
            if one.min_member != other.min_member:
                said = (
                    f"pod {first.key} says {one.min_member}, pod {pod.key} says {other.min_member}"
                )
                return GANG_SIZE_MISMATCH, f"its pods state different min-available: {said}"
            if None not in (one.priority, other.priority) and one.priority != other.priority:
                said = f"pod {first.key} has {one.priority}, pod {pod.key} has {other.priority}"
                return GANG_PRIORITY_MISMATCH, f"its pods have different priorities: {said}"
        return None

    @property
    def never_fits(self) -> bool:
        """Return whether a refusal says that its request can never be satisfied."""
        return bool(self.decided.refusals) and any(
            one.never_fits for one in self.decided.refusals.values()
        )

    @property
    def valid_by_role(self) -> Counter[str]:
        """Return role to the number of pods that could still count towards minMember."""
        have = Counter(self.ready_by_role)  # Best-effort pods that wait are among these.
        have.update(pod.facts.role for pod in self.pending if not pod.pod_class.is_best_effort)
        return have

    @property
    def enforced_roles(self) -> dict[str, int]:
        """Return role to its minimum; empty if the sum of these exceeds minMember."""
        if not self.observed.min_tasks:
            return self.observed.min_tasks
        return (
            self.observed.min_tasks
            if sum(self.observed.min_tasks.values()) <= self.observed.min_available
            else {}
        )

    @property
    def is_ready(self) -> bool:
        """Return whether the gang is ready (has its minimum): further pods are bound one at a time."""
        if self.counts.ready < self.observed.min_available:
            return False
        is_plain = self.sub_groups is None and not self.observed.min_tasks
        return is_plain or self.is_ready_with(0, {})

    def is_ready_with(
        self,
        more: int,
        roles: dict[str, int],
        by_sub_group: Mapping[SubGroupKey, int] | None = None,
    ) -> bool:
        """Return whether the gang is ready once `more` pods, `roles` by role and `by_sub_group` by sub-group, have
        nodes."""
        if self.counts.ready + more < self.observed.min_available:
            return False
        if self.sub_groups is not None and not self.sub_groups.are_enough_ready(by_sub_group or {}):
            return False
        if not self.observed.min_tasks:
            return True
        have = self.ready_by_role
        return all(
            have.get(role, 0) + roles.get(role, 0) >= least
            for role, least in self.enforced_roles.items()
        )

    def is_ready_without_waiting(self, placed: Iterable[Pod], evicted: Iterable[Pod] = ()) -> bool:
        """Return whether the gang is ready with `placed` and without `evicted` pods; pending pods do not count, not
        even best-effort pods."""
        more, roles = -self.counts.best_effort, Counter[str]()
        if self.counts.best_effort:
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
        """Return the first `minMember` pods: those that are kept, if they are for the present minimum, else computed."""
        return self._kept_min_members or self._find_min_members()

    def keep_min_members(self) -> None:
        """Keep the first `minMember` pods from now on if pods with unlike requests compete for these places."""
        if len(self.live_classes) < 2 or self._kept_min_members is not None:
            return
        if sum(self.live_classes.values()) > self.observed.min_available:
            unlike = {(one.request, one.cards) for one in self.classes.values()}
            if len(unlike) > 1:
                self.cached_min_members = self._find_min_members()

    @property
    def _kept_min_members(self) -> MinMemberSet | None:
        kept = self.cached_min_members
        if kept is None or not kept.is_for(self.observed.min_available, self.enforced_roles):
            return None
        return kept

    def _find_min_members(self) -> MinMemberSet:
        live = [pod for pod in self.pods.values() if pod.status not in GONE]
        is_by_age = self.unnumbered > 0
        return MinMemberSet(
            self.observed.min_available, self.enforced_roles, live, is_by_age=is_by_age
        )

    @property
    def device_tasks(self) -> tuple[tuple[int, int], ...]:
        """Return class index and number of pods of the classes that ask for devices with names, in order; pods that are
        finished or terminating do not count."""
        asking: list[int] = []
        for index, one in self.classes.items():
            if one.asked_devices:
                asking.append(index)
        if not asking:
            return ()
        return tuple([(index, self.live_classes.get(index, 0)) for index in sorted(asking)])

    @property
    def device_job(self) -> DeviceJob | None:
        """Return what device families read of the group: annotations and labels of its object, how many of its pods are
        terminating while it is below its minimum, and `device_tasks`; None if no pod asks for devices with names."""
        for one in self.classes.values():
            if one.asked_devices:
                break
        else:
            return None
        tasks = self.device_tasks
        terminating = 0 if self.is_ready else self.counts.releasing
        return (
            () if self.observed.facts is None else self.observed.facts.device_options,
            terminating,
            tasks,
        )

    @property
    def has_enough_pods(self) -> bool:
        """Return whether enough pods exist for minMember."""
        return self.counts.valid >= self.observed.min_available

    @property
    def task_key(self) -> Callable[[Pod], SortKey]:
        """Return what gives the sort key of a pod of this group: task order."""
        return _age_key if self.unnumbered else _sort_key

    def add_pod(self, pod: Pod) -> None:
        """Count a pod with its present status."""
        if not pod.facts.is_numbered:
            self._count_unnumbered(1)
        if _is_owned(pod):
            self._count_owned(1)
        self.pods[pod.facts.uid] = pod
        status = pod.status
        self._count(pod, status, 1)
        if self.sub_groups is not None or self.pods_by_node is not None:
            self._count_sub_group(pod, status, 1)
        if status == PENDING:
            insort(self.pending, pod, key=self.task_key)

    def load_pod(self, pod: Pod) -> None:
        """Count a pod with the charge that it has."""
        self.add_pod(pod)
        if pod.status in ALLOCATED:
            self.add_charge(pod.charge or (), 1)

    def add_charge(self, charge: Charge, sign: int) -> None:
        """Add the charge of so many pods, or (negative) remove it."""
        total = _shifted(self.allocated, charge, sign)
        self.allocated = total if all(total.values()) else _without_zeros(total)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod; its status must be the same as when it was added."""
        status = pod.status
        self._count(pod, status, -1)
        self._count_sub_group(pod, status, -1)
        if status == PENDING:
            key = self.task_key
            index = bisect_left(self.pending, key(pod), key=key)
            assert self.pending[index] is pod
            del self.pending[index]
        del self.pods[pod.facts.uid]
        if not pod.facts.is_numbered:
            self._count_unnumbered(-1)
        if _is_owned(pod):
            self._count_owned(-1)

    def _count_owned(self, sign: int) -> None:
        """Add a pod of the group's owner, or (-1) remove it; with the first the pods on each node begin to be counted."""
        self.owned_count += sign
        if self._counts_nodes != (self.pods_by_node is not None):
            self._count_sub_groups_again()

    def _count_unnumbered(self, sign: int) -> None:
        """Add a pod without a number, or (-1) remove it; the first and the last change the order of the others."""
        before, self.unnumbered = self.unnumbered, self.unnumbered + sign
        if bool(before) != bool(self.unnumbered):
            self.pending.sort(key=self.task_key)
            if self.cached_min_members is not None:
                self.cached_min_members = self._find_min_members()

    def replace_placed(self, old: Pod, new: Pod) -> None:
        """Replace a pod on its node by its new version, which counts the same but for its status."""
        if old.status != new.status:
            self.counts = moved(self.counts, old.status, new.status)
        del self.pods[new.facts.uid]
        self.pods[new.facts.uid] = new

    def replace_pod(self, old: Pod | None, new: Pod | None) -> None:
        """Replace a pod by its new version."""
        if old is not None:
            self.remove_pod(old)
        if new is not None:
            self.add_pod(new)

    def can_bind(self, old: Pod, new: Pod) -> bool:
        """Return whether a pod has got a node and nothing else of it has changed, so that `bind_pods` can count it: all
        live pods of the group are alike, and nothing is counted by sub-group or node."""
        return (
            old.status == PENDING
            and new.status == BINDING
            and new.is_ready
            and old.facts is new.facts
            and old.pod_class is new.pod_class
            and not old.pod_class.is_best_effort
            and len(self.live_classes) == 1
            and self.cached_min_members is None
            and self.sub_groups is None
            and self.pods_by_node is None
        )

    def bind_pods(self, pods: list[tuple[Pod, Pod]]) -> None:
        """Replace pods that wait by versions of them that have nodes: all are counted at once (`can_bind`)."""
        pod_class, count = pods[0][0].pod_class, len(pods)
        self.counts = bound(self.counts, count)
        self.held = _shifted(self.held, pod_class.request, count)
        self.pending_classes = _counted(
            self.pending_classes, pod_class.index, -count, keeps_zero=False
        )
        roles: dict[str, int] = {}
        for old, new in pods:
            uid = old.facts.uid
            del self.pods[uid]
            self.pods[uid] = new
            roles[old.facts.role] = roles.get(old.facts.role, 0) + 1
        for role, more in roles.items():
            self.ready_by_role = _counted(self.ready_by_role, role, more)
        if count == len(self.pending):
            self.pending = []
        elif count == 1:
            key = self.task_key
            del self.pending[bisect_left(self.pending, key(pods[0][0]), key=key)]
        else:
            self.pending = [one for one in self.pending if self.pods[one.facts.uid] is one]

    def exchange_pod(self, pod: Pod) -> None:
        """Put another version of a pod in its place. It counts the same in everything."""
        before = self.pods[pod.facts.uid]
        self.pods[pod.facts.uid] = pod
        if pod.status == PENDING:
            key = self.task_key
            index = bisect_left(self.pending, key(pod), key=key)
            assert self.pending[index] is before
            self.pending[index] = pod

    def _count(self, pod: Pod, status: str, sign: int) -> None:
        free_before = self.counts.best_effort
        self.counts = counted(self.counts, pod, sign)
        if status in ALLOCATED:
            self.held = _shifted(self.held, pod.pod_class.request, sign)
        if pod.is_ready:
            self.ready_by_role = _counted(self.ready_by_role, pod.facts.role, sign)
        if status not in GONE:
            if self.cached_min_members is not None:
                self.cached_min_members.count(pod, sign)
            index = pod.pod_class.index
            self.classes[index] = pod.pod_class
            self.live_classes = _counted(self.live_classes, index, sign, keeps_zero=False)
            if index not in self.live_classes:
                del self.classes[index]
        if status == PENDING:
            if self.counts.best_effort != free_before:
                self.ready_by_role = _counted(self.ready_by_role, pod.facts.role, sign)
            else:
                index = pod.pod_class.index
                self.pending_classes = _counted(self.pending_classes, index, sign, keeps_zero=False)

    def _count_sub_group(self, pod: Pod, status: str, sign: int) -> None:
        """Count a pod in its sub-group if it counts towards minMember, and on its node."""
        if self.sub_groups is None and self.pods_by_node is None:
            return
        key = None if self.sub_groups is None else self.sub_groups.key_of(pod.facts.labels)
        is_free = status == PENDING and pod.pod_class.is_best_effort
        if self.sub_groups is not None and key is not None and (pod.is_ready or is_free):
            self.sub_groups.count(key, sign)
        if self.pods_by_node is not None and status in ALLOCATED:
            place = (key, pod.node)
            self.pods_by_node[place] = self.pods_by_node.get(place, 0) + sign
            if not self.pods_by_node[place]:
                del self.pods_by_node[place]

    def next_phase(self) -> str:
        """Return the phase that follows from pods and refusals (volcano A.2).

        A gang whose last pods are binding or nominated keeps its phase until they are observed on their nodes.
        """
        if self.is_foreign:
            return (self.observed.facts.phase if self.observed.facts else "") or WAITING
        counts = self.counts
        scheduled = counts.scheduled
        if counts.running and self.is_stuck:
            return UNSURE
        if scheduled and scheduled >= self.observed.min_available:
            return COMPLETED if scheduled == counts.finished else RUNS
        placed = counts.ready > counts.best_effort
        if (placed or self.decided.nominations) and self.is_ready_with_nominated:
            return self.decided.phase
        if self.has_ended:
            return COMPLETED
        return WAITING if self.decided.phase in (RUNS, UNSURE, COMPLETED) else self.decided.phase

    @property
    def has_ended(self) -> bool:
        """Return whether the group ran, and only finished pods are left of it, or none after it was completed.

        Unlike in Volcano it is then not admitted again before it has pods: its PodGroup may outlive the job for long. A
        controller that makes pods for an admitted group makes them, since the phase is not Pending.
        """
        if self.live_classes or self.counts.releasing:
            return False
        if self.decided.phase == COMPLETED:
            return True
        if self.decided.phase in (RUNS, UNSURE):
            return bool(self.pods)
        return bool(self.counts.ended_well) and self.observed.facts is not None

    @property
    def is_ready_with_nominated(self) -> bool:
        """Return whether the gang is ready with its nominated pods; pending best-effort pods do not count."""
        if not self.decided.nominations and not self.counts.best_effort:
            return self.is_ready
        return self.is_ready_without_waiting(self.pods[uid] for uid in self.decided.nominations)

    @property
    def is_stuck(self) -> bool:
        """Return whether the gang is not ready and ran before, or its pending pods were refused or only nominated."""
        if self.is_ready or self.is_filled_by_terminating:
            return False
        if self.pending and (self.decided.nominations or self.decided.refusals):
            return True
        # The object may be listed before its pods: then use its phase.
        has_run = self.decided.phase in (RUNS, UNSURE) or self.decided.listed_phase in (
            RUNS,
            UNSURE,
        )
        return has_run and (
            bool(self.pending) or self.counts.scheduled < self.observed.min_available
        )

    @property
    def is_filled_by_terminating(self) -> bool:
        """Return whether the gang has its minimum only as long as its terminating pods are there."""
        if not self.counts.releasing or self.is_ready:
            return False
        return self.counts.scheduled >= self.observed.min_available

    @property
    def is_broken(self) -> bool:
        """Return whether the gang has fallen below its minimum without pending pods, so that it cannot become ready
        by itself."""
        if self.is_foreign or self.pending or self.is_ready:
            return False
        return 0 < self.counts.scheduled < self.observed.min_available

    @property
    def main_refusal(self) -> Refusal | None:
        """Return the refusal that is shown for the group; refusals of evicting actions come last."""
        refusals = self.decided.refusals.values()
        return min(refusals, key=lambda one: one.code in EVICTION_CODES, default=None)

    @property
    def status_now(self) -> Status:
        """Return the status that its object should have."""
        counts = self.counts
        return self.decided.phase, counts.running, counts.succeeded, counts.failed


_COPIED: Final = (
    "pods",
    "pending",
    "ready_by_role",
    "classes",
    "live_classes",
    "pending_classes",
    "allocated",
    "held",
)
"""Attributes that are lists or dicts."""

_SHARED: Final = tuple(
    one
    for one in PodGroup.__slots__
    if one
    not in (
        *_COPIED,
        *("key", "sub_groups", "pods_by_node", "cached_min_members"),
    )
)
"""Attributes with values that are not changed in place."""


def _is_owned(pod: Pod) -> bool:
    """Return whether a pod is in its group as one of the pods that the selector of its owner selects."""
    owner = pod.facts.owner
    return owner is not None and owner.kind in SELECTING_OWNERS and not pod.facts.group_name


_SHARED_DICTS: Final[dict[object, object]] = {}
"""Items to a dict of these items, which no group changes in place: most groups have one pod, and few are different."""


def _shared_dict(items: dict[KeyT, int]) -> dict[KeyT, int]:
    """Return an equal dict that other groups may have, too."""
    key = tuple(items.items())
    found = _SHARED_DICTS.get(key)
    if found != items:
        if len(_SHARED_DICTS) >= SHARED_DICTS_MAX:
            _SHARED_DICTS.clear()
        _SHARED_DICTS[key] = found = items
    return found


def _shifted(amounts: Amounts, charge: Charge, sign: int) -> Amounts:
    """Return the amounts with so many times a charge added, or (negative) removed."""
    if not amounts and sign == 1:
        return _shared_dict(dict(charge))
    total = amounts.copy()
    for name, amount in charge:
        total[name] = total.get(name, 0) + sign * amount
    return total


def _without_zeros(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if amount}


def _counted(
    counts: dict[KeyT, int], key: KeyT, count: int, *, keeps_zero: bool = True
) -> dict[KeyT, int]:
    """Return the counts with so many more of a key, or (negative) so many less. Small ones are shared by all groups with
    equal counts, and not changed in place."""
    is_large = len(counts) > SHARED_MAX
    total = counts if is_large else counts.copy()
    left = total[key] = total.get(key, 0) + count
    if not left and not keeps_zero:
        del total[key]
    return total if len(total) > SHARED_MAX else _shared_dict(total)


_sort_key: Final[Callable[[Pod], SortKey]] = attrgetter("sort_key")
_age_key: Final[Callable[[Pod], SortKey]] = attrgetter("age_key")
"""Return the place of a pod in task order."""
