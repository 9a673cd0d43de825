"""910B server with 16 chips, A200T A2 Box16 (`accelerator-type: module-910b-16`): rings {0-7} and {8-15}.

Up to 8 chips of a task are in one ring. 10, 12 and 14 chips are half in each: at equal positions (`i` and `i + 8`) for
the only task of a job, at any positions in distributed jobs.
"""

from dataclasses import dataclass
from typing import Final

from features.ascend.chips import (
    ChipRequest,
    Chips,
    Group,
    JobChips,
    Placing,
    Problem,
    Product,
    count_problem,
    ids,
    lowest,
    mask_of,
)

RING: Final = 8
INVALID: Final = (9, 11, 13, 15)


@dataclass(frozen=True)
class Box16(Product):
    """Two rings of eight chips."""

    title = "910B Box16"
    group = Group("ring", RING)
    chips_max: int = 16
    strict_pairs: bool = False
    """Whether more than 8 chips of a task are at equal positions of both rings, also in distributed jobs."""

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the label of these servers."""
        return ("module-910b-16",)

    def problem(self, job: JobChips) -> Problem:
        """Return the tasks that ask for more than 16 chips, or for an odd number above 8."""
        return count_problem(job, self.chips_max, INVALID)

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing | None:
        """Return chips of the ring in which the fewest remain (of equal rings the left one), or of both rings."""
        count, left, right = request.count, usable & 0xFF, usable >> RING
        if count <= RING:
            fitting = [one for one in (left, right << RING) if one.bit_count() >= count]
            if not fitting:
                return None
            ring = min(fitting, key=int.bit_count)
            best, picked = ring.bit_count() - count, lowest(ring, count)
        else:
            crossing = self._crossing(left, right, is_alone=not request.is_distributed)
            if count % 2 or len(crossing) < count:
                return None
            best, picked = (len(crossing) - count) // 2, mask_of(crossing[:count])
        free = usable.bit_count()
        return Placing(16 * (chips.allocatable - best) + (self.chips_max - free), picked)

    def _crossing(self, left: int, right: int, *, is_alone: bool) -> list[int]:
        """Return the chips that can be used across the rings, alternating between them."""
        if is_alone or self.strict_pairs:
            left = right = left & right
        pairs = zip(ids(left), ids(right), strict=False)
        return [one for first, second in pairs for one in (first, second + RING)]
