"""Whose turn it is: the order of queues.

Priority first, then the smaller share. The share is the largest of allocated / deserved over what the
queue deserves, and 1 where it deserves nothing; shares are compared by cross-multiplied integers, so that equal is
equal. In a tree, queues
are compared where their ways up from each other part: as the queues there. Under hierarchical `drf` their
shares in its tree count as well, before or after as the policy names the plugins. Last come age, UID, name.
"""

import heapq
from collections.abc import Iterable
from typing import TypeAlias

from projections.cluster import Cluster
from projections.deserved import deserved_of
from projections.queues import Queue
from scheduling.quota.fair_tree import FairKey, FairNode, FairTree

Share = tuple[int, int]
"""Numerator and denominator."""


def share_of(cluster: Cluster, queue: Queue) -> Share:
    """How much of what it deserves a queue has, in the dimension where that is most."""
    deserved = deserved_of(cluster, queue)
    if cluster.policy.quota == "capacity" and not any(deserved.values()):
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


class _LevelKey:
    """A queue among those with the same queue above."""

    __slots__ = ("entitled", "name", "rest", "share")

    def __init__(self, cluster: Cluster, queue: Queue, *, ordered: bool) -> None:
        facts = queue.facts
        self.name = queue.name
        self.share = share_of(cluster, queue) if ordered else (0, 1)
        entitled = (
            facts is not None
            and any(facts.deserved.values())
            and cluster.policy.quota == "capacity"
        )
        self.entitled = entitled and ordered
        created = facts.created_ns if facts else 0
        self.rest = (created, facts.uid if facts else "", queue.name)

    def compare(self, other: "_LevelKey") -> int:
        """Below 0 where this one is sooner; of equal shares one that deserves something is."""
        mine, theirs = self.share[0] * other.share[1], other.share[0] * self.share[1]
        return (mine > theirs) - (mine < theirs) or other.entitled - self.entitled


class QueueSortKey:
    """A queue's place among queues; smaller is sooner."""

    __slots__ = ("_fair", "_order", "_priority", "levels", "queue")

    def __init__(self, cluster: Cluster, queue: Queue, fair: FairTree | None = None) -> None:
        facts, self.queue = queue.facts, queue
        self._order = cluster.policy.queue_order
        ordered = cluster.policy.quota in self._order
        self._priority = -facts.priority if facts and ordered else 0
        self.levels = [_LevelKey(cluster, one, ordered=ordered) for one in reversed(queue.lineage)]
        self._fair = () if fair is None else fair.key(queue)

    def __lt__(self, other: "QueueSortKey") -> bool:
        for plugin in self._order:
            if plugin == "drf":
                if self._fair != other._fair:
                    return self._fair < other._fair
                continue
            mine, theirs = self._at_divergence(other)
            if self._priority != other._priority:
                return self._priority < other._priority
            if sooner := mine.compare(theirs):
                return sooner < 0
        mine, theirs = self._at_divergence(other)
        return (mine.rest, len(self.levels)) < (theirs.rest, len(other.levels))

    def _at_divergence(self, other: "QueueSortKey") -> tuple[_LevelKey, _LevelKey]:
        """Where the ways up of the two queues part; their own places where one is above the other."""
        if self.levels[0].name != other.levels[0].name:
            return self.levels[0], other.levels[0]
        for mine, theirs in zip(self.levels, other.levels, strict=False):
            if mine.name != theirs.name:
                return mine, theirs
        return self.levels[-1], other.levels[-1]


