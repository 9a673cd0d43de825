"""The order of queues.

Priority first, then the smaller share. The share is the largest allocated / deserved over the resources that the
queue deserves, and 1 if it deserves nothing; shares are compared by cross-multiplied integers, so that equal
shares compare equal. In a tree, queues are compared where their paths diverge: as their ancestors there. Under
hierarchical `drf` their shares in its tree count as well, before or after, in the policy's order of plugins. Last
come age and name.
"""

import heapq
from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

from projections.cluster import Cluster
from projections.plugin import Plugin
from projections.queues import Queue
from scheduling.quota.fair_tree import FairKey, FairNode, FairTree
from scheduling.quota.ledger_journal import LedgerJournal
from scheduling.quota.quota_rules import QuotaRules, quota_of


class QueueKey(Protocol):
    """The value by which a plugin sorts a queue."""

    def compare(self, other: "QueueKey") -> int:
        """Return a negative number if this queue comes first, a positive one if the other does."""


class QueueOrder(Plugin):
    """Hook: the order of queues."""

    FLAG = "enableQueueOrder"
    keeps_fair_tree: bool = False
    """Whether queues are compared by their places in the tree of shares (`scheduling/quota/fair_tree.py`)."""

    @abstractmethod
    def queue_key(self, cluster: Cluster, fair: FairTree | None, queue: Queue) -> QueueKey:
        """Return the value by which a queue is sorted. `fair` is the tree of shares, if one is kept."""


def keeps_fair_tree(cluster: Cluster) -> bool:
    """Return whether queues are compared by their places in a tree of shares."""
    return any(isinstance(one, QueueOrder) and one.keeps_fair_tree for one in cluster.plugins.all)


class _LevelKey:
    """The sort key of a queue among its siblings."""

    __slots__ = ("comes_before_equals", "share")

    def __init__(self, cluster: Cluster, queue: Queue) -> None:
        rules = quota_of(cluster)
        self.share = rules.share(cluster, queue)
        self.comes_before_equals = rules.comes_before_equals(cluster, queue)

    def compare(self, other: "_LevelKey") -> int:
        """Return a negative number if this one comes first; of equal shares, the queue that deserves something does."""
        mine, theirs = self.share[0] * other.share[1], other.share[0] * self.share[1]
        return (mine > theirs) - (mine < theirs) or (
            other.comes_before_equals - self.comes_before_equals
        )


class QuotaQueueKey:
    """Sort key of a queue by a quota plugin: its priority, then its share where the paths of two queues diverge."""

    __slots__ = ("levels", "path", "priority")

    def __init__(self, cluster: Cluster, queue: Queue) -> None:
        self.priority = -queue.facts.priority if queue.facts else 0
        if queue.parent is None:
            self.path, self.levels = [queue.name], [_LevelKey(cluster, queue)]
            return
        lineage = queue.lineage[::-1]
        self.path = [one.name for one in lineage]
        self.levels = [_LevelKey(cluster, one) for one in lineage]

    def compare(self, other: QueueKey) -> int:
        """Return a negative number if this queue comes first."""
        assert isinstance(other, QuotaQueueKey)
        if self.priority != other.priority:
            return self.priority - other.priority
        mine, theirs = diverging(self.path, other.path)
        return self.levels[mine].compare(other.levels[theirs])


def diverging(ours: Sequence[str], others: Sequence[str]) -> tuple[int, int]:
    """Return where two paths of queues diverge, as an index into each; the ends if one contains the other."""
    if ours[0] != others[0]:
        return 0, 0
    for index, (mine, theirs) in enumerate(zip(ours, others, strict=False)):
        if mine != theirs:
            return index, index
    return len(ours) - 1, len(others) - 1


class QueueSortKey:
    """The sort key of a queue; smaller comes first."""

    __slots__ = ("_ages", "_keys", "_path", "queue")

    def __init__(self, cluster: Cluster, queue: Queue, fair: FairTree | None = None) -> None:
        self.queue = queue
        self._keys = [one.queue_key(cluster, fair, queue) for one in cluster.plugins.of(QueueOrder)]
        lineage = queue.lineage[::-1]
        self._path = [one.name for one in lineage]
        self._ages = [_age(one) for one in lineage]

    def __lt__(self, other: "QueueSortKey") -> bool:
        for mine, theirs in zip(self._keys, other._keys, strict=True):
            if sooner := mine.compare(theirs):
                return sooner < 0
        ours, others = diverging(self._path, other._path)
        return (self._ages[ours], len(self._path)) < (other._ages[others], len(other._path))


def _age(queue: Queue) -> tuple[int, str]:
    return (queue.facts.created_ns if queue.facts else 0, queue.name)


PlainKey: TypeAlias = tuple[int, int, bool, int, str]
"""Priority (the highest first), share, whether the queue deserves nothing, age, name."""

SHARE_BITS: Final = 160
"""Binary places of a share that is written as one whole number. Two unequal fractions with denominators below 2**80 differ
by more than 2**-160, so that their numbers differ in the same direction; equal fractions have equal numbers."""


