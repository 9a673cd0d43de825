"""Number of matching pods on each node, updated incrementally.

Counted are pods that use resources of a node, and those that the trial placed there so far. `present` counts
all of them, `staying` excludes pods that terminate or are victims in the trial; `nominated` are pods of other
groups that are nominated for the node.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster
from projections.nodes import Node
from projections.pods import Pod

Count: TypeAlias = Callable[[Pod], int]
"""Returns how much a pod counts; 0 if it does not match."""


class PodCounts:
    """The number of matching pods, slot by slot."""

    def __init__(self, cluster: Cluster, count: Count) -> None:
        self._cluster = cluster
        self._count = count
        self._moved = 0
        self.present: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.staying = self.nominated = self.present
        self._count_all()

    def refresh(self) -> None:
        """Count again on the nodes that changed."""
        table = self._cluster.nodes
        moved = table.changed_slots[self._moved :]
        if not moved:
            return
        slots = dict.fromkeys(moved)
        self._moved = len(table.changed_slots)
        for slot in slots:
            found = self._on(table.order[slot])
            self.present[slot], self.staying[slot], self.nominated[slot] = found

    def guaranteed(self, *, later: bool) -> npt.NDArray[np.int64]:
        """Return the pods that affinity may rely on: those present, or (later) those staying and those nominated."""
        return self.staying + self.nominated if later else self.present

    def possible(self, *, later: bool) -> npt.NDArray[np.int64]:
        """Return the pods that anti-affinity and ports must consider: the same, and those nominated in any case."""
        return (self.staying if later else self.present) + self.nominated

    def _count_all(self) -> None:
        order = self._cluster.nodes.order
        self._moved = len(self._cluster.nodes.changed_slots)
        counts = np.array([self._on(node) for node in order], dtype=np.int64).reshape(-1, 3)
        self.present, self.staying, self.nominated = (counts[:, one].copy() for one in range(3))

    def _on(self, node: Node) -> tuple[int, int, int]:
        if not (node.pods or node.trial_pods or node.nominated_pods):
            return 0, 0, 0
        pods, going = self._cluster.pods, node.trial_victims
        there = staying = 0
        for uid in node.pods:
            pod = pods[uid]
            number = self._count(pod)
            if number:
                there += number
                if uid not in going and not pod.is_leaving:
                    staying += number
        added = sum(self._count(pods[uid]) for uid in node.trial_pods)
        nominated = sum(self._count(pods[uid]) for uid in node.nominated_pods)
        return there + added, staying + added, nominated
