"""A3 server (`accelerator-type: module-a3-16`): cards with two dies each, `2k` and `2k + 1`.

A task gets complete cards. Only the one task of a job can ask for a single die: it gets that of a half-used card first.
"""

from dataclasses import dataclass

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
    groups,
    lowest,
    shown,
)


@dataclass(frozen=True)
class ModuleA3(Product):
    """Cards of two dies: eight of them, or four on a half node of a SuperPoD."""

    title = "A3"
    group = Group("card", 2)
    chips_max: int = 16

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the label of these servers."""
        return ("module-a3-16",)

    def problem(self, job: JobChips) -> Problem:
        """Return whether a task asks for an odd number of dies, other than the only task for a single one."""
        counts = [one.count for one in job.tasks]
        if 1 in counts:
            if job.task_count == 1 and len(counts) == 1:
                return NO_PROBLEM
            return Problem(INVALID_REQUEST, "only single task job can request single npu")
        if any(one % 2 or not 2 <= one <= self.chips_max for one in counts) or job.total % 2:
            return Problem(
                INVALID_REQUEST,
                "only standalone job can request single npu, npu num required by task in "
                f"a3x{self.chips_max} job must be 2n, and <= {self.chips_max}",
            )
        return NO_PROBLEM

    def place(self, request: ChipRequest, chips: Chips, usable: int) -> Placing | None:
        """Return the lowest complete cards; for a single die that of the first half-used card."""
        cards = groups(usable, 2, self.chips_max)
        complete = sum(one for one in cards if one.bit_count() == 2)
        half_used = [one for one in cards if one.bit_count() == 1]
        best = usable.bit_count() - request.count
        if request.count == 1:
            return Placing(
                16 * (32 - best - (0 if half_used else 16)),
                half_used[0] if half_used else lowest(usable, 1),
            )
        if request.count % 2 or complete.bit_count() < request.count:
            return None
        return Placing(16 * (32 - best), lowest(complete, request.count))

    def topology_problem(self, request: ChipRequest, chips: Chips, usable: int) -> str:
        """Name the free dies."""
        return f"npu top{shown(usable)} is not meet task req({request.count})"
