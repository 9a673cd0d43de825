"""Delta debugging: find a small part of a list for which a condition still holds.

The algorithm is `ddmin` (Zeller and Hildebrandt, *Simplifying and Isolating Failure-Inducing Input*, 2002): try parts of
the list, then the list without each part, then parts of half the size. Unlike there, a pass goes on behind a part that
was removed instead of beginning again, so that large lists are seldom tried. The result is 1-minimal: without any one of
its elements the condition does not hold. The order of trials depends only on the list and on the answers.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class SearchEndedError(Exception):
    """A trial was asked for after the time limit."""


def minimize(items: Sequence[T], holds: Callable[[Sequence[T]], bool]) -> list[T]:
    """Return a 1-minimal part of `items`, in their order, for which the condition holds. It holds for all of them.

    No part is tried twice. If `holds` raises SearchEndedError, return the smallest part found by then.
    """
    best = list(range(len(items)))
    tried: dict[bytes, bool] = {}

    def holds_for(chosen: list[int]) -> bool:
        bits = bytearray(len(items) // 8 + 1)
        for index in chosen:
            bits[index >> 3] |= 1 << (index & 7)
        key = bytes(bits)
        if key not in tried:
            tried[key] = holds([items[index] for index in chosen])
        return tried[key]

    try:
        if not best or holds_for([]):
            return []
        count = 2
        while len(best) >= 2:
            parts = _split(best, count)
            part = next((one for one in parts if holds_for(one)), None) if count <= 8 else None
            if part is not None:
                best, count = part, 2
                continue
            before = len(best)
            for part in parts:
                left_out = set(part)
                rest = [index for index in best if index not in left_out]
                if holds_for(rest):
                    best = rest
            if count < before:
                # At least as many parts as before, and none larger than half of one.
                count = min(max(2 * count * len(best) // before, 2), len(best))
            elif len(best) == before:
                break
            else:
                count = len(best)
    except SearchEndedError:
        pass
    return [items[index] for index in best]


def _split(chosen: list[int], count: int) -> list[list[int]]:
    """Return `count` consecutive parts of nearly equal size."""
    bounds = [len(chosen) * at // count for at in range(count + 1)]
    parts = (chosen[bounds[at] : bounds[at + 1]] for at in range(count))
    return [one for one in parts if one]
