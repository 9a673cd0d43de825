"""Lines: groups of one queue that an action answers alike, in the order in which they are served.

What holds for the first in a line holds for all behind it, as nothing is given back within a cycle. So a
cycle looks at the head of a line, not at everyone who waits in it.
"""

from bisect import bisect_left, insort

from projections.pod_groups import EquivalenceKey, PodGroup

Order = tuple[object, ...]


class EquivalenceGroup:
    """The groups of one line, first served first."""

    __slots__ = ("jobs", "key", "queue")

    def __init__(self, queue: str, key: EquivalenceKey) -> None:
        self.queue = queue
        self.key = key
        self.jobs: list[tuple[Order, PodGroup]] = []

    @property
    def action(self) -> str:
        """The action it waits for."""
        return self.key[0]

    @property
    def head(self) -> PodGroup:
        """Who is served first."""
        return self.jobs[0][1]

    def is_head(self, group: PodGroup) -> bool:
        """Whether the group is first: a decision may have put it into another line."""
        return bool(self.jobs) and self.jobs[0][1] is group


class SchedulingQueue:
    """All lines, by queue."""

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[EquivalenceKey, EquivalenceGroup]] = {}
        self._entries: dict[str, tuple[Order, list[EquivalenceGroup]]] = {}

    def of(self, group: PodGroup) -> list[EquivalenceGroup]:
        """The lines a group stands in."""
        standing = self._entries.get(group.key)
        return [] if standing is None else standing[1]

    def place(self, group: PodGroup, order: Order, keys: tuple[EquivalenceKey, ...]) -> None:
        """Let a group stand in these lines and no others."""
        standing = self._entries.get(group.key)
        if standing is not None:
            same = [
                (equivalence_group.queue, equivalence_group.key)
                for equivalence_group in standing[1]
            ]
            if standing[0] == order and same == [(group.queue, key) for key in keys]:
                return
            self.remove(group)
        if not keys:
            return
        lines = self.by_queue.setdefault(group.queue, {})
        joined = []
        for key in keys:
            equivalence_group = lines.get(key)
            if equivalence_group is None:
                equivalence_group = lines[key] = EquivalenceGroup(group.queue, key)
            insort(equivalence_group.jobs, (order, group), key=_order)
            joined.append(equivalence_group)
        self._entries[group.key] = (order, joined)

    def remove(self, group: PodGroup) -> None:
        """Take a group out of its lines."""
        standing = self._entries.pop(group.key, None)
        if standing is None:
            return
        order, lines = standing
        for equivalence_group in lines:
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
