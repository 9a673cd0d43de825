"""Host of two 910B training cards, A300T A2 (`accelerator-type: card-910b-2`)."""

from dataclasses import dataclass
from typing import ClassVar

from features.ascend.card_910 import CARD_TABLE
from features.ascend.chips import ChipRequest, Chips
from features.ascend.ungrouped import Ungrouped


@dataclass(frozen=True)
class Card910B(Ungrouped):
    """Two chips that are not linked."""

    title = "910B card x2"
    is_numbered: ClassVar[bool] = False
    chips_max: int = 2

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the label of these servers."""
        return ("card-910b-2",)

    def table_score(self, request: ChipRequest, chips: Chips, free: int) -> int:
        """Return the score by the table; of equal values the host with fewer free chips wins."""
        best = CARD_TABLE[request.count][free - 1]
        return 2 * (chips.allocatable - best) + (self.chips_max - free)
