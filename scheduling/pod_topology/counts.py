"""Tallies: how many pods of a kind stand on each node, without counting all of them again.

Counted are pods that take room on a node, and those that a trial has put there so far. `there` counts
everyone, `staying` leaves out who is leaving, or would have to by the trial; `expected` are pods of other
groups that are promised room there.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster
from projections.nodes import Node
from projections.pods import RELEASING, Pod

Count: TypeAlias = Callable[[Pod], int]
"""How much a pod counts; 0 for one that is not of the kind."""


class Tally:
    """The pods of one kind, slot by slot."""

    def __init__(self, cluster: Cluster, count: Count) -> None:
        self._cluster = cluster
        self._count = count
        self._moved = 0
        self.there: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.staying = self.expected = self.there
        self._count_all()

    def refresh(self) -> None:
        """Count again on the nodes where something moved."""
        table = self._cluster.nodes
        moved = table.changed_slots[self._moved :]
        if not moved:
            return
        slots = dict.fromkeys(moved)
        self._moved = len(table.changed_slots)
        for slot in slots:
            found = self._on(table.order[slot])
            self.there[slot], self.staying[slot], self.expected[slot] = found

    def sure(self, *, later: bool) -> npt.NDArray[np.int64]:
        """Those that can be counted on: who is there, or (later) who stays and who is expected."""
        return self.staying + self.expected if later else self.there

    def possible(self, *, later: bool) -> npt.NDArray[np.int64]:
        """Those that must be reckoned with: the same, and who is expected in any case."""
        return (self.staying if later else self.there) + self.expected

    def _count_all(self) -> None:
        order = self._cluster.nodes.order
        self._moved = len(self._cluster.nodes.changed_slots)
        counts = np.array([self._on(node) for node in order], dtype=np.int64).reshape(-1, 3)
        self.there, self.staying, self.expected = (counts[:, one].copy() for one in range(3))

    def _on(self, node: Node) -> tuple[int, int, int]:
        if not (node.pods or node.overlay_added or node.nominated_pods):
            return 0, 0, 0
        pods, going = self._cluster.pods, node.overlay_removed
        there = staying = 0
        for uid in node.pods:
            pod = pods[uid]
            number = self._count(pod)
            if number:
                there += number
                if uid not in going and pod.status != RELEASING:
                    staying += number
        guests = sum(self._count(pods[uid]) for uid in node.overlay_added)
        expected = sum(self._count(pods[uid]) for uid in node.nominated_pods)
        return there + guests, staying + guests, expected
