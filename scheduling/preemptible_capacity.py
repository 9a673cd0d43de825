"""Upper bounds of what evictions can free, node by node, updated incrementally.

    bound = future + requests of the pods of some queues below some priority

Single plugins, PodDisruptionBudgets and pod annotations are not considered: a node whose bound is too small is
not searched. The bounds only save time and can be recomputed from State.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from projections.cluster import Cluster
from projections.nodes import SHORT_MAX, Node, Request
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import ALLOCATED
from projections.policy import RECLAIMING
from scheduling.quota.reclaiming import DonorQueues
from scheduling.victim_eligibility import needs_surplus, priority_bound

COLUMNS_MAX: Final = 256
"""Maximum number of cached columns; beyond it all are dropped."""

PreemptibleByQueue: TypeAlias = dict[tuple[str, int, bool], Amounts]
"""(queue, priority, whether the group has more pods than minMember) to what its pods on a node request."""


class VictimScope(Struct, frozen=True):
    """The pods that an action may evict for a preemptor."""

    queues: tuple[str, ...]
    bound: int | None
    """Only pods of groups below this priority; None for no bound."""
    surplus_only: bool
    """True if only groups with more pods than minMember give victims."""


def victim_scope(
    cluster: Cluster, donors: DonorQueues, action: str, queue: str, priority: int
) -> VictimScope:
    """Return the scope of the victims of an action for a group of a queue and a priority."""
    return VictimScope(
        donors.others(queue) if action in RECLAIMING else (queue,),
        priority_bound(cluster, action, priority),
        needs_surplus(cluster, action),
    )


def can_free(
    cluster: Cluster, node: Node, donors: DonorQueues, action: str, group: PodGroup
) -> Callable[[Request], bool]:
    """Return a function that tells whether an action could free a node for a request of a group."""
    by_queue = preemptible_by_queue(cluster, node)
    queues: tuple[str, ...] = (group.queue,)
    if action in RECLAIMING:
        there = dict.fromkeys(queue for queue, *_ in by_queue)
        queues = tuple([one for one in there if one != group.queue and one in donors.names])
    scope = VictimScope(
        queues, priority_bound(cluster, action, group.priority), needs_surplus(cluster, action)
    )
    return lambda request: all(
        _max_free(node, by_queue, scope, name) >= amount for name, amount in request
    )


class PreemptibleCapacity:
    """The bounds of one State."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._layout = -1
        self._read = 0
        self._by_slot: list[PreemptibleByQueue | None] = []
        self._columns: dict[tuple[VictimScope, str], _Column] = {}

    def within(self, scope: VictimScope, request: Request) -> npt.NDArray[np.bool_]:
        """Return the nodes that evictions could free for a request, slot by slot."""
        table = self._cluster.nodes
        if self._layout != table.layout:
            self._layout, self._read = table.layout, len(table.changed_slots)
            self._columns.clear()
            self._by_slot = [None] * len(table.order)
        for slot in table.changed_slots[self._read :]:
            self._by_slot[slot] = None
        self._read = len(table.changed_slots)
        can = np.ones(len(table.order), dtype=np.bool_)
        for name, amount in request:
            can &= self._column(scope, name) >= amount
        return can

    def most(self, scope: VictimScope, name: str) -> npt.NDArray[np.int64]:
        """Return the upper bound of a resource, slot by slot. Do not modify the result."""
        self.within(scope, ())
        return self._column(scope, name)

    def _column(self, scope: VictimScope, name: str) -> npt.NDArray[np.int64]:
        table = self._cluster.nodes
        found = self._columns.get((scope, name))
        if found is None:
            if len(self._columns) >= COLUMNS_MAX:
                self._columns.clear()
            found = self._columns[scope, name] = _Column(len(table.order))
            slots = dict.fromkeys(range(len(table.order)))
        else:
            slots = dict.fromkeys(table.changed_slots[found.moved :])
            slots.update(dict.fromkeys(table.updated_slots[found.remade :]))
        for slot in slots:
            found.values[slot] = self._at(slot, scope, name)
        found.moved, found.remade = len(table.changed_slots), len(table.updated_slots)
        return found.values

    def _at(self, slot: int, scope: VictimScope, name: str) -> int:
        node = self._cluster.nodes.order[slot]
        by_queue = self._by_slot[slot]
        if by_queue is None:
            by_queue = self._by_slot[slot] = preemptible_by_queue(self._cluster, node)
        return _max_free(node, by_queue, scope, name)


class _Column:
    """The bounds of one resource, and the journal position of the node table up to which they are valid."""

    __slots__ = ("moved", "remade", "values")

    def __init__(self, size: int) -> None:
        self.values = np.zeros(size, dtype=np.int64)
        self.moved = self.remade = 0


def _max_free(node: Node, by_queue: PreemptibleByQueue, scope: VictimScope, name: str) -> int:
    most = node.future(name)
    for (queue, priority, has_spare), amounts in by_queue.items():
        if scope.surplus_only and not has_spare:
            continue
        if queue in scope.queues and (scope.bound is None or priority < scope.bound):
            most += amounts.get(name, 0)
    return min(most, SHORT_MAX)


def preemptible_by_queue(cluster: Cluster, node: Node) -> PreemptibleByQueue:
    """Return what the pods of each queue, priority and kind of group on a node request, without protected pods."""
    by_queue: PreemptibleByQueue = {}
    for uid in node.pods:
        pod = cluster.pods[uid]
        group = cluster.groups.get(pod.group_key)
        if group is None or not pod.facts.is_evictable or pod.status not in ALLOCATED:
            continue
        amounts = by_queue.setdefault((group.queue, group.priority, group.has_surplus), {})
        for name, amount in pod.pod_class.request:
            amounts[name] = amounts.get(name, 0) + amount
    return by_queue
