"""Compute the dominant share of a pod group (Volcano's `drf`).

    share(held) = max over resources of held / total

The total is the allocatable resources of all nodes at the start of the last cycle. A share of a resource whose
total is zero is 1. Shares are exact fractions; an empty holding has the integer 0, which compares faster.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, TypeAlias

from projections.pod_class import Amounts

EQUAL: Final = Fraction(1, 1_000_000)
"""Shares that differ by no more are equal (Volcano's `shareDelta`)."""

Share: TypeAlias = int | Fraction
Holding: TypeAlias = tuple[tuple[str, int], ...]


def dominant(held: Mapping[str, int], total: Mapping[str, int]) -> Share:
    """Return the largest share over all resources but `pods`."""
    most, of = 0, 1
    for name, amount in held.items():
        if amount <= 0 or name == "pods":
            continue
        whole = total.get(name, 0)
        if whole <= 0:
            amount = whole = 1
        if amount * of > most * whole:
            most, of = amount, whole
    return Fraction(most, of) if most else 0


def with_more(held: Amounts, request: Holding, sign: int = 1) -> Amounts:
    """Return the holding with a request added, or (-1) removed."""
    total = dict(held)
    for name, amount in request:
        total[name] = total.get(name, 0) + sign * amount
    return total
