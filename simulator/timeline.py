"""Scheduled actions by time; at equal times, in the order in which they were scheduled."""

from enum import Enum
from heapq import heappop, heappush

from msgspec import Struct

from simulator.object_store import Key


class ActionKind(Enum):
    """An action on a pod, or the reconcile of a workload."""

    START = "start"
    FINISH = "finish"
    REMOVE = "vanish"
    CHECKPOINT = "checkpoint"
    """A pod that is asked to release its resources writes a checkpoint, and exits then."""
    CONFIRM = "confirm"
    """A device plugin confirms the devices of a pod."""
    EVICT = "evict"
    """A pod has tolerated for long enough that its node cannot be reached."""
    FAULT = "fault"
    """A fault is noticed or ends; the key is not used."""
    RECONCILE = "look"
    """A controller reconciles a workload again; the key is not used."""


class ScheduledAction(Struct, frozen=True):
    """An action on one pod or workload. The uid tells it from a later object of the same name."""

    verb: ActionKind
    key: Key
    uid: str


class Timeline:
    """A priority queue by time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ScheduledAction]] = []
        self._count = 0

    @property
    def next_ns(self) -> int | None:
        """The time of the next action."""
        return self._heap[0][0] if self._heap else None

    def push(self, at_ns: int, due: ScheduledAction) -> None:
        """Schedule an action."""
        self._count += 1
        heappush(self._heap, (at_ns, self._count, due))

    def pop(self) -> ScheduledAction:
        """Remove and return the next action."""
        return heappop(self._heap)[2]
