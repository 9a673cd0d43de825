"""Scores of nodes, in thousandths of a point, as whole numbers.

Each scorer gives 0 to 100 points before its weight. The functions take numbers or columns of numbers: one node
and all nodes are computed in the same way. Byte resources are counted in KiB, so that nothing exceeds 64 bits
(AMOUNT_MAX x FULL < 2**63, and BYTES_MAX / 1024 is no more).

Sources of the formulas: the Kubernetes scorers that Volcano's `nodeorder` sums (least and most requested,
balanced allocation as of 1.36), and Volcano's `binpack`. Differences: fractions are rounded down to a thousandth
of a point, and nominated resources count as used.
"""

from math import isqrt
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from projections.nodes import NodeTable
from projections.pod_class import Amounts, PodClass, is_bytes
from projections.policy import Policy

FULL: Final = 100_000
"""100 points."""

PLAIN: Final = ("cpu", "memory")
BALANCED_MAX: Final = 16
"""Maximum number of balanced resources beside cpu and memory: roots are exact below 2**52."""

Numbers = TypeVar("Numbers", int, npt.NDArray[np.int64])


def fraction(part: Numbers, whole: Numbers) -> Numbers:
    """Return `part / whole` in thousandths of a percent, between 0 and FULL; 0 if `whole` is 0."""
    share: Numbers = part * FULL // (whole + (whole == 0))
    share = share * (share > 0) * (whole > 0)
    capped: Numbers = share - (share - FULL) * (share > FULL)
    return capped


def least_requested(cpu: Numbers, memory: Numbers) -> Numbers:
    """Score high if much is left. `cpu` and `memory` are the fractions used, this pod included."""
    return FULL - (cpu + memory) // 2


def most_requested(cpu: Numbers, memory: Numbers) -> Numbers:
    """Score high if little is left."""
    return (cpu + memory) // 2


def balanced(cpu: Numbers, memory: Numbers, *others: Numbers) -> Numbers:
    """Score high if all resources are used alike: FULL minus the standard deviation of the fractions used."""
    if not others:
        return FULL - abs(cpu - memory) // 2
    count, total, squares = 2 + len(others), cpu + memory, cpu * cpu + memory * memory
    for one in others:
        total, squares = total + one, squares + one * one
    return FULL - root(count * squares - total * total) // count


def balance_change(after: Numbers, before: Numbers) -> Numbers:
    """Score high if the pod improves the balance: three quarters of FULL plus half the difference that it makes."""
    return FULL * 3 // 4 + (after - before) // 2


def root(number: Numbers) -> Numbers:
    """Return the square root, rounded down. Below 2**52 the nearest float is off by at most one."""
    if isinstance(number, int):
        return isqrt(number)
    found = np.sqrt(number).astype(np.int64)
    found -= found * found > number
    found += (found + 1) * (found + 1) <= number
    return found


class Scorer:
    """The sum of all scorers of a policy, for pods of one class."""

    def __init__(self, policy: Policy, pod_class: PodClass) -> None:
        self.amounts: Amounts = pod_class.amounts
        self._order = policy.node_order
        self._weights: list[tuple[str, int]] = []
        self._binpack = 0
        if policy.binpack is not None and policy.has("binpack", "enableNodeOrder"):
            self._binpack = policy.binpack.weight
            self._weights = [
                (name, weight) for name, weight in policy.binpack.resources if name in self.amounts
            ]
        if not policy.has("nodeorder", "enableNodeOrder"):
            self._order = None
        listed = "" if self._order is None else self._order.balanced_resources
        names = [name.strip() for name in listed.split(",")][:BALANCED_MAX]
        self._balanced = [name for name in names if name in self.amounts and name not in PLAIN]

    def of_node(self, allocatable: Amounts, free: Amounts) -> int:
        """Return the score of one node."""
        wholes = {name: allocatable.get(name, 0) for name in self._names}
        taken = {name: whole - free.get(name, 0) for name, whole in wholes.items()}
        used = {
            name: fraction(
                _scaled(name, amount + self.amounts.get(name, 0)), _scaled(name, wholes[name])
            )
            for name, amount in taken.items()
        }
        before = {
            name: fraction(_scaled(name, taken[name]), _scaled(name, wholes[name]))
            for name in self._compared
        }
        is_over = any(
            self.amounts[name] > free.get(name, 0) and allocatable.get(name, 0) > 0
            for name, _ in self._weights
        )
        return self._sum(used, before, 0, 0 if is_over else 1)

    def of_all(self, table: NodeTable) -> npt.NDArray[np.int64]:
        """Return the scores of all nodes, slot by slot."""
        nothing = np.zeros(len(table.order), dtype=np.int64)
        used = {
            name: fraction(
                _scaled(
                    name, table.allocatable[name] - table.free[name] + self.amounts.get(name, 0)
                ),
                _scaled(name, table.allocatable[name]),
            )
            if name in table.free
            else nothing
            for name in self._names
        }
        before = {
            name: fraction(
                _scaled(name, table.allocatable[name] - table.free[name]),
                _scaled(name, table.allocatable[name]),
            )
            if name in table.free
            else nothing
            for name in self._compared
        }
        holds = np.ones(len(table.order), dtype=np.int64)
        for name, _ in self._weights:
            if name in table.free:
                is_short = table.free[name] < self.amounts[name]
                holds &= ~(is_short & (table.allocatable[name] > 0))
        return self._sum(used, before, nothing, holds)

    @property
    def _names(self) -> list[str]:
        plain = [*PLAIN, *self._balanced] if self._order is not None else []
        return plain + [name for name, _ in self._weights if name not in plain]

    @property
    def _compared(self) -> list[str]:
        """Return the resources whose use without the pod counts."""
        order = self._order
        if order is None or not order.balancedresource_weight or order.balanced_scoring == "level":
            return []
        return [*PLAIN, *self._balanced]

    def _sum(
        self, used: dict[str, Numbers], before: dict[str, Numbers], nothing: Numbers, holds: Numbers
    ) -> Numbers:
        """Return the sum of all scorers. `before` is the use without the pod, if it counts. `holds` is 1 if all
        resources that `binpack` counts fit, else 0: `binpack` gives nothing to nodes that must be freed first."""
        total = nothing
        if (order := self._order) is not None:
            cpu, memory = used["cpu"], used["memory"]
            if order.leastrequested_weight:
                total = total + least_requested(cpu, memory) * order.leastrequested_weight
            if order.mostrequested_weight:
                total = total + most_requested(cpu, memory) * order.mostrequested_weight
            if order.balancedresource_weight:
                others = [used[name] for name in self._balanced]
                points = balanced(cpu, memory, *others)
                if before:
                    rest = [before[name] for name in self._balanced]
                    points = balance_change(
                        points, balanced(before["cpu"], before["memory"], *rest)
                    )
                total = total + points * order.balancedresource_weight
        divisor = sum(weight for _, weight in self._weights)
        if divisor:
            packed = nothing
            for name, weight in self._weights:
                packed = packed + used[name] * weight
            total = total + packed * holds * self._binpack // divisor
        return total


def _scaled(name: str, amount: Numbers) -> Numbers:
    return amount >> 10 if is_bytes(name) else amount
