"""Host of two 910B training cards, A300T A2 (`accelerator-type: card-910b-2`)."""

from dataclasses import dataclass
from typing import ClassVar

from scheduling.device_families.ascend.card_910 import CARD_TABLE
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
class Card910B(Product):
    """Two chips that are not linked."""

    title = "910B card x2"
    is_numbered: ClassVar[bool] = False
    chips_max: int = 2
    linear: bool = False
    """Whether the score is the number of free chips instead of the table."""

    def problem(self, job: JobChips) -> Problem:
        """Return the tasks that ask for other numbers than 1 and 2."""
        return count_problem(job, self.chips_max)

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing:
        """Return the lowest ids."""
        free = usable.bit_count()
        best = CARD_TABLE[request.count][free - 1]
        score = 2 * (chips.allocatable - best) + (self.chips_max - free)
        if self.linear:
            score = linear_score(self.chips_max, chips, usable)
        return Placing(score, lowest(usable, request.count))
