"""Rate limit for log lines that users of a cluster can cause: one line per window, with a count."""

from collections.abc import Callable
from typing import Final

WINDOW_SECONDS: Final = 60.0
"""One line for each key and window; the next one says how many were left out."""

KEYS_MAX: Final = 256
"""Keys remembered at a time; further ones share one window."""

_OTHER: Final = "other"
_SECOND_NS: Final = 1_000_000_000


class LogRateLimit:
    """Counts events by key, and decides when one of them is logged."""

    def __init__(
        self, elapsed_ns: Callable[[], int], window_seconds: float = WINDOW_SECONDS, burst: int = 1
    ) -> None:
        self._elapsed_ns = elapsed_ns
        self._window_ns = round(window_seconds * _SECOND_NS)
        self._burst = burst
        self._windows: dict[str, tuple[int, int]] = {}
        """Key to when its window began, and how many events there were in it."""

    def allows(self, key: str) -> int | None:
        """Return the number of events left out since the last line if this one may be logged; else None."""
        if key not in self._windows and len(self._windows) >= KEYS_MAX:
            key = _OTHER
        now = self._elapsed_ns()
        began, count = self._windows.get(key, (now, 0))
        if now - began >= self._window_ns:
            self._windows[key] = (now, 1)
            return max(0, count - self._burst)
        self._windows[key] = (began, count + 1)
        return 0 if count < self._burst else None
