"""Host of two 910 training cards, A300T (`accelerator-type: card`)."""

from dataclasses import dataclass
from typing import ClassVar, Final

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

CARD_TABLE: Final = {1: (0, 1), 2: (2, 0)}
"""Request to the value of a host with 1, 2 free chips: smaller is better, 2 does not fit."""


@dataclass(frozen=True)
class Card910(Product):
    """Two chips that are not linked."""

    title = "910 card x2"
    is_numbered: ClassVar[bool] = False
    heeds_network: ClassVar[bool] = False
    chips_max: int = 2
    linear: bool = False
    """Whether the score is the number of free chips instead of the table."""

    def problem(self, job: JobChips) -> Problem:
        """Return the tasks that ask for other numbers than 1 and 2."""
        return count_problem(job, self.chips_max)

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing:
        """Return the lowest ids."""
        best = CARD_TABLE[request.count][usable.bit_count() - 1]
        score = 8 * (chips.allocatable * 4 - best)
        if self.linear:
            score = linear_score(self.chips_max, chips, usable)
        return Placing(score, lowest(usable, request.count))
