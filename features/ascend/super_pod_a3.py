"""A3 servers in SuperPoDs (`accelerator-type: module-a3-16-super-pod`, `module-a3-8-super-pod`).

A job is cut into logical SuperPoDs of `sp-block` chips, each of which is in one SuperPoD (`features/super_pods/`). Chips
inside a node are those of any A3 server.
"""

from dataclasses import dataclass
from typing import Final

from features.ascend.chips import (
    INVALID_ARGUMENT,
    INVALID_REQUEST,
    NO_PROBLEM,
    ChipRequest,
    Chips,
    JobChips,
    Problem,
)
from features.ascend.module_a3 import ModuleA3

SUPER_POD_NODES: Final = 48
"""Default number of nodes of a SuperPoD."""


@dataclass(frozen=True)
class SuperPodA3(ModuleA3):
    """A3 servers that are linked beyond the node."""

    title = "A3 SuperPoD"
    block: int | None = None
    """Number of chips of a logical SuperPoD (annotation `sp-block`); None: all chips of the job."""
    super_pod_size: int = SUPER_POD_NODES
    """Number of nodes of a SuperPoD."""

    @property
    def node_types(self) -> tuple[str, ...]:
        """Return the label of these servers."""
        return (f"module-a3-{self.chips_max}-super-pod",)

    def problem(self, job: JobChips) -> Problem:
        """Return what is wrong with the blocks or with the number of chips of a task."""
        block = job.total if self.block is None else self.block
        return self._block_problem(job, block) or self._task_problem(job, block) or NO_PROBLEM

    def usable(self, request: ChipRequest, chips: Chips) -> int:
        """Return the free chips. Only a job of several blocks needs chips that reach other nodes by the network."""
        if self.block is None or request.total <= self.block:
            return chips.free
        return super().usable(request, chips)

    def _block_problem(self, job: JobChips, block: int) -> Problem | None:
        most = self.chips_max
        if block <= 0:
            return Problem(INVALID_ARGUMENT, f"sp-block({block}) is invalid")
        if (block < most or block % most) and block != job.total:
            return Problem(
                INVALID_ARGUMENT, f"sp-block({block}) is not mutiple of node npu ({most})"
            )
        nodes = max(1, block // most)
        if nodes > self.super_pod_size:
            return Problem(
                INVALID_REQUEST,
                f"sp-block({block}/{most}={nodes}) is bigger than size of "
                f"super-pod({self.super_pod_size})",
            )
        return None

    def _task_problem(self, job: JobChips, block: int) -> Problem | None:
        most, total = self.chips_max, job.total
        text = ""
        if not job.is_distributed:
            if total != 1 and (total % 2 or not 2 <= total <= most):
                text = f"standalone super-pod job require npu [1, 2*n], instead of {total}"
            elif total != block:
                text = (
                    f"the sp-block<{block}> in annotations of standalone super-pod job should equal to "
                    f"required npu num<{total}>"
                )
        elif total % block:
            text = f"distributed super-pod job require npu({total}) should be multiple of sp-block"
        elif any(one.count != most for one in job.tasks):
            text = f"distributed super-pod job require npu({total}) should be equal to node npu({most})"
        return Problem(INVALID_REQUEST, text) if text else None
