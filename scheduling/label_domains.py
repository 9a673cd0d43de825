"""Topology domains by a node label: nodes with the same value have the same number, slot by slot."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from projections.nodes import NodeTable
from projections.policy.requirement import Requirement


class NodeLabels:
    """The keys of the nodes' labels. Terms with any other topology key match no node."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._read = len(table.updated_slots)
        self._labels: list[dict[str, str]] = [{} for _ in table.order]
        """The labels of each node as they were counted."""
        self.version = 0
        """Changes whenever a key is added or removed."""
        self._keys: dict[str, int] = {}
        """Label key to the number of nodes that have it."""
        for slot in range(len(table.order)):
            self._count(slot)

    def all_keys(self) -> Mapping[str, int]:
        """Return label key to the number of nodes that have it."""
        for slot in self._table.updated_slots[self._read :]:
            self._count(slot)
        self._read = len(self._table.updated_slots)
        return self._keys

    def _count(self, slot: int) -> None:
        facts = self._table.order[slot].facts
        labels = {} if facts is None else facts.labels
        if labels is self._labels[slot]:
            return
        before = len(self._keys)
        for key in labels:
            self._keys[key] = self._keys.get(key, 0) + 1
        self.version += len(self._keys) != before
        for key in self._labels[slot]:
            self._keys[key] -= 1
            if not self._keys[key]:
                del self._keys[key]
                self.version += 1
        self._labels[slot] = labels


class Domain:
    """The domains of one topology key."""

    def __init__(self, table: NodeTable, key: str) -> None:
        self._table = table
        self._key = key
        self._values: dict[str, int] = {}
        self._read = len(table.updated_slots)
        self.number: npt.NDArray[np.int64] = np.full(len(table.order), -1, dtype=np.int64)
        """The domain of each node; -1 if it has no such label."""
        for slot in range(len(table.order)):
            self._read_node(slot)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Return which nodes are in a domain."""
        return self.number >= 0

    def matching(self, one: Requirement) -> npt.NDArray[np.bool_]:
        """Return the nodes that satisfy an expression about the key."""
        if one.operator == "In":
            wanted = [self._values[value] for value in one.values if value in self._values]
            return np.isin(self.number, np.array(wanted, dtype=np.int64))
        # The last entry is for nodes without the label, whose number is -1.
        verdicts = [one.matches(value) for value in self._values]
        return np.array([*verdicts, one.matches(None)], dtype=np.bool_)[self.number]

    def refresh(self) -> None:
        """Read the nodes whose object changed again."""
        for slot in self._table.updated_slots[self._read :]:
            self._read_node(slot)
        self._read = len(self._table.updated_slots)

    def sums(
        self, amounts: npt.NDArray[np.int64], chosen: npt.NDArray[np.bool_] | None = None
    ) -> npt.NDArray[np.int64]:
        """Return the sums of a column over the (chosen) nodes of each domain."""
        inside = self.inside if chosen is None else self.inside & chosen
        sums = np.zeros(len(self._values), dtype=np.int64)
        np.add.at(sums, self.number[inside], amounts[inside])
        return sums

    def spread_out(self, sums: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the sum of its domain for each node; 0 for nodes in no domain."""
        if not len(sums):
            return np.zeros(len(self.number), dtype=np.int64)
        return np.where(self.inside, sums[self.number], 0)

    def _read_node(self, slot: int) -> None:
        facts = self._table.order[slot].facts
        value = None if facts is None else facts.labels.get(self._key)
        if value is None:
            self.number[slot] = -1
        else:
            self.number[slot] = self._values.setdefault(value, len(self._values))
