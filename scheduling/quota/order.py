"""Whose turn it is: the order of queues.

Priority first, then the smaller share. The share is the largest of allocated / deserved over what the
queue deserves; shares are compared by cross-multiplied integers, so that equal is equal. In a tree, queues
are compared where their ways up from each other part: as the queues there. Under hierarchical `drf` their
shares in its tree count as well, before or after as the policy names the plugins. Last come age, UID, name.
"""

import heapq
from collections.abc import Iterable

from projections.cluster import Cluster
from projections.entitlement import deserved_of
from projections.queues import Queue
from scheduling.quota.fair_tree import FairTree

Share = tuple[int, int]
"""Numerator and denominator."""


def share_of(cluster: Cluster, queue: Queue) -> Share:
    """How much of what it deserves a queue has, in the dimension where that is most."""
    deserved = deserved_of(cluster, queue)
    if not deserved and cluster.policy.quota == "capacity":
        return (1, 1)
    best: Share = (0, 1)
    for name, entitled in deserved.items():
        allocated = queue.sum_of("allocated", name)
        if not entitled:
            # Of what it does not deserve it has all as soon as it has any.
            allocated, entitled = int(allocated > 0), 1
        if allocated * best[1] > best[0] * entitled:
            best = (allocated, entitled)
    return best


class _Step:
    """A queue among those with the same queue above."""

    __slots__ = ("entitled", "name", "rest", "share")

    def __init__(self, cluster: Cluster, queue: Queue, *, ordered: bool) -> None:
        facts = queue.facts
        self.name = queue.name
        self.share = share_of(cluster, queue) if ordered else (0, 1)
        entitled = bool(facts and facts.deserved) and cluster.policy.quota == "capacity"
        self.entitled = entitled and ordered
        created = facts.created_ns if facts else 0
        self.rest = (created, facts.uid if facts else "", queue.name)

    def against(self, other: "_Step") -> int:
        """Below 0 where this one is sooner; of equal shares one that deserves something is."""
        mine, theirs = self.share[0] * other.share[1], other.share[0] * self.share[1]
        return (mine > theirs) - (mine < theirs) or other.entitled - self.entitled


class Turn:
    """A queue's place among queues; smaller is sooner."""

    __slots__ = ("_fair", "_order", "_priority", "queue", "steps")

    def __init__(self, cluster: Cluster, queue: Queue, fair: FairTree | None = None) -> None:
        facts, self.queue = queue.facts, queue
        self._order = cluster.policy.queue_order
        ordered = cluster.policy.quota in self._order
        self._priority = -facts.priority if facts and ordered else 0
        self.steps = [_Step(cluster, one, ordered=ordered) for one in reversed(queue.lineage)]
        self._fair = () if fair is None else fair.key(queue)

    def __lt__(self, other: "Turn") -> bool:
        for plugin in self._order:
            if plugin == "drf":
                if self._fair != other._fair:
                    return self._fair < other._fair
                continue
            mine, theirs = self._parting(other)
            if self._priority != other._priority:
                return self._priority < other._priority
            if sooner := mine.against(theirs):
                return sooner < 0
        mine, theirs = self._parting(other)
        return (mine.rest, len(self.steps)) < (theirs.rest, len(other.steps))

    def _parting(self, other: "Turn") -> tuple[_Step, _Step]:
        """Where the ways up of the two queues part; their own places where one is above the other."""
        if self.steps[0].name != other.steps[0].name:
            return self.steps[0], other.steps[0]
        for mine, theirs in zip(self.steps, other.steps, strict=False):
            if mine.name != theirs.name:
                return mine, theirs
        return self.steps[-1], other.steps[-1]


class Turns:
    """The queues that are still to be served, the one whose turn it is first."""

    def __init__(self, cluster: Cluster, names: Iterable[str]) -> None:
        self._cluster = cluster
        self._fair = FairTree(cluster) if cluster.policy.has_fair_tree else None
        self._current = {name: Turn(cluster, cluster.queue(name), self._fair) for name in names}
        self._heap = list(self._current.values())
        """All of these, and some that no longer count."""
        heapq.heapify(self._heap)

    def first(self) -> str | None:
        """The queue whose turn it is; None once all are dropped."""
        while self._heap:
            turn = self._heap[0]
            name = turn.queue.name
            if self._current.get(name) is not turn:
                heapq.heappop(self._heap)
            elif self._cluster.policy.has_queue_tree and turn < (now := self._now(name)):
                # What another queue got counts for the queues above both: this one is later.
                self._current[name] = now
                heapq.heapreplace(self._heap, now)
            else:
                return name
        return None

    def drop(self, name: str) -> None:
        """Be done with a queue."""
        self._current.pop(name, None)

    def served(self, name: str) -> None:
        """Put a queue that had its turn back among the others. In a tree of shares that moves others, too."""
        moved = [name]
        if self._fair is not None:
            moved = [one for one in self._fair.refresh(name) if one in self._current]
        for one in moved:
            before, now = self._current[one], self._now(one)
            self._current[one] = now
            if self._heap and self._heap[0] is before:
                heapq.heapreplace(self._heap, now)
            else:
                heapq.heappush(self._heap, now)

    def _now(self, name: str) -> Turn:
        return Turn(self._cluster, self._cluster.queue(name), self._fair)
