"""910B server with 8 chips, A800T A2 (`accelerator-type: module-910b-8`): all chips are linked to each other."""

from dataclasses import dataclass

from features.ascend.chips import ChipRequest, Chips
from features.ascend.ungrouped import Ungrouped


@dataclass(frozen=True)
class Module910B(Ungrouped):
    """Eight chips without rings. The table is the number of chips that remain free."""

    title = "910B x8"
    chips_max: int = 8

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the label of these servers."""
        return ("module-910b-8",)

    def table_score(self, request: ChipRequest, chips: Chips, free: int) -> int:
        """Return the score by the table: fewer remaining chips win."""
        return self.chips_max * (chips.allocatable - (free - request.count))
