"""Random numbers that depend only on a name: the same seed gives the same bytes on every machine."""

from bisect import bisect_right
from collections.abc import Iterable
from decimal import Context, Decimal
from hashlib import sha256
from itertools import accumulate
from typing import Final, Generic, TypeVar

_T = TypeVar("_T")
_DECIMALS: Final = Context(prec=30)


class RandomSequence:
    """A sequence of random numbers that depends only on its name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def below(self, bound: int) -> int:
        """Return the next number, from 0 to below the bound."""
        self._count += 1
        digest = sha256(f"{self._name}/{self._count}".encode()).digest()
        return int.from_bytes(digest[:16], "big") % bound

    def between(self, low: int, high: int) -> int:
        """Return the next number from `low` to `high`."""
        return low + self.below(high - low + 1)

    def exponential(self, mean: Decimal) -> int:
        """Return the next number of an exponential distribution, rounded down.

        The logarithm is that of decimal arithmetic, which is the same everywhere.
        """
        share = _DECIMALS.divide(Decimal(self.below(1 << 64) + 1), Decimal(1 << 64))
        return int(_DECIMALS.multiply(mean, -_DECIMALS.ln(share)))


class WeightedChoice(Generic[_T]):
    """Picks items with a probability proportional to their weight."""

    def __init__(self, weighted: Iterable[tuple[_T, int]]) -> None:
        held = [(thing, weight) for thing, weight in weighted if weight > 0]
        self._things = [thing for thing, _ in held]
        self._ends = list(accumulate(weight for _, weight in held))

    def turn(self, chance: RandomSequence) -> _T:
        """Return an item."""
        return self._things[bisect_right(self._ends, chance.below(self._ends[-1]))]
