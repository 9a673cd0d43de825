"""The base product: chips without groups. It serves 310P cards, and the policies `chip1-node8` and `chip1-node16`."""

from dataclasses import dataclass
from typing import ClassVar

from features.ascend.chips import (
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
class BaseProduct(Product):
    """Any chips; a task gets the lowest ids. Fewer free chips win, after nodes with fewer broken chips."""

    title = "chips without groups"
    is_numbered: ClassVar[bool] = False
    heeds_network: ClassVar[bool] = False
    invalid: tuple[int, ...] = ()
    """Numbers of chips that no task can ask for."""

    def problem(self, job: JobChips) -> Problem:
        """Return the tasks that ask for a number that no node gives."""
        return count_problem(job, self.chips_max, self.invalid)

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing:
        """Return the lowest ids."""
        score = linear_score(self.chips_max, chips, usable)
        return Placing(score, lowest(usable, request.count))
