"""Keep equivalent pod groups of a queue together, in the order in which an action serves them.

A refusal of the first group holds for all groups of the same equivalence group, because nothing is released within
a cycle. So a cycle evaluates only the first.
"""

from bisect import bisect_left, insort

from projections.pod_groups import EquivalenceKey, PodGroup

Order = tuple[object, ...]


class EquivalenceGroup:
    """Pod groups of one queue that get the same answer from an action, first served first."""

    __slots__ = ("jobs", "key", "queue")

    def __init__(self, queue: str, key: EquivalenceKey) -> None:
        self.queue = queue
        self.key = key
        self.jobs: list[tuple[Order, PodGroup]] = []

    @property
    def action(self) -> str:
        """Return the action for which the groups wait."""
        return self.key[0]

    @property
    def head(self) -> PodGroup:
        """Return the group that is served first."""
        return self.jobs[0][1]

    def is_head(self, group: PodGroup) -> bool:
        """Return whether the group is still first: a decision may have moved it."""
        return bool(self.jobs) and self.jobs[0][1] is group


class SchedulingQueue:
    """All equivalence groups, by queue."""

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[EquivalenceKey, EquivalenceGroup]] = {}
        self._entries: dict[str, tuple[Order, list[EquivalenceGroup]]] = {}

    def of(self, group: PodGroup) -> list[EquivalenceGroup]:
        """Return the equivalence groups of a pod group."""
        entry = self._entries.get(group.key)
        return [] if entry is None else entry[1]

    def place(self, group: PodGroup, order: Order, keys: tuple[EquivalenceKey, ...]) -> None:
        """Put a group under exactly these keys."""
        entry = self._entries.get(group.key)
        if entry is not None:
            same = [
                (equivalence_group.queue, equivalence_group.key) for equivalence_group in entry[1]
            ]
            if entry[0] == order and same == [(group.queue, key) for key in keys]:
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
            insort(equivalence_group.jobs, (order, group), key=_order)
            joined.append(equivalence_group)
        self._entries[group.key] = (order, joined)

    def remove(self, group: PodGroup) -> None:
        """Remove a group from its equivalence groups."""
        entry = self._entries.pop(group.key, None)
        if entry is None:
            return
        order, equivalence_groups = entry
        for equivalence_group in equivalence_groups:
            index = bisect_left(equivalence_group.jobs, order, key=_order)
            assert equivalence_group.jobs[index][1] is group
            del equivalence_group.jobs[index]
            if not equivalence_group.jobs:
                of_queue = self.by_queue[equivalence_group.queue]
                del of_queue[equivalence_group.key]
                if not of_queue:
                    del self.by_queue[equivalence_group.queue]


def _order(job: tuple[Order, PodGroup]) -> Order:
    return job[0]