class QueueOrderIndex:
    """All queues in order, kept up from the journal of changed ledgers.

    Only where the key of a queue depends on its own ledger, its object and what queues deserve: neither in a tree of
    queues nor with plugins other than that of quotas. Then the key is a tuple of numbers, computed when the ledger changes.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._journal = LedgerJournal(cluster)
        self._order: list[PlainKey] = []
        self._keys: dict[str, PlainKey] = {}
        self._rules: QuotaRules | None = None

    @property
    def is_usable(self) -> bool:
        """Return True if the order of queues depends on nothing else under the policy in force."""
        plugins = self._cluster.plugins
        return not plugins.quota.keeps_tree and all(
            isinstance(one, QuotaRules) for one in plugins.of(QueueOrder)
        )

    def among(self, names: Collection[str]) -> list[PlainKey]:
        """Return the sort keys of these queues, in order."""
        self._refresh()
        if len(names) * 8 < len(self._order):
            return sorted([self._keys[name] for name in names])
        return [one for one in self._order if one[-1] in names]

    def key_of(self, name: str) -> PlainKey:
        """Return the sort key of a queue as its ledger is now."""
        return plain_key(self._cluster, self._cluster.queues[name], self._rules)

    def audit(self) -> None:
        """Raise AssertionError if the order differs from one that is computed again."""
        if self.is_usable:
            self._refresh()
            kept = [one[-1] for one in self._order]
            again = sorted(
                [QueueSortKey(self._cluster, one) for one in self._cluster.queues.values()]
            )
            counted = [one.queue.name for one in again]
            assert kept == counted, f"order of queues: kept {kept}, counted {counted}"

    def _refresh(self) -> None:
        changed = self._journal.read()
        if changed is None:
            cluster, self._rules = self._cluster, ordering_rules(self._cluster)
            queues = cluster.queues.items()
            self._keys = {name: plain_key(cluster, one, self._rules) for name, one in queues}
            self._order = sorted(self._keys.values())
            return
        for name in changed:
            before, now = self._keys[name], self.key_of(name)
            if before != now:
                self._keys[name] = now
                del self._order[bisect_left(self._order, before)]
                insort(self._order, now)


def ordering_rules(cluster: Cluster) -> QuotaRules | None:
    """Return the quota rules by which queues are ordered where no other plugin does; None if they are not."""
    return quota_of(cluster) if cluster.plugins.of(QueueOrder) else None


def plain_key(cluster: Cluster, queue: Queue, rules: QuotaRules | None) -> PlainKey:
    """Return the sort key of a queue that is in no tree, under the plugin of quotas alone; smaller comes first."""
    priority, created_ns = 0, 0
    if queue.facts is not None:
        priority, created_ns = -queue.facts.priority, queue.facts.created_ns
    if rules is None:
        return 0, 0, False, created_ns, queue.name
    used, deserved = rules.share(cluster, queue)
    share = (used << SHARE_BITS) // deserved
    return priority, share, not rules.comes_before_equals(cluster, queue), created_ns, queue.name


def order_queues(
    cluster: Cluster, names: Collection[str], fair: FairTree, in_order: QueueOrderIndex
) -> "PlainQueueHeap | QueueHeap":
    """Return the heap of these queues."""
    if in_order.is_usable and not keeps_fair_tree(cluster):
        return PlainQueueHeap(in_order, names)
    return QueueHeap(cluster, names, fair)


class PlainQueueHeap:
    """The heap of queues with remaining work where the key of a queue is a tuple of numbers (`QueueOrderIndex`)."""

    def __init__(self, in_order: QueueOrderIndex, names: Collection[str]) -> None:
        self._key_of = in_order.key_of
        self._heap = in_order.among(names)
        """Keys of the queues; may contain stale entries."""
        self._current = {one[-1]: one for one in self._heap}

    def first(self) -> str | None:
        """Return the first queue; None if none is left."""
        heap, current = self._heap, self._current
        while heap:
            name = heap[0][-1]
            if current.get(name) == heap[0]:
                return name
            heapq.heappop(heap)
        return None

    def add(self, name: str) -> None:
        """Add a queue."""
        before, now = self._current.get(name), self._key_of(name)
        if before == now:
            return
        self._current[name] = now
        if self._heap and self._heap[0] == before:
            heapq.heapreplace(self._heap, now)
        else:
            heapq.heappush(self._heap, now)

    def drop(self, name: str) -> None:
        """Remove a queue."""
        self._current.pop(name, None)

    def finish(self, name: str) -> None:
        """Remove a queue after its turn."""
        self._current.pop(name, None)

    def requeue(self, name: str) -> None:
        """Push a queue back after its turn."""
        if name in self._current:
            self.add(name)


class QueueHeap:
    """The heap of queues with remaining work, in a tree of queues or with plugins that order them in other ways."""

    def __init__(self, cluster: Cluster, names: Collection[str], fair: FairTree) -> None:
        self._cluster = cluster
        self._fair = fair if keeps_fair_tree(cluster) else None
        self._tree_heap: _TreeHeap | None = None
        self._current: dict[str, QueueSortKey] = {}
        self._heap: list[QueueSortKey] = []
        """Keys of the queues; may contain stale entries."""
        if self._fair is not None:
            self._fair.changes()
            if any(one.keeps_fair_tree for one in cluster.plugins.of(QueueOrder)[:1]):
                self._tree_heap = _TreeHeap(self._fair)
        for name in names:
            self.add(name)

    def first(self) -> str | None:
        """Return the first queue; None if none is left."""
        while (sort_key := self._first()) is not None:
            name = sort_key.queue.name
            if not self._cluster.plugins.quota.keeps_tree or not sort_key < (
                now := self._current_key(name)
            ):
                return name
            # What another queue got counts for their common ancestors: this queue comes later now.
            self._put(now)
        return None

    def add(self, name: str) -> None:
        """Add a queue."""
        self._put(self._current_key(name))

    def drop(self, name: str) -> None:
        """Remove a queue."""
        sort_key = self._current.pop(name, None)
        if sort_key is not None and self._tree_heap is not None:
            self._tree_heap.put(sort_key.queue, None)

    def finish(self, name: str) -> None:
        """Remove a queue after its turn."""
        if self._fair is None:
            self.drop(name)
        else:
            self.requeue(name)  # Other queues may move.

    def requeue(self, name: str) -> None:
        """Push a queue back after its turn. Under hierarchical `drf` other queues move too."""
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
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _is_current(self, sort_key: QueueSortKey) -> bool:
        return self._current.get(sort_key.queue.name) is sort_key

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
        """Return the remaining queues below changed nodes; all queues if the changes are not known."""
        assert self._fair is not None
        found: list[str] = []
        for name, sort_key in self._current.items():
            way = self._fair.node(sort_key.queue).path_to_root()
            if changed is None or any(node in changed for node in way):
                found.append(name)
        return found

    def _current_key(self, name: str) -> QueueSortKey:
        fair = self._fair if self._tree_heap is None else None
        return QueueSortKey(self._cluster, self._cluster.queues[name], fair)


Offer: TypeAlias = tuple[FairKey, QueueSortKey, int]
"""(ranks on the path down to a queue, its sort key, sequence number that identifies the offer)"""


class _TreeHeap:
    """Queues in the tree of shares. Each node offers its first queue to its parent.

    Queues are compared by their ranks level by level. So the first queue below a node stays first among them
    whatever changes elsewhere, and a change is passed on along one path to the root.
    """

    def __init__(self, fair: FairTree) -> None:
        self._fair = fair
        self._count = 0
        self._sort_keys: dict[FairNode, dict[str, QueueSortKey]] = {}
        self._heaps: dict[FairNode | None, list[tuple[FairKey, QueueSortKey, int, FairNode]]] = {}
        self._offers: dict[FairNode, Offer] = {}

    def first(self) -> QueueSortKey | None:
        """Return the first of all queues."""
        best = self._best_below(None)
        return None if best is None else best[1]

    def put(self, queue: Queue, sort_key: QueueSortKey | None) -> None:
        """Add a queue with this key, or (None) remove it."""
        node = self._fair.node(queue)
        sort_keys = self._sort_keys.setdefault(node, {})
        if sort_key is None:
            sort_keys.pop(queue.name, None)
        else:
            sort_keys[queue.name] = sort_key
        self.update({node: None})

    def update(self, changed: Iterable[FairNode]) -> None:
        """Apply changes of the ranks or queues of these nodes."""
        levels: dict[int, dict[FairNode, None]] = {}
        for node in changed:
            levels.setdefault(node.level, {})[node] = None
        for level in range(max(levels, default=0), 0, -1):
            for node in levels.get(level, {}):
                self._offer(node)
                if node.above is not None and node.above.level:
                    levels.setdefault(level - 1, {})[node.above] = None

    def _offer(self, node: FairNode) -> None:
        """Offer the first queue at or below a node to its parent."""
        above = node.above if node.above is not None and node.above.level else None
        own = min(self._sort_keys.get(node, {}).values(), default=None)
        below = self._best_below(node)
        found = [] if own is None else [(FairKey((node.rank,)), own)]
        found += [] if below is None else [(below[0].below(node.rank), below[1])]
        if not found:
            self._offers.pop(node, None)
            return
        self._count += 1
        key, first = min(found)
        self._offers[node] = (key, first, self._count)
        heapq.heappush(self._heaps.setdefault(above, []), (key, first, self._count, node))

    def _best_below(self, node: FairNode | None) -> tuple[FairKey, QueueSortKey] | None:
        heap = self._heaps.get(node, [])
        while heap:
            key, sort_key, number, child = heap[0]
            offer = self._offers.get(child)
            if offer is not None and offer[2] == number:
                return key, sort_key
            heapq.heappop(heap)
        return None
