"""Host of two 910 training cards, A300T (`accelerator-type: card`)."""

from dataclasses import dataclass
from typing import ClassVar, Final

from features.ascend.chips import ChipRequest, Chips
from features.ascend.ungrouped import Ungrouped

CARD_TABLE: Final = {1: (0, 1), 2: (2, 0)}
"""Request to the value of a host with 1, 2 free chips: smaller is better, 2 does not fit."""


@dataclass(frozen=True)
class Card910(Ungrouped):
    """Two chips that are not linked."""

    title = "910 card x2"
    is_numbered: ClassVar[bool] = False
    heeds_network: ClassVar[bool] = False
    chips_max: int = 2

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the label of these servers."""
        return ("card",)

    def table_score(self, request: ChipRequest, chips: Chips, free: int) -> int:
        """Return the score by the table, on the scale of the products with rings."""
        return 8 * (chips.allocatable * 4 - CARD_TABLE[request.count][free - 1])
