"""310 cards with four chips each (label `npu-310-strategy: card`): a task gets chips of one card."""

from dataclasses import dataclass
from typing import ClassVar, Final

from features.ascend.chips import (
    CHIPS_MAX,
    INVALID_REQUEST,
    NO_PROBLEM,
    ChipRequest,
    Chips,
    Group,
    JobChips,
    Placing,
    Problem,
    Product,
    groups,
    lowest,
    named,
    shown,
)

CARD: Final = 4
X: Final = 4
TABLE: Final = {1: (0, 2, 1, 3), 2: (X, 0, 1, 2), 3: (X, X, 0, 1), 4: (X, X, X, 0)}
"""Request to the value of a card with 1, 2, 3, 4 free chips: smaller is better, X does not fit."""


@dataclass(frozen=True)
class Card310(Product):
    """Cards of four chips."""

    title = "310 card x4"
    group = Group("card", CARD)
    heeds_network: ClassVar[bool] = False
    chips_max: int = CHIPS_MAX

    def problem(self, job: JobChips) -> Problem:
        """Return the first task that asks for no chip or for more than a card."""
        for one in job.tasks:
            if not 1 <= one.count <= CARD:
                text = f"{named('task', one.name)} req npu num<{one.count}> is invalid"
                return Problem(INVALID_REQUEST, text)
        return NO_PROBLEM

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing | None:
        """Return chips of the card with the smallest value, the first of equals."""
        table = TABLE.get(request.count)
        if table is None:
            return None
        cards = [one for one in groups(usable, CARD, self.chips_max) if one]
        card = min(cards, key=lambda one: table[one.bit_count() - 1])
        best = table[card.bit_count() - 1]
        return None if best == X else Placing(8 * (4 - best), lowest(card, request.count))

    def topology_problem(self, request: ChipRequest, chips: Chips, usable: int) -> str:
        """Name the free chips."""
        return (
            "checkNodeNPUByTask the npus on this node don't satisfy the schedulable topology : "
            f"req npu({request.count}) illegal not meet node top<{shown(usable)}>"
        )
