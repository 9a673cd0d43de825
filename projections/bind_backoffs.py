"""Keep how often the bindings of pod groups have failed in a row, and until when such a group is not tried again."""

from collections.abc import Iterable
from typing import Final

from events.duration import SECOND, doubled

BACKOFF_MAX_NS: Final = 60 * SECOND
"""Longest back-off. The first is one second; each further one doubles."""


class BindBackoffs:
    """Back-offs of pod groups after failed bindings; longer each time."""

    def __init__(self) -> None:
        self.until: dict[str, int] = {}
        """Pod group key to the time before which it is not tried again, in ns."""
        self.failures: dict[str, int] = {}
        """Pod group key to the number of consecutive failed bindings."""

    def begin(self, key: str, at_ns: int) -> None:
        """Let a group wait after a binding of it failed at this time."""
        times = self.failures[key] = self.failures.get(key, 0) + 1
        self.until[key] = at_ns + doubled(SECOND, times, BACKOFF_MAX_NS)

    def end(self, at_ns: int) -> Iterable[str]:
        """End the back-offs that are over; return the keys of these groups."""
        over = [key for key, until in self.until.items() if until <= at_ns]
        for key in over:
            del self.until[key]
        return over

    def succeeded(self, key: str) -> None:
        """Forget the failures of a group of which a pod was bound."""
        self.failures.pop(key, None)

    def forget(self, key: str) -> None:
        """Forget a group that is gone."""
        self.until.pop(key, None)
        self.failures.pop(key, None)
