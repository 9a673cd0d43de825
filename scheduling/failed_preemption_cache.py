"""Negative cache of nodes where preemption failed.

Whether pods of a queue can be evicted for another pod depends on the pods on the node and their groups, the
request of the preemptor, and the priority and share of its group. An entry is valid until its node changes; all
entries are dropped when nodes, policy, or the allocation of multi-pod groups change. Nothing is cached where more
than that decides (`Preemptor.equivalence_class`). The cache only saves time.
"""

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster

PREEMPTOR_CLASSES_MAX: Final = 1024
"""Maximum number of preemptor classes; beyond it all entries are dropped."""


class FailedNodes:
    """The nodes where preemption failed for one preemptor class, with the reasons."""

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.nodes
        self._read = len(self._table.changed_slots)
        self._texts: dict[int, str] = {}
        self.counts: Counter[str] = Counter()
        """Reason to number of nodes."""
        self.slots: npt.NDArray[np.bool_] = np.zeros(len(self._table.order), dtype=np.bool_)

    def refresh(self) -> None:
        """Drop the nodes that changed since the last call."""
        for slot in self._table.changed_slots[self._read :]:
            text = self._texts.pop(slot, None)
            if text is not None:
                self.slots[slot] = False
                self.counts[text] -= 1
        self.counts = +self.counts
        self._read = len(self._table.changed_slots)

    def message_of(self, slot: int) -> str:
        """Return why preemption failed on a node."""
        return self._texts[slot]

    def add(self, slot: int, text: str) -> None:
        """Record that preemption failed on a node."""
        self._texts[slot] = text
        self.slots[slot] = True
        self.counts[text] += 1


class FailedPreemptionCache:
    """The cache of one State."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._as_of: tuple[object, ...] = ()
        self._known: dict[tuple[object, ...], FailedNodes] = {}

    def of(self, preemptor_class: tuple[object, ...]) -> FailedNodes:
        """Return the nodes where preemption failed for preemptors of this class."""
        table = self._cluster.nodes
        as_of = (self._cluster.policy, table.layout, len(table.updated_slots), table.gang_version)
        if as_of != self._as_of or len(self._known) >= PREEMPTOR_CLASSES_MAX:
            self._as_of = as_of
            self._known.clear()
        found = self._known.get(preemptor_class)
        if found is None:
            found = self._known[preemptor_class] = FailedNodes(self._cluster)
        found.refresh()
        return found
