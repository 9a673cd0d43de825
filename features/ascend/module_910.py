"""910 server with 8 chips (`accelerator-type` absent or `module`): two rings of four, {0-3} and {4-7}.

Chips of one task are in one ring, or the task takes both. The table prefers remainders that serve pairs: taking one chip
from a ring of 3 leaves a pair, so a ring of 3 is preferred to one of 2.
"""

from dataclasses import dataclass
from typing import Final

from features.ascend.chips import (
    INVALID_REQUEST,
    NO_PROBLEM,
    ChipRequest,
    Chips,
    Group,
    JobChips,
    Placing,
    Problem,
    Product,
    device_names,
    groups,
    lowest,
    named,
)

RING: Final = 4
X: Final = 4
RING_TABLE: Final = {1: (0, 2, 1, 3), 2: (X, 0, 2, 1), 4: (X, X, X, 0)}
"""Request to the value of a ring with 1, 2, 3, 4 free chips: smaller is better, X does not fit."""


@dataclass(frozen=True)
class Module910(Product):
    """Two rings of four chips."""

    title = "910 module x8"
    group = Group("ring", RING)
    chips_max: int = 8
    strict_8n: bool = False
    """Whether distributed jobs take whole nodes."""

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the label of these servers."""
        return ("module", "")

    def problem(self, job: JobChips) -> Problem:
        """Return the first task that asks for another number than 1, 2, 4 or 8."""
        valid = (8,) if self.strict_8n and job.is_distributed else (1, 2, 4, 8)
        return ring_problem(job, valid)

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing | None:
        """Return chips of the ring with the smallest value; of equal rings those of the left one."""
        free = usable.bit_count()
        if request.count == self.chips_max:
            found = (0, usable) if free == self.chips_max else None
        else:
            found = best_ring(request.count, groups(usable, RING, self.chips_max))
        if found is None:
            return None
        best, ring = found
        score = 8 * (chips.allocatable * 4 - best) + (self.chips_max - free)
        return Placing(score, lowest(ring, request.count))

    def topology_problem(self, request: ChipRequest, chips: Chips, usable: int) -> str:
        """Name the chips that cannot reach other nodes."""
        lost = device_names(request.resource, chips.network_unhealthy)
        return f"npu topology not meet job require,network unhealthy card is [ {lost} ]"


def best_ring(count: int, rings: list[int]) -> tuple[int, int] | None:
    """Return the smallest value and its ring, the first of equals; None if no ring serves the request."""
    table = RING_TABLE.get(count)
    if table is None:
        return None
    found = [(table[one.bit_count() - 1], one) for one in rings if one]
    best = min(found, key=lambda entry: entry[0], default=(X, 0))
    return best if best[0] < X else None


def ring_problem(job: JobChips, valid: tuple[int, ...]) -> Problem:
    """Return the first task that asks for a number of chips that no ring serves."""
    wrong = [one.count for one in job.tasks if one.count not in valid]
    if not wrong:
        return NO_PROBLEM
    listed = ",".join(map(str, valid))
    text = (
        f"checkSingleTrainMode {named('job', job.name)} req npu num <{wrong[0]}> not in [{listed}]"
    )
    return Problem(INVALID_REQUEST, text)
