"""How many pods of a group have which status.

Most groups have one pod, and few groups have different counts: equal counts are one row, shared by all groups that have them.
What follows from counts is computed once for each row.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from projections.pods import BINDING, PENDING, RELEASING, Pod

SHARED_MAX: Final = 1 << 14
"""Changes of counts whose results are kept."""


class StatusCounts(Struct, frozen=True, gc=False):
    """Number of pods by status, under the name of the status; of releasing pods only those that have a node."""

    gated: int = 0
    pending: int = 0
    binding: int = 0
    bound: int = 0
    running: int = 0
    releasing: int = 0
    succeeded: int = 0
    failed: int = 0
    unknown: int = 0
    ready: int = 0
    """Pods that count towards minMember, pending best-effort pods among them (they always fit)."""
    best_effort: int = 0
    """Pending best-effort pods."""
    allocated: int = 0
    """Pods that are charged to the queue."""
    finished: int = 0
    """Pods that failed, and those that succeeded and count towards minMember: not those that were asked to exit."""
    scheduled: int = 0
    """Pods that count towards the phase."""
    valid: int = 0
    """Pods that could still count towards minMember."""

    @property
    def ended_well(self) -> int:
        """Return the number of pods that succeeded and count towards minMember."""
        return self.finished - self.failed

    @property
    def by_status(self) -> Mapping[str, int]:
        """Return status to the number of pods, of those that there are."""
        return {name: count for name in _STATUSES if (count := getattr(self, name))}


_STATUSES: Final = StatusCounts.__struct_fields__[:9]

NO_PODS: Final = StatusCounts()


@lru_cache(SHARED_MAX)
def _changed(
    counts: StatusCounts, status: str, sign: int, ready: int, best_effort: int
) -> StatusCounts:
    numbers = [getattr(counts, name) for name in _STATUSES]
    if status:
        numbers[_STATUSES.index(status)] += sign
    gated, pending, binding, bound, running, releasing, succeeded, failed, unknown = numbers
    ready, best_effort = counts.ready + ready, counts.best_effort + best_effort
    allocated = binding + bound + running
    finished = ready - best_effort - allocated + failed
    return StatusCounts(
        *(gated, pending, binding, bound, running, releasing, succeeded, failed, unknown),
        ready=ready,
        best_effort=best_effort,
        allocated=allocated,
        finished=finished,
        scheduled=bound + running + releasing + finished,
        valid=ready - best_effort + pending,
    )


def counted(counts: StatusCounts, pod: Pod, sign: int) -> StatusCounts:
    """Return the counts with a pod added, or (-1) removed."""
    status = pod.status
    is_free = status == PENDING and pod.pod_class.is_best_effort
    return _changed(
        counts,
        status if status != RELEASING or pod.node else "",
        sign,
        sign if pod.is_ready or is_free else 0,
        sign if is_free else 0,
    )


def moved(counts: StatusCounts, before: str, after: str) -> StatusCounts:
    """Return the counts after a pod with a node has changed its status, and nothing else of it."""
    return _changed(_changed(counts, before, -1, 0, 0), after, 1, 0, 0)


def bound(counts: StatusCounts, count: int) -> StatusCounts:
    """Return the counts after so many pending pods, none of them best-effort, have got nodes."""
    return _changed(_changed(counts, PENDING, -count, 0, 0), BINDING, count, count, 0)
