"""300I Duo cards with two 310P chips each (labels `duo: "true"`, `npu-310-strategy: card`): a task gets chips of one
card."""

from dataclasses import dataclass
from typing import ClassVar, Final

from features.ascend.card_910 import CARD_TABLE
from features.ascend.chips import (
    INVALID_REQUEST,
    ChipRequest,
    Chips,
    Group,
    JobChips,
    Placing,
    Problem,
    Product,
    count_problem,
    groups,
    lowest,
)

CARD: Final = 2


@dataclass(frozen=True)
class DuoCard310P(Product):
    """Cards of two chips, up to 32 chips a node."""

    title = "310P Duo card"
    group = Group("card", CARD)
    heeds_network: ClassVar[bool] = False
    chips_max: int = 32
    is_across_cards: bool = False
    """Whether the label `distributed: "true"` is set."""

    def problem(self, job: JobChips) -> Problem:
        """Return the tasks that ask for more than a card, or whether there are several with `distributed`."""
        return distributed_problem(job, self.is_across_cards) or count_problem(job, CARD)

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing | None:
        """Return chips of the card with the fewest free ones, the first of equals."""
        count = request.count
        cards = groups(usable, CARD, self.chips_max)
        fitting = [one for one in cards if one.bit_count() >= count]
        if not fitting or count > CARD:
            return None
        card = min(fitting, key=int.bit_count)
        best = CARD_TABLE[count][card.bit_count() - 1]
        return Placing(8 * (2 - best), lowest(card, count))


def distributed_problem(job: JobChips, is_across_cards: bool) -> Problem | None:
    """Return whether a job with the label `distributed: "true"` has several tasks."""
    if not is_across_cards or not job.is_distributed:
        return None
    text = "job with label of distributed=true should have only 1 npu pod"
    return Problem(INVALID_REQUEST, text)
