"""SuperPoDs: the one in which each node is, as its device report or its annotation states it."""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster
from projections.deltas import NodeChanged
from projections.index import Index
from projections.nodes import NodeFacts, NodeTable

SUPER_POD_RANK: Final = "super-pod-rank"
SUPER_POD_ID: Final = "super-pod-id"
"""Annotations of pods: the number of the logical SuperPoD, and that of the SuperPoD."""


class SuperPods(Index):
    """The SuperPoD of each node."""

    name = "SuperPoDs"
    COMPARED: ClassVar[tuple[str, ...]] = ("of", "sub_healthy")

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        """Node to its SuperPoD; without nodes in none."""
        self.sub_healthy: dict[str, None] = {}
        """Nodes of SuperPoDs with faults that do not stop jobs."""
        self._slots: tuple[int, npt.NDArray[np.int64]] | None = None
        """Layout of the node table, and `slots` of it, while nothing has changed."""

    def rebuilt(self, cluster: Cluster, /) -> SuperPods:
        """Read the SuperPoDs of all nodes again."""
        twin = SuperPods()
        for name, node in cluster.nodes.nodes.items():
            if node.facts is not None and (number := _super_pod_of(node.facts)) >= 0:
                twin.of[name] = number
                if _is_sub_healthy(node.facts):
                    twin.sub_healthy[name] = None
        return twin

    def mark_rows(self, cluster: Cluster) -> None:
        """Mark the rows of all nodes in SuperPoDs as changed."""
        cluster.changed_rows.topology.update(dict.fromkeys(self.of))

    def on_node(self, cluster: Cluster, delta: NodeChanged) -> None:
        """Read the SuperPoD of a node again."""
        facts = delta.new or delta.old
        assert facts is not None
        number = -1 if delta.new is None else _super_pod_of(delta.new)
        self.sub_healthy.pop(facts.name, None)
        if number >= 0 and delta.new is not None and _is_sub_healthy(delta.new):
            self.sub_healthy[facts.name] = None
        if self.of.get(facts.name, -1) == number:
            return
        self._slots = None
        if number < 0:
            del self.of[facts.name]
        else:
            self.of[facts.name] = number

    def slots(self, table: NodeTable) -> npt.NDArray[np.int64]:
        """Return the SuperPoD of each node, slot by slot; -1 for none. Do not modify the result."""
        if self._slots is None or self._slots[0] != table.layout:
            numbers = [self.of.get(node.name, -1) for node in table.order]
            self._slots = (table.layout, np.array(numbers, dtype=np.int64))
        return self._slots[1]


def _super_pod_of(facts: NodeFacts) -> int:
    return max((one.super_pod_id for one in facts.devices.values()), default=-1)


def _is_sub_healthy(facts: NodeFacts) -> bool:
    return any(one.is_sub_healthy for one in facts.devices.values())