class QueueHeap:
    """The queues that are still to be served, the one whose turn it is first."""

    def __init__(self, cluster: Cluster, names: Iterable[str], fair: FairTree) -> None:
        self._cluster = cluster
        self._fair = fair if cluster.policy.has_fair_tree else None
        self._tree_heap: _TreeHeap | None = None
        self._current: dict[str, QueueSortKey] = {}
        self._heap: list[QueueSortKey] = []
        """All of these, and some that no longer count."""
        if self._fair is not None:
            self._fair.changes()
            if cluster.policy.queue_order[:1] == ("drf",):
                self._tree_heap = _TreeHeap(self._fair)
        for name in names:
            self.add(name)

    def first(self) -> str | None:
        """The queue whose turn it is; None once all are dropped."""
        while (sort_key := self._first()) is not None:
            name = sort_key.queue.name
            if not self._cluster.policy.has_queue_tree or not sort_key < (
                now := self._current_key(name)
            ):
                return name
            # What another queue got counts for the queues above both: this one is later.
            self._put(now)
        return None

    def add(self, name: str) -> None:
        """Serve a queue, too."""
        self._put(self._current_key(name))

    def drop(self, name: str) -> None:
        """Be done with a queue."""
        sort_key = self._current.pop(name, None)
        if sort_key is not None and self._tree_heap is not None:
            self._tree_heap.put(sort_key.queue, None)

    def requeue(self, name: str) -> None:
        """Put a queue that had its turn back among the others. In a tree of shares that moves others, too."""
        moved = {name: None} if name in self._current else {}
        if self._fair is not None:
            changed = self._fair.changes()
            if self._tree_heap is not None and changed is not None:
                self._tree_heap.update(changed)
            elif self._tree_heap is not None:
                self._tree_heap = _TreeHeap(self._fair)
                moved = dict.fromkeys(self._current)
            else:
                moved.update(dict.fromkeys(self._below(changed)))
        for one in moved:
            self._put(self._current_key(one))

    def _first(self) -> QueueSortKey | None:
        if self._tree_heap is not None:
            return self._tree_heap.first()
        while self._heap:
            sort_key = self._heap[0]
            if self._current.get(sort_key.queue.name) is sort_key:
                return sort_key
            heapq.heappop(self._heap)
        return None

    def _put(self, sort_key: QueueSortKey) -> None:
        before = self._current.get(sort_key.queue.name)
        self._current[sort_key.queue.name] = sort_key
        if self._tree_heap is not None:
            self._tree_heap.put(sort_key.queue, sort_key)
        elif self._heap and self._heap[0] is before:
            heapq.heapreplace(self._heap, sort_key)
        else:
            heapq.heappush(self._heap, sort_key)

    def _below(self, changed: dict[FairNode, None] | None) -> list[str]:
        """The queues still to be served below nodes that changed; all where it is not known which did."""
        assert self._fair is not None
        found: list[str] = []
        for name, sort_key in self._current.items():
            way = self._fair.node(sort_key.queue).path_to_root()
            if changed is None or any(node in changed for node in way):
                found.append(name)
        return found

    def _current_key(self, name: str) -> QueueSortKey:
        fair = self._fair if self._tree_heap is None else None
        return QueueSortKey(self._cluster, self._cluster.queue(name), fair)


Offer: TypeAlias = tuple[FairKey, QueueSortKey, int]
"""The ranks on the way down to a queue, its turn, and a number by which an offer is known from later ones."""


class _TreeHeap:
    """Queues that wait, in the tree of shares. Each node offers its first queue to the node above.

    Queues are compared by their ranks level by level. So the first queue below a node stays the first of
    them whatever changes elsewhere, and a change is passed on along one way up.
    """

    def __init__(self, fair: FairTree) -> None:
        self._fair = fair
        self._count = 0
        self._sort_keys: dict[FairNode, dict[str, QueueSortKey]] = {}
        self._heaps: dict[FairNode | None, list[tuple[FairKey, QueueSortKey, int, FairNode]]] = {}
        self._offers: dict[FairNode, Offer] = {}

    def first(self) -> QueueSortKey | None:
        """The first of all queues."""
        best = self._best_below(None)
        return None if best is None else best[1]

    def put(self, queue: Queue, sort_key: QueueSortKey | None) -> None:
        """Let a queue wait with this turn, or (None) no longer."""
        node = self._fair.node(queue)
        sort_keys = self._sort_keys.setdefault(node, {})
        if sort_key is None:
            sort_keys.pop(queue.name, None)
        else:
            sort_keys[queue.name] = sort_key
        self.update({node: None})

    def update(self, changed: Iterable[FairNode]) -> None:
        """The ranks of these nodes are others now, or what waits at them is."""
        levels: dict[int, dict[FairNode, None]] = {}
        for node in changed:
            levels.setdefault(node.level, {})[node] = None
        for level in range(max(levels, default=0), 0, -1):
            for node in levels.get(level, {}):
                self._offer(node)
                if node.above is not None and node.above.level:
                    levels.setdefault(level - 1, {})[node.above] = None

    def _offer(self, node: FairNode) -> None:
        """Offer the first queue at or below a node to the node above it."""
        above = node.above if node.above is not None and node.above.level else None
        own = min(self._sort_keys.get(node, {}).values(), default=None)
        best = ((), own) if own is not None else self._best_below(node)
        if best is None:
            self._offers.pop(node, None)
            return
        self._count += 1
        key: FairKey = (node.rank, *best[0])
        self._offers[node] = (key, best[1], self._count)
        heapq.heappush(self._heaps.setdefault(above, []), (key, best[1], self._count, node))

    def _best_below(self, node: FairNode | None) -> tuple[FairKey, QueueSortKey] | None:
        heap = self._heaps.get(node, [])
        while heap:
            key, sort_key, number, child = heap[0]
            offer = self._offers.get(child)
            if offer is not None and offer[2] == number:
                return key, sort_key
            heapq.heappop(heap)
        return None
