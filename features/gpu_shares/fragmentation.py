"""The fragmentation of GPUs that can be shared, and how much of it a placement would add.

The measure is that of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, section 4. A target workload is a set of pod types, each with the number of its pods.
For a type m and a node n, what is free of the GPUs of n is a fragment

- altogether, if m does not fit n, or asks for no GPU;
- else on each GPU that has less free than m needs of one.

F(n) is the mean of this over the types, weighted by their numbers; a pod goes where F grows least. Amounts are whole
thousandths of a GPU, and numbers of pods are whole, so that F times the number of all pods is a whole number: placements
are compared exactly.

Beside it stands what the measure does not see until it is too late: free GPUs for which a node has not enough cpu left.
`stranded` is the part of what is free that the cpu left does not suffice for, if pods ask for as much cpu per GPU as those
of the target workload do on average.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from features.gpu_shares.share_request import WHOLE

Numbers: TypeAlias = npt.NDArray[np.int64]

WEIGHT_MAX: Final = 1 << 24
"""Maximum sum of the numbers of pods, so that sums fit in 64 bits."""


class TargetType(NamedTuple):
    """Pods of the target workload that ask for the same."""

    cpu: int
    """In milli."""
    memory: int
    """In bytes."""
    gpus: int
    milli: int
    """Thousandths of each GPU."""
    pods: int
    """Number of these pods."""


class NodeState(NamedTuple):
    """What is free of a node."""

    cpu: int
    memory: int
    free: tuple[int, ...]
    """Thousandths of each GPU."""


class TargetWorkload:
    """Pod types against which fragmentation is measured."""

    def __init__(self, types: Iterable[TargetType]) -> None:
        self.types = tuple(sorted(one for one in types if one.pods > 0))

    @cached_property
    def total(self) -> int:
        """Return the number of pods."""
        return sum(one.pods for one in self.types)

    @cached_property
    def cpu_per_gpu(self) -> int:
        """Return the cpu of pods with GPUs for each GPU that they ask for, in milli; 0 if there are none."""
        asking = [one for one in self.types if one.gpus]
        milli = sum(one.gpus * one.milli * one.pods for one in asking)
        return sum(one.cpu * one.pods for one in asking) * WHOLE // milli if milli else 0

    @cached_property
    def _columns(self) -> tuple[Numbers, ...]:
        return tuple(np.array(one, dtype=np.int64) for one in zip(*self.types, strict=True))

    @cached_property
    def _sizes(self) -> tuple[Numbers, Numbers]:
        """Return the different sizes of shares, and for each type the index of its own."""
        sizes, index = np.unique(self._columns[3], return_inverse=True)
        return sizes, index

    def fragmentation(self, states: Sequence[NodeState]) -> list[int]:
        """Return F of each state, times the number of pods of the workload."""
        if not self.types or not states:
            return [0] * len(states)
        cpu, memory, gpus, _, pods = self._columns
        sizes, size_of = self._sizes
        width = max(1, max(len(one.free) for one in states))
        free = np.zeros((len(states), width), dtype=np.int64)
        for row, one in enumerate(states):
            free[row, : len(one.free)] = one.free
        left_cpu = np.array([one.cpu for one in states], dtype=np.int64)[:, None]
        left_memory = np.array([one.memory for one in states], dtype=np.int64)[:, None]
        is_large = free[:, :, None] >= sizes
        enough = (is_large & (free[:, :, None] > 0)).sum(axis=1)[:, size_of] >= gpus
        too_small = (free[:, :, None] * ~is_large).sum(axis=1)[:, size_of]
        serves = enough & (gpus > 0) & (left_cpu >= cpu) & (left_memory >= memory)
        fragments = np.where(serves, too_small, free.sum(axis=1)[:, None])
        return [int(one) for one in (fragments * pods).sum(axis=1)]

    def stranded(self, state: NodeState) -> int:
        """Return the thousandths of GPUs for which the cpu left does not suffice, times the number of pods of the
        workload."""
        free, need = sum(state.free), self.cpu_per_gpu
        if not need:
            return 0
        return max(0, free - max(0, state.cpu) * WHOLE // need) * self.total


def fragmentation_of(types: Sequence[TargetType], state: NodeState) -> int:
    """Return F of one state, times the number of pods: the formula as it is written."""
    total = 0
    for one in types:
        enough = sum(free >= one.milli for free in state.free if free) >= one.gpus > 0
        if enough and state.cpu >= one.cpu and state.memory >= one.memory:
            total += one.pods * sum(free for free in state.free if free < one.milli)
        else:
            total += one.pods * sum(state.free)
    return total
