"""910B server with 8 chips, A800T A2 (`accelerator-type: module-910b-8`): all chips are linked to each other."""

from dataclasses import dataclass

from scheduling.device_families.ascend.chips import (
    ChipRequest,
    Chips,
    JobChips,
    Placing,
    Problem,
    Product,
    count_problem,
    linear_score,
    lowest,
)


@dataclass(frozen=True)
class Module910B(Product):
    """Eight chips without rings. The table is the number of chips that remain free."""

    title = "910B x8"
    chips_max: int = 8
    linear: bool = False
    """Whether the score is the number of free chips instead of the table."""

    def problem(self, job: JobChips) -> Problem:
        """Return the tasks that ask for no chip or for more than 8."""
        return count_problem(job, self.chips_max)

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing:
        """Return the lowest ids."""
        best = usable.bit_count() - request.count
        score = self.chips_max * (chips.allocatable - best)
        if self.linear:
            score = linear_score(self.chips_max, chips, usable)
        return Placing(score, lowest(usable, request.count))
