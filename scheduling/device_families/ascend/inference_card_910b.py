"""Host of two 910B inference cards, A300I A2 (`accelerator-type: card-910b-infer`)."""

from dataclasses import dataclass
from typing import ClassVar

from scheduling.device_families.ascend.chips import (
    INVALID_REQUEST,
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
class InferenceCard910B(Product):
    """Two chips that are not linked, for jobs of one task. No node is preferred."""

    title = "910B inference card x2"
    is_numbered: ClassVar[bool] = False
    heeds_network: ClassVar[bool] = False
    chips_max: int = 2
    linear: bool = False
    """Whether nodes with few free chips are preferred."""

    def problem(self, job: JobChips) -> Problem:
        """Return whether several tasks ask for chips, or the tasks that ask for other numbers than 1 and 2."""
        if job.is_distributed:
            return Problem(INVALID_REQUEST, "task num is invalid")
        return count_problem(job, self.chips_max)

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing:
        """Return the lowest ids."""
        score = linear_score(self.chips_max, chips, usable) if self.linear else 0
        return Placing(score, lowest(usable, request.count))
