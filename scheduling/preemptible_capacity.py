"""Upper bounds of what evictions can free, node by node, updated incrementally.

    bound = future + requests of the pods of some queues below some priority

Single plugins and PodDisruptionBudgets are not considered: a node whose bound is too small is
not searched. The bounds only save time and can be recomputed from State.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct, structs

from projections.cluster import Cluster
from projections.nodes import SHORT_MAX, Node, NodeTable, Request
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import ALLOCATED
from projections.policy.policy import RECLAIMING
from scheduling.quota.reclaiming import DonorQueues
from scheduling.victim_eligibility import eviction_limits

COLUMNS_MAX: Final = 256
"""Maximum number of cached columns; beyond it all are dropped."""

PreemptibleByQueue: TypeAlias = dict[tuple[str, int, bool, bool], Amounts]
"""(queue, priority, whether the group has more pods than minMember, whether its pods are protected) to what its pods on a
node request."""


class VictimScope(Struct, frozen=True):
    """The pods that an action may evict for a preemptor."""

    queues: frozenset[str]
    bound: int | None
    """Only pods of groups below this priority; None for no bound."""
    surplus_only: bool
    """True if only groups with more pods than minMember give victims."""
    without: str = ""
    """A queue that is none of them: that of the preemptor."""
    takes_protected: bool = False
    """True if pods that `volcano.sh/preemptable` protects may be among them."""


class VictimIndex(DonorQueues):
    """The queues that could have anything reclaimable, and what the pods of each queue on a node request."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._position = -1
        self._nodes: dict[str, PreemptibleByQueue] = {}
        """Node to its requests at the position."""

    def scope(
        self, action: str, queue: str, priority: int, *, takes_protected: bool
    ) -> VictimScope:
        """Return the pods that an action may evict for a group of a queue and a priority."""
        limits, is_reclaiming = eviction_limits(self._cluster, action), action in RECLAIMING
        return VictimScope(
            self.all if is_reclaiming else frozenset((queue,)),
            limits.bound(priority),
            limits.needs_surplus,
            queue if is_reclaiming else "",
            takes_protected,
        )

    def can_free(self, node: Node, action: str, group: PodGroup) -> Callable[[Request], bool]:
        """Return a function that tells whether an action could free a node for a request of a group."""
        by_queue = self.on_node(node)
        takes_protected = eviction_limits(self._cluster, action).takes_protected
        scope = self.scope(action, group.queue, group.priority, takes_protected=takes_protected)
        return lambda request: all(
            _max_free(node, by_queue, scope, name) >= amount for name, amount in request
        )

    def on_node(self, node: Node) -> PreemptibleByQueue:
        """Return what the pods of each queue, priority and kind of group on a node request; kept for a position."""
        if self._position != self._cluster.position:
            self._position, self._nodes = self._cluster.position, {}
        found = self._nodes.get(node.name)
        if found is None:
            found = self._nodes[node.name] = preemptible_by_queue(self._cluster, node)
        return found


