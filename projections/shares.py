"""How much of the cluster a pod group holds: the share of its dominant resource (Volcano's `drf`).

    share(held) = max over resources of held / total

with what all nodes could give when the last cycle opened as the total. Who holds something of which there
is nothing has a share of 1. Shares are exact fractions; nothing at all is the whole number 0, which
compares faster.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

from projections.pod_class import Amounts

Share: TypeAlias = int | Fraction
Holding: TypeAlias = tuple[tuple[str, int], ...]


def dominant(held: Mapping[str, int], total: Mapping[str, int]) -> Share:
    """The largest part that is held of any resource. How many pods that makes does not count."""
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
    """What is held once a request is added, or taken off."""
    total = dict(held)
    for name, amount in request:
        total[name] = total.get(name, 0) + sign * amount
    return total
