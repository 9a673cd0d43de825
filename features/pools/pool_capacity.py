"""The slots that the tasks of a pool could use: now, or after what runs in the pool has ended (determined 2.3).

Not counted are the slots that pods from outside the pool hold (of other schedulers, or of jobs of other pools that are not
asked to exit), and those of nodes that have been NotReady for longer than the stated time or accept no pods. What tasks
of the pool hold on such nodes counts as long as they run, for their own jobs.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from features.pools.facts import PoolFacts
from features.pools.index import MILLI, PoolIndex, is_slot
from features.pools.tasks import PodSlots, PoolTasks
from projections.cluster import Cluster
from projections.pod_class import PodClass
from projections.pods import ALLOCATED, Pod
from projections.policy.pools import CPU, Pool

REGIONS_MAX = 32
"""Regions of nodes at most; the smallest ones are joined beyond."""

Column = npt.NDArray[np.int64]
Nodes = npt.NDArray[np.bool_]


class PoolCapacity:
    """What pods from outside hold of the nodes of a pool, and what is left for its tasks, slot by slot of the node table."""

    def __init__(self, cluster: Cluster, pool: Pool, tasks: PoolTasks, in_pool: Nodes) -> None:
        self._pool, self._table, self._in_pool = pool, cluster.nodes, in_pool
        self._free = {name: column.copy() for name, column in self._table.free.items()}
        """Free amounts at the beginning of the pass: trials change those of the table."""
        self._leaving = [
            (node.slot, dict(node.releasing))
            for name in self._table.leaving
            if (node := self._table.nodes[name]).slot >= 0
        ]
        """Slots of nodes, and what their pods hold that are terminating."""
        self._outside: dict[str, Column] = {}
        self._own: dict[int, tuple[PodClass, list[int]]] = {}
        """Class of running pods of the pool to the slots of their nodes."""
        self.own_slots: Column = np.zeros(len(self._table.order), dtype=np.int64)
        """Slots that pods of the pool hold on each node."""
        self._count(tasks, _asked(cluster, pool))
        unready = cluster.unready_nodes
        self.is_ready: Nodes = np.array(
            [unready.counts(node.name) for node in self._table.order], dtype=np.bool_
        )
        """Whether a node is ready, or has not been NotReady for long."""
        closed = np.array(
            [node.facts is None or node.facts.unschedulable for node in self._table.order],
            dtype=np.bool_,
        )
        self.is_open: Nodes = in_pool & self.is_ready & ~closed
        """Whether a node of the pool counts, and is not cordoned."""
        self._usable: Column | None = None

    def _count(self, tasks: PoolTasks, others: Iterable[Pod]) -> None:
        slots_of = PodSlots(self._pool).of
        running = (pod for job in tasks.jobs.values() for task in job.running for pod in task.pods)
        nodes = self._table.nodes
        for pods in (running, others):
            for pod in pods:
                node = nodes.get(pod.node)
                if node is None or node.slot < 0:
                    continue
                self._own.setdefault(pod.pod_class.index, (pod.pod_class, []))[1].append(node.slot)
                self.own_slots[node.slot] += slots_of(pod)

    @property
    def slots(self) -> int:
        """Return the slots of the pool: of nodes that are not open those that its tasks hold."""
        counted = np.where(self.is_open, self.usable_slots(), self.own_slots)
        return int(counted[self._in_pool].sum())

    def usable_slots(self) -> Column:
        """Return the slots of each node without those that are held from outside."""
        if self._usable is None:
            self._usable = np.zeros(len(self._table.order), dtype=np.int64)
            for name in self._table.allocatable:
                if is_slot(self._pool, name):
                    left = np.maximum(self.usable(name), 0)
                    self._usable += left // MILLI if name == CPU else left
        return self._usable

    def name_of(self, slot: int) -> str:
        """Return the name of a node."""
        return self._table.order[slot].name

    def usable(self, name: str) -> Column:
        """Return the amount of a resource of each node without what is held from outside."""
        return self._table.allocatable[name] - self._held_outside(name)

    def _held_outside(self, name: str) -> Column:
        known = self._outside.get(name)
        if known is None:
            held = self._table.allocatable[name] - self._free[name]
            for slot, releasing in self._leaving:
                held[slot] -= releasing.get(name, 0)
            for pod_class, slots in self._own.values():
                amount = dict(pod_class.request).get(name, 0)
                if amount:
                    held -= amount * np.bincount(slots, minlength=len(held)).astype(np.int64)
            known = self._outside[name] = np.maximum(held, 0)
        return known


class Region(Struct):
    """Nodes of a pool that the same jobs with waiting tasks may use."""

    nodes: Nodes
    slots: int
    rows: frozenset[int]
    """Which of the rows of `regions` have these nodes."""
    name: str
    """Its first node by name."""


def regions(capacity: PoolCapacity, rows: list[Nodes]) -> list[Region]:
    """Return the nodes that tasks may use, divided by which of them may; the first ones are those that the fewest may use.

    `rows` are the nodes that tasks of one kind may use. Nodes that none may use are in no region.
    """
    if not rows:
        return []
    usable = capacity.usable_slots()
    found: dict[bytes, list[int]] = {}
    packed = np.packbits(np.array(rows, dtype=np.bool_), axis=0)
    for slot in np.flatnonzero(np.logical_or.reduce(rows)).tolist():
        found.setdefault(packed[:, slot].tobytes(), []).append(slot)
    result: list[Region] = []
    for slots in found.values():
        nodes = np.zeros(len(usable), dtype=np.bool_)
        nodes[slots] = True
        users = frozenset([at for at, row in enumerate(rows) if row[slots[0]]])
        name = min(capacity.name_of(slot) for slot in slots)
        result.append(Region(nodes, int(usable[slots].sum()), users, name))
    result.sort(key=lambda one: (-one.slots, one.name))
    for one in result[REGIONS_MAX:]:
        last = result[REGIONS_MAX - 1]
        last.nodes |= one.nodes
        last.slots += one.slots
        last.rows |= one.rows
    del result[REGIONS_MAX:]
    result.sort(key=lambda one: (len(one.rows), one.name))
    return result


def _asked(cluster: Cluster, pool: Pool) -> list[Pod]:
    """Return the running pods of other pools that are asked to exit: what they hold will be free."""
    groups = cluster.indexes.of(PoolIndex).groups
    found = [cluster.pods[uid] for uid in cluster.tables.of(PoolFacts).releases]
    return [
        pod for pod in found if pod.status in ALLOCATED and groups.get(pod.group_key) != pool.name
    ]
