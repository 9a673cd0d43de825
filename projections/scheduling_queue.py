"""Keep equivalent pod groups of a queue together, in the order in which an action serves them.

A refusal of the first group holds for all groups of the same equivalence group, because nothing is released within
a cycle. So a cycle evaluates only the first.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from projections.deltas import PolicyChanged
from projections.group_rows import Refusal
from projections.index import Index
from projections.pod_groups import EquivalenceKey, PodGroup

if TYPE_CHECKING:
    from projections.cluster import Cluster

Order = tuple[object, ...]

_Entry: TypeAlias = tuple[Order, list["EquivalenceGroup"], str, tuple[EquivalenceKey, ...]]
"""Order of a pod group, its equivalence groups, and the queue and the keys of these."""

Standing: TypeAlias = tuple[object, ...]
"""Whether a group has a topology constraint, and what a refusal of it says apart from names and numbers."""

SCANNED_MAX: Final = 8
"""Up to so many groups are scanned; the groups of a larger equivalence group are also kept by their refusals."""


_NOT_REFUSED: Final[dict[bool, Standing]] = {one: (one,) for one in (False, True)}
"""Whether a group has a topology constraint to its standing, if it is not refused."""


def standing(refusal: Refusal | None, *, has_topology: bool) -> Standing:
    """Return the parts of a refusal that are compared: if one of them changes, the refusal is recorded again."""
    if refusal is None:
        return _NOT_REFUSED[has_topology]
    return (
        has_topology,
        refusal.code,
        refusal.limit,
        refusal.never_fits,
        refusal.fits_only_closed_nodes,
        refusal.node_helps,
        refusal.requeue_on,
    )


class EquivalenceGroup:
    """Pod groups of one queue that get the same answer from an action, first served first."""

    __slots__ = ("_standings", "action", "by_refusal", "jobs", "key", "queue")

    COMPARED: ClassVar[tuple[str, ...]] = ("queue", "key", "jobs")

    def __init__(self, queue: str, key: EquivalenceKey) -> None:
        self.queue = queue
        self.key = key
        self.action = key[0]
        """The action for which the groups wait."""
        self.jobs: list[tuple[Order, PodGroup]] = []
        self.by_refusal: dict[Standing, dict[str, tuple[Order, PodGroup]]] = {}
        """Standing to the groups that have it; empty while there are few groups."""
        self._standings: dict[str, Standing] = {}
        """Group to its standing in `by_refusal`."""

    @property
    def head(self) -> PodGroup:
        """Return the group that is served first."""
        return self.jobs[0][1]

    def is_head(self, group: PodGroup) -> bool:
        """Return whether the group is still first: a decision may have moved it."""
        return bool(self.jobs) and self.jobs[0][1].key == group.key

    def standing_of(self, group: PodGroup) -> Standing:
        """Return the standing of a group for the action."""
        if not group.decided.refusals and group.observed.facts is None:
            return _NOT_REFUSED[False]
        refusal = group.decided.refusals.get(self.key[0])
        return standing(refusal, has_topology=group.has_topology_constraint)

    def refused_otherwise(self, same: tuple[Standing, ...]) -> list[PodGroup]:
        """Return the groups whose standings are none of these, in order."""
        if not self.by_refusal:
            return [group for _, group in self.jobs if self.standing_of(group) not in same]
        found = [
            job for key, jobs in self.by_refusal.items() if key not in same for job in jobs.values()
        ]
        return [group for _, group in sorted(found, key=_order)]

    def add(self, order: Order, group: PodGroup) -> None:
        """Add a group."""
        insort(self.jobs, (order, group), key=_order)
        if self.by_refusal:
            self._keep(order, group)
        elif len(self.jobs) > SCANNED_MAX:
            for job in self.jobs:
                self._keep(*job)

    def discard(self, order: Order, group: PodGroup) -> None:
        """Remove a group."""
        index = bisect_left(self.jobs, order, key=_order)
        assert self.jobs[index][1] is group
        del self.jobs[index]
        if self.by_refusal:
            self._drop(group)

    def exchange(self, order: Order, group: PodGroup) -> None:
        """Put another version of a group in its place."""
        index = bisect_left(self.jobs, order, key=_order)
        assert self.jobs[index][1].key == group.key
        self.jobs[index] = (order, group)
        if self.by_refusal:
            self.by_refusal[self._standings[group.key]][group.key] = (order, group)

    def update(self, order: Order, group: PodGroup) -> None:
        """Apply a change of a group's refusal."""
        if self.by_refusal and self._standings[group.key] != self.standing_of(group):
            self._drop(group)
            self._keep(order, group)

    def _keep(self, order: Order, group: PodGroup) -> None:
        key = self._standings[group.key] = self.standing_of(group)
        self.by_refusal.setdefault(key, {})[group.key] = (order, group)

    def _drop(self, group: PodGroup) -> None:
        key = self._standings.pop(group.key)
        jobs = self.by_refusal[key]
        del jobs[group.key]
        if not jobs:
            del self.by_refusal[key]


