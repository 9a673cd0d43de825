"""Utilization of each domain, updated with the changes of its nodes, and the score of filling it with pods.

    part of a resource = (used + requested) / allocatable        over all nodes of the domain
    score = 100 x (sum over resources of weight x part) / (sum of the weights)

The formula is that of Volcano's `binpack`, as in `network-topology-aware` for HyperNodes: a resource counts if it
is requested and has a weight; a resource that the domain does not have adds nothing; if the request does not fit
the score is 0. Scores are in thousandths of a point, rounded down.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from projections.nodes import NodeTable
from projections.pod_class import Amounts, is_bytes
from scheduling.node_columns import FULL
from scheduling.score_formulas import Numbers
from scheduling.topology.domains import Domains

Weights = tuple[tuple[str, int], ...]

_MEBI: Final = 20
"""Bytes are counted in MiB, so that the sums of a large cluster stay within 64 bits."""


class DomainUtilization:
    """The sums over all domains, resource by resource."""

    def __init__(self, domains: Domains, table: NodeTable) -> None:
        self._domains = domains
        self._table = table
        self._sums: dict[str, _Sums] = {}

    def binpack(self, asked: Amounts, weights: Weights) -> npt.NDArray[np.int64]:
        """Return the score of each domain for pods that request `asked` together."""
        counted = [(name, weight) for name, weight in weights if asked.get(name)]
        total = np.zeros(len(self._domains.all), dtype=np.int64)
        divisor = sum(weight for _, weight in counted)
        if not divisor:
            return total
        fits = np.ones(len(total), dtype=np.bool_)
        for name, weight in counted:
            used, whole = self._of(name)
            part = used + _scaled(name, asked[name])
            fits &= (part <= whole) | (whole == 0)
            total += np.maximum(part, 0) * (whole > 0) * FULL // np.maximum(whole, 1) * weight
        return np.where(fits, total // divisor, 0)

    def _of(self, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return the used and the allocatable amount of a resource."""
        found = self._sums.get(name)
        if found is None:
            found = self._sums[name] = _Sums(self._domains, self._table, name)
        found.refresh()
        return found.used, found.whole


class _Sums:
    """Used and allocatable of one resource, domain by domain, with the journal position up to which they are valid."""

    def __init__(self, domains: Domains, table: NodeTable, name: str) -> None:
        self._domains = domains
        self._table = table
        self._name = name
        self._moved = self._remade = -1
        self._seen = np.zeros(len(table.order), dtype=np.int64)
        self.used = self.whole = np.zeros(len(domains.all), dtype=np.int64)

    def refresh(self) -> None:
        """Apply the changes of the nodes since the last call."""
        table, name = self._table, self._name
        moved = table.changed_slots[self._moved :] if self._moved >= 0 else table.changed_slots
        is_known = self._moved >= 0 and self._remade == len(table.updated_slots)
        self._moved, self._remade = len(table.changed_slots), len(table.updated_slots)
        if not is_known or len(moved) * 8 > len(table.order):
            self._recount()
            return
        if not moved or name not in table.free:
            return
        free, allocatable = table.free[name], table.allocatable[name]
        for slot in dict.fromkeys(moved):
            used = _scaled(name, int(allocatable[slot] - free[slot]))
            change = used - int(self._seen[slot])
            if change:
                self._seen[slot] = used
                for one in self._domains.of_slot(slot):
                    self.used[one.index] += change

    def _recount(self) -> None:
        table, name = self._table, self._name
        if name not in table.free:
            self._seen[:] = 0
            self.used = self.whole = np.zeros(len(self._domains.all), dtype=np.int64)
            return
        self._seen = _scaled(name, table.allocatable[name] - table.free[name])
        self.used = self._domains.sums(self._seen)
        self.whole = self._domains.sums(_scaled(name, table.allocatable[name]))


def _scaled(name: str, amount: Numbers) -> Numbers:
    return amount >> _MEBI if is_bytes(name) else amount
