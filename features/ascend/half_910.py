"""910 server with half of its chips (`accelerator-type: half`): one ring of four, {0-3}."""

from dataclasses import dataclass

from features.ascend.chips import (
    ChipRequest,
    Chips,
    Group,
    JobChips,
    Placing,
    Problem,
    Product,
    linear_score,
    lowest,
)
from features.ascend.module_910 import best_ring, ring_problem


@dataclass(frozen=True)
class Half910(Product):
    """One ring of four chips."""

    title = "910 half x4"
    group = Group("ring", 4)
    chips_max: int = 4
    linear: bool = False
    """Whether the score is the number of free chips instead of the table."""

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the label of these servers."""
        return ("half",)

    def problem(self, job: JobChips) -> Problem:
        """Return the first task that asks for another number than 1, 2 or 4."""
        return ring_problem(job, (1, 2, 4))

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing | None:
        """Return the lowest ids of the ring."""
        found = best_ring(request.count, [usable])
        if found is None:
            return None
        score = 8 * (chips.allocatable * 4 - found[0])
        if self.linear:
            score = linear_score(self.chips_max, chips, usable)
        return Placing(score, lowest(usable, request.count))
