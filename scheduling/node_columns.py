"""What the nodes in some slots have and use of each resource, as columns that scores are computed from.

A column is made once, whichever scorers ask for it. Byte resources are counted in KiB, so that nothing exceeds 64 bits
(AMOUNT_MAX x FULL < 2**63, and BYTES_MAX / 1024 is no more).
"""

from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from projections.nodes import NodeTable
from projections.pod_class import is_bytes

FULL: Final = 100_000
"""100 points."""

Column: TypeAlias = npt.NDArray[np.int64]
"""A number for each node, slot by slot."""

Slots: TypeAlias = npt.NDArray[np.intp]
"""Slots of nodes, in order."""


Mask: TypeAlias = npt.NDArray[np.bool_]
"""Whether something holds for each node of a column."""


@lru_cache(maxsize=1024)
def scale_of(name: str) -> int:
    """Return by how many bits amounts of a resource are shifted to the right before they are compared: bytes count in KiB."""
    return 10 if is_bytes(name) else 0


def share(part: int, whole: int) -> int:
    """Return `part / whole` in thousandths of a percent, between 0 and FULL; 0 if `whole` is 0."""
    return min(max(part * FULL // whole, 0), FULL) if whole > 0 else 0


def shares(part: Column, whole: Column) -> Column:
    """Return the same of two columns."""
    return _shares(part, np.maximum(whole, 1), whole > 0)


def _shares(part: Column, divisor: Column, is_there: Mask | None) -> Column:
    found: Column = part * FULL
    found //= divisor
    np.minimum(found, FULL, out=found)
    np.maximum(found, 0, out=found)
    if is_there is not None:
        found *= is_there
    return found


class ShareInputs(Struct, frozen=True):
    """What the shares of one resource are computed from."""

    used: Column
    scale: int
    divisor: Column
    """What nodes have, scaled; 1 instead of 0."""
    is_there: Mask | None
    """Which nodes have any of it; None if all do."""


class NodeColumns:
    """The columns of the nodes in these slots."""

    def __init__(self, table: NodeTable, slots: Slots) -> None:
        self.slots = slots
        self._table = table
        self._amounts: dict[str, tuple[Column, Column]] = {}
        """Resource to what nodes have of it, and what is free."""
        self._bases: dict[str, ShareInputs] = {}
        self._shares: dict[tuple[str, int], Column] = {}

    def zeros(self) -> Column:
        """Return a column of zeros."""
        return np.zeros(len(self.slots), dtype=np.int64)

    def amounts(self, name: str) -> tuple[Column, Column] | None:
        """Return what nodes have of a resource, and what of it is free; None if no node has it. Do not modify them."""
        found = self._amounts.get(name)
        if found is None:
            if name not in self._table.free:
                return None
            whole, free = self._table.allocatable[name], self._table.free[name]
            found = self._amounts[name] = whole[self.slots], free[self.slots]
        return found

    def shares(self, name: str, amount: int) -> Column:
        """Return the shares of a resource that are used once so much more of it is; zeros if no node has it. Do not modify
        the result."""
        found = self._shares.get((name, amount))
        if found is None:
            base = self._bases.get(name) or self._base_of(name)
            if base is None:
                found = self.zeros()
            else:
                found = _shares(base.used + amount >> base.scale, base.divisor, base.is_there)
            self._shares[name, amount] = found
        return found

    def _base_of(self, name: str) -> ShareInputs | None:
        amounts = self.amounts(name)
        if amounts is None:
            return None
        (whole, free), scale = amounts, scale_of(name)
        divisor = whole >> scale
        is_there = None if (divisor > 0).all() else divisor > 0
        found = self._bases[name] = ShareInputs(
            whole - free, scale, np.maximum(divisor, 1), is_there
        )
        return found
