"""Chips of 310 cards (label `npu-310-strategy: chip`): a task gets any chips, those of used cards first."""

from dataclasses import dataclass
from typing import ClassVar

from features.ascend.card_310 import CARD
from features.ascend.chips import (
    CHIPS_MAX,
    ChipRequest,
    Chips,
    Group,
    Placing,
    Product,
    groups,
    ids,
    linear_score,
    mask_of,
)


@dataclass(frozen=True)
class Chip310(Product):
    """Chips of cards of four, taken where the fewest are free."""

    title = "310 chip"
    group = Group("card", CARD)
    heeds_network: ClassVar[bool] = False
    chips_max: int = CHIPS_MAX

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing:
        """Return chips of the cards with the fewest free ones, and so break open as few full cards as possible."""
        cards = sorted(groups(usable, CARD, self.chips_max), key=int.bit_count)
        order = [chip for card in cards for chip in ids(card)]
        score = linear_score(self.chips_max, chips, usable)
        return Placing(score, mask_of(order[: request.count]))
