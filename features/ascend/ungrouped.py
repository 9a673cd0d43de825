"""Products whose chips are in no groups: a task gets the lowest ids, and a table or the number of free chips ranks nodes."""

from abc import abstractmethod
from dataclasses import dataclass

from features.ascend.chips import (
    ChipRequest,
    Chips,
    Placing,
    Product,
    linear_score,
    lowest,
)


@dataclass(frozen=True)
class Ungrouped(Product):
    """A product without groups of chips."""

    linear: bool = False
    """Whether the score is the number of free chips instead of the table."""

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing:
        """Return the lowest ids."""
        if self.linear:
            score = linear_score(self.chips_max, chips, usable)
        else:
            score = self.table_score(request, chips, usable.bit_count())
        return Placing(score, lowest(usable, request.count))

    @abstractmethod
    def table_score(self, request: ChipRequest, chips: Chips, free: int) -> int:
        """Return the score of a node with so many free chips that can be used, by the table."""