class PreemptibleCapacity:
    """The bounds of one State."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._layout = -1
        self._read = 0
        self._by_slot: list[PreemptibleByQueue] = []
        self._slots: dict[str, dict[int, None]] = {}
        """Queue to the slots of nodes with pods of it that may be evicted."""
        self._futures: dict[str, _Column] = {}
        """Resource to what nodes will have free without evictions."""
        self._columns: dict[tuple[VictimScope, str], _Column] = {}

    def within(self, scope: VictimScope, request: Request) -> npt.NDArray[np.bool_]:
        """Return the nodes that evictions could free for a request, slot by slot."""
        self._refresh()
        can = np.ones(len(self._by_slot), dtype=np.bool_)
        for name, amount in request:
            can &= self._column(scope, name) >= amount
        return can

    def most(self, scope: VictimScope, name: str) -> npt.NDArray[np.int64]:
        """Return the upper bound of a resource, slot by slot. Do not modify the result."""
        self._refresh()
        return self._column(scope, name)

    def audit(self) -> None:
        """Raise AssertionError if a bound differs from one that is computed again."""
        self._refresh()
        again = PreemptibleCapacity(self._cluster)
        for scope, name in list(self._columns):
            kept, counted = self.most(scope, name), again.most(scope, name)
            assert kept.tolist() == counted.tolist(), f"{scope} {name}: {kept}, not {counted}"

    def _refresh(self) -> None:
        """Apply the changes of nodes since the last call."""
        table = self._cluster.nodes
        slots = dict.fromkeys(table.changed_slots[self._read :])
        if self._layout != table.layout:
            self._layout = table.layout
            self._columns, self._futures, self._slots = {}, {}, {}
            self._by_slot = [{} for _ in table.order]
            slots = dict.fromkeys(range(len(table.order)))
        self._read = len(table.changed_slots)
        for slot in slots:
            for queue, *_ in self._by_slot[slot]:
                self._slots[queue].pop(slot, None)
            by_queue = preemptible_by_queue(self._cluster, table.order[slot])
            self._by_slot[slot] = by_queue
            for queue, *_ in by_queue:
                self._slots.setdefault(queue, {})[slot] = None

    def _column(self, scope: VictimScope, name: str) -> npt.NDArray[np.int64]:
        table = self._cluster.nodes
        found = self._columns.get((scope, name))
        if found is None:
            if len(self._columns) >= COLUMNS_MAX:
                self._columns.clear()
            changed = self._slots.get(scope.without, {})
            if scope.without:
                # What all of them could give is shared by the preemptors of all queues.
                start = self._column(structs.replace(scope, without=""), name)
            else:
                start = self._future(name)
                changed = self._slots_of(scope.queues)
            found = self._columns[scope, name] = _Column(start.copy())
            found.mark_read(table)
        else:
            changed = found.changes(table)
        for slot in changed:
            node = table.order[slot]
            found.values[slot] = _max_free(node, self._by_slot[slot], scope, name)
        return found.values

    def _slots_of(self, queues: frozenset[str]) -> dict[int, None]:
        """Return the slots of nodes with pods of these queues that may be evicted."""
        if len(queues) == 1:
            return self._slots.get(next(iter(queues)), {})
        return {
            slot: None for queue, slots in self._slots.items() if queue in queues for slot in slots
        }

    def _future(self, name: str) -> npt.NDArray[np.int64]:
        """Return what nodes will have free of a resource without evictions, slot by slot."""
        table = self._cluster.nodes
        found = self._futures.get(name)
        if found is None:
            found = self._futures[name] = _Column(np.zeros(len(table.order), dtype=np.int64))
            found.mark_read(table)
            changed = dict.fromkeys(range(len(table.order)))
        else:
            changed = found.changes(table)
        for slot in changed:
            found.values[slot] = min(table.order[slot].future(name), SHORT_MAX)
        return found.values


class _Column:
    """The bounds of one resource, and the journal position of the node table up to which they are valid."""

    __slots__ = ("moved", "remade", "values")

    def __init__(self, values: npt.NDArray[np.int64]) -> None:
        self.values = values
        self.moved = self.remade = 0

    def changes(self, table: NodeTable) -> dict[int, None]:
        """Return the slots that changed since the last call."""
        slots = dict.fromkeys(table.changed_slots[self.moved :])
        slots.update(dict.fromkeys(table.updated_slots[self.remade :]))
        self.mark_read(table)
        return slots

    def mark_read(self, table: NodeTable) -> None:
        """Take all changes so far as applied."""
        self.moved, self.remade = len(table.changed_slots), len(table.updated_slots)


def _max_free(node: Node, by_queue: PreemptibleByQueue, scope: VictimScope, name: str) -> int:
    most = node.future(name)
    for (queue, priority, has_spare, is_protected), amounts in by_queue.items():
        if (scope.surplus_only and not has_spare) or (is_protected and not scope.takes_protected):
            continue
        if queue == scope.without or queue not in scope.queues:
            continue
        if scope.bound is None or priority < scope.bound:
            most += amounts.get(name, 0)
    return min(most, SHORT_MAX)


def preemptible_by_queue(cluster: Cluster, node: Node) -> PreemptibleByQueue:
    """Return what the pods of each queue, priority and kind of group on a node request, without pods that are never
    evicted."""
    by_queue: PreemptibleByQueue = {}
    for uid in node.pods:
        pod = cluster.pods[uid]
        group = cluster.groups.get(pod.group_key)
        if group is None or pod.status not in ALLOCATED:
            continue
        if not pod.facts.is_evictable and not pod.facts.is_protected:
            continue
        key = (group.queue, group.priority, group.has_surplus, pod.facts.is_protected)
        amounts = by_queue.setdefault(key, {})
        for name, amount in pod.pod_class.request:
            amounts[name] = amounts.get(name, 0) + amount
    return by_queue
