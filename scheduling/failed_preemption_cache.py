"""Nodes that could not be freed, remembered as long as nothing changes that could make it otherwise.

Whether pods of a queue can be evicted for another pod of it is a question of the pods on the node and their
groups, of what the pod asks for, and of its group's priority and share. A node counts as tried until it
moves; all count as untried once nodes, rules, or what groups of several pods hold are others. Nothing is
remembered where more than that decides (`scheduling/victims/preemptor_class.py`). This only ever saves time.
"""

from collections import Counter
from typing import Final

import numpy as np
import numpy.typing as npt

from projections.cluster import Cluster

PREEMPTOR_CLASSES_MAX: Final = 1024
"""Kinds of claims that are remembered; when there are more, all are forgotten."""


class FailedNodes:
    """The nodes that could not be freed for one kind of claim, and why."""

    def __init__(self, cluster: Cluster) -> None:
        self._table = cluster.nodes
        self._read = len(self._table.changed_slots)
        self._texts: dict[int, str] = {}
        self.counts: Counter[str] = Counter()
        """How many nodes for which reason."""
        self.slots: npt.NDArray[np.bool_] = np.zeros(len(self._table.order), dtype=np.bool_)

    def refresh(self) -> None:
        """Forget the nodes that have moved."""
        for slot in self._table.changed_slots[self._read :]:
            text = self._texts.pop(slot, None)
            if text is not None:
                self.slots[slot] = False
                self.counts[text] -= 1
        self.counts = +self.counts
        self._read = len(self._table.changed_slots)

    def message_of(self, slot: int) -> str:
        """Why a node could not be freed."""
        return self._texts[slot]

    def add(self, slot: int, text: str) -> None:
        """A node could not be freed."""
        self._texts[slot] = text
        self.slots[slot] = True
        self.counts[text] += 1


class FailedPreemptionCache:
    """What is known of one State."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._as_of: tuple[object, ...] = ()
        self._known: dict[tuple[object, ...], FailedNodes] = {}

    def of(self, preemptor_class: tuple[object, ...]) -> FailedNodes:
        """What is known for claims that are alike in this."""
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
