"""The requests to the server with their faults, for tests and for counting requests."""

from collections import defaultdict, deque
from math import inf
from typing import Final

from msgspec import Struct

ENTRIES_MAX: Final = 200_000
"""The most entries kept; older ones are dropped."""
MINUTE: Final = 60.0


class Entry(Struct, frozen=True):
    """One request. `fault` is empty without a fault; status 0 means no response."""

    index: int
    at_seconds: float
    verb: str
    resource: str
    """`pods`, `pods/binding`; the path if it names no resource."""
    namespace: str
    name: str
    status: int
    fault: str = ""


class Journal:
    """All requests, and the times of lists and watches."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque(maxlen=ENTRIES_MAX)
        self.count = 0
        self._times: dict[str, list[float]] = defaultdict(list)

    def next_index(self) -> int:
        """The number of the next request, from 1."""
        self.count += 1
        return self.count

    def note(self, entry: Entry) -> None:
        """Record a request, answered or not."""
        self.entries.append(entry)

    def note_watching(self, resource: str, at_seconds: float) -> None:
        """Record a list or watch of a resource (`pods`, `jobs.batch`)."""
        self._times[resource].append(at_seconds)

    def busiest_minute(
        self, resource: str, since_seconds: float = 0.0, until_seconds: float = inf
    ) -> int:
        """The most lists and watches of a resource in any minute (rule K3.11: at most 60 of one client)."""
        times = [at for at in self._times.get(resource, []) if since_seconds <= at < until_seconds]
        first = most = 0
        for last, at in enumerate(times):
            while at - times[first] >= MINUTE:
                first += 1
            most = max(most, last - first + 1)
        return most

    def watched(self) -> tuple[str, ...]:
        """The resources that were listed or watched."""
        return tuple(sorted(self._times))
