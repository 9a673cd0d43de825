"""Chips of 300I Duo cards (labels `duo: "true"`, `npu-310-strategy: chip`), two 310P chips a card.

With the label `distributed: "true"` the one task of a job uses several cards: complete ones, and for an odd number one
more chip, of a half-used card if there is one.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from features.ascend.chips import (
    ChipRequest,
    Chips,
    Group,
    JobChips,
    Placing,
    Problem,
    Product,
    groups,
    lowest,
)
from features.ascend.duo_card_310p import CARD, distributed_problem

TABLE_FREE_MAX: Final = 8
"""Number of free chips up to which the vendor's table ranks nodes."""


@dataclass(frozen=True)
class DuoChip310P(Product):
    """Cards of two chips, up to 16 chips a node."""

    title = "310P Duo chip"
    group = Group("card", CARD)
    heeds_network: ClassVar[bool] = False
    chips_max: int = 16
    is_across_cards: bool = False
    """Whether the label `distributed: "true"` is set."""

    def problem(self, job: JobChips) -> Problem:
        """Return the tasks that ask for more than a node, or whether there are several with `distributed`."""
        return distributed_problem(job, self.is_across_cards) or super().problem(job)

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing | None:
        """Return chips of half-used cards before those of full ones; with `distributed` at most one of them."""
        cards = groups(usable, CARD, self.chips_max)
        half_used = [one for one in cards if one.bit_count() == 1]
        full = sum(one for one in cards if one.bit_count() == CARD)
        first = min(request.count, len(half_used))
        if self.is_across_cards:
            first = request.count % 2 if half_used else 0
        rest = request.count - first
        if full.bit_count() < rest:
            return None
        score = across_cards_score(request.count, usable.bit_count(), has_half=bool(half_used))
        return Placing(
            score if self.is_across_cards else 0, sum(half_used[:first]) | lowest(full, rest)
        )


def across_cards_score(count: int, free: int, *, has_half: bool) -> int:
    """Return the score of a node that serves a task with `distributed`.

    Up to 8 free chips it is that of the vendor's table, 8 x (16 - s): fewer free chips are better, and for an odd
    number every node with a half-used card is better than all without. Above 8, where the vendor's plugin gives 0 to
    all nodes, the same order goes on below the smallest value of the table.
    """
    breaks_card = bool(count % 2) and not has_half
    if free > TABLE_FREE_MAX:
        return (24 - (free - 10) // 2) if breaks_card else 31 - (free - 9)
    return 8 * (16 - (9 + (free - count - 1) // 2 if breaks_card else free - count + 1))