class SchedulingQueue(Index):
    """All equivalence groups, by queue."""

    name = "scheduling queue"
    COMPARED: ClassVar[tuple[str, ...]] = ("by_queue", "places")

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[EquivalenceKey, EquivalenceGroup]] = {}
        self._entries: dict[str, _Entry] = {}

    @property
    def places(self) -> dict[str, tuple[Order, list[tuple[str, EquivalenceKey]]]]:
        """Return pod group key to its order and the queues and keys under which it waits."""
        return {
            key: (order, [(one.queue, one.key) for one in equivalence_groups])
            for key, (order, equivalence_groups, _, _) in self._entries.items()
        }

    def rebuilt(self, cluster: "Cluster", /) -> "SchedulingQueue":
        """Place all pod groups again."""
        twin = SchedulingQueue()
        for group in cluster.groups.values():
            twin.place(group, *cluster.pod_groups.expected_place(cluster, group))
        return twin

    def rebuild(self, cluster: "Cluster") -> None:
        """Remove all groups: the cluster places them when the indexes that decide their keys are complete."""
        self.by_queue, self._entries = {}, {}

    def on_policy(self, cluster: "Cluster", delta: PolicyChanged) -> None:
        """Remove all groups: the sort key changes, and no new key may be compared with an old one."""
        self.rebuild(cluster)

    def of(self, group: PodGroup) -> list[EquivalenceGroup]:
        """Return the equivalence groups of a pod group."""
        entry = self._entries.get(group.key)
        return [] if entry is None else entry[1]

    def all(self) -> Iterator[EquivalenceGroup]:
        """Yield all equivalence classes."""
        for groups in self.by_queue.values():
            yield from groups.values()

    def of_keys(self, keys: Iterable[str]) -> dict[int, EquivalenceGroup]:
        """Return the equivalence groups of the pod groups with these keys, by identity."""
        entries = self._entries
        found: dict[int, EquivalenceGroup] = {}
        for key in keys:
            if key in entries:
                for one in entries[key][1]:
                    found[id(one)] = one
        return found

    def in_order(self, queue: str, action: str) -> list[PodGroup]:
        """Return the groups of a queue that wait for an action, in the order in which they are served."""
        found = self.by_queue.get(queue, {}).values()
        jobs = [job for one in found if one.action == action for job in one.jobs]
        return [group for _, group in sorted(jobs, key=_order)]

    def place(self, group: PodGroup, order: Order, keys: tuple[EquivalenceKey, ...]) -> None:
        """Put a group under exactly these keys."""
        entry = self._entries.get(group.key)
        if entry is not None:
            if entry[3] == keys and entry[2] == group.queue and entry[0] == order:
                for known in entry[1]:
                    known.update(order, group)
                return
            self.remove(group)
        if not keys:
            return
        equivalence_groups = self.by_queue.setdefault(group.queue, {})
        joined = []
        for key in keys:
            equivalence_group = equivalence_groups.get(key)
            if equivalence_group is None:
                equivalence_group = equivalence_groups[key] = EquivalenceGroup(group.queue, key)
            equivalence_group.add(order, group)
            joined.append(equivalence_group)
        self._entries[group.key] = (order, joined, group.queue, keys)

    def exchange(self, group: PodGroup) -> None:
        """Put another version of a group in its place."""
        entry = self._entries.get(group.key)
        if entry is not None:
            for equivalence_group in entry[1]:
                equivalence_group.exchange(entry[0], group)

    def remove(self, group: PodGroup) -> None:
        """Remove a group from its equivalence groups."""
        entry = self._entries.pop(group.key, None)
        if entry is None:
            return
        for equivalence_group in entry[1]:
            equivalence_group.discard(entry[0], group)
            if not equivalence_group.jobs:
                of_queue = self.by_queue[equivalence_group.queue]
                del of_queue[equivalence_group.key]
                if not of_queue:
                    del self.by_queue[equivalence_group.queue]


_order: Final = itemgetter(0)
"""Returns the order of a group in an equivalence group."""
