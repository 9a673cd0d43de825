"""Host of two 910B inference cards, A300I A2 (`accelerator-type: card-910b-infer`)."""

from dataclasses import dataclass
from typing import ClassVar

from features.ascend.chips import (
    INVALID_REQUEST,
    ChipRequest,
    Chips,
    JobChips,
    Problem,
)
from features.ascend.ungrouped import Ungrouped


@dataclass(frozen=True)
class InferenceCard910B(Ungrouped):
    """Two chips that are not linked, for jobs of one task. No node is preferred, unless `linear` is set."""

    title = "910B inference card x2"
    is_numbered: ClassVar[bool] = False
    heeds_network: ClassVar[bool] = False
    chips_max: int = 2

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the label of these servers."""
        return ("card-910b-infer",)

    def problem(self, job: JobChips) -> Problem:
        """Return whether several tasks ask for chips, or the tasks that ask for other numbers than 1 and 2."""
        if job.is_distributed:
            return Problem(INVALID_REQUEST, "task num is invalid")
        return super().problem(job)

    def table_score(self, request: ChipRequest, chips: Chips, free: int) -> int:
        """Return the same for all nodes."""
        return 0
