"""What will happen by itself, by time; at one time, in the order in which it was set."""

from enum import Enum
from heapq import heappop, heappush

from msgspec import Struct

from simulator.object_store import Key


class ActionKind(Enum):
    """What befalls a pod on its node, or a workload."""

    START = "start"
    FINISH = "finish"
    REMOVE = "vanish"
    RECONCILE = "look"
    """A controller looks at a workload again; its key is of no matter."""


class ScheduledAction(Struct, frozen=True):
    """Something that befalls one pod or workload; by then, another may bear its name."""

    verb: ActionKind
    key: Key
    uid: str


class Timeline:
    """A queue by time."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, ScheduledAction]] = []
        self._count = 0

    @property
    def next_ns(self) -> int | None:
        """When the next thing happens."""
        return self._heap[0][0] if self._heap else None

    def push(self, at_ns: int, due: ScheduledAction) -> None:
        """It will happen then."""
        self._count += 1
        heappush(self._heap, (at_ns, self._count, due))

    def pop(self) -> ScheduledAction:
        """The next thing."""
        return heappop(self._heap)[2]
