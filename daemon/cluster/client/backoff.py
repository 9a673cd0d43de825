"""How long to wait before asking again (rule K3.11). Pure: time and chance are handed in."""

from collections import deque
from collections.abc import Callable
from typing import Final

FIRST_SECONDS: Final = 0.8
"""The longest first wait; each later one is up to twice as long as the one before."""
LONGEST_SECONDS: Final = 30.0
HEALTHY_SECONDS: Final = 120.0
"""After so long without a failure the next one counts as the first."""

REQUESTS_MAX: Final = 54
"""Requests that a watch may cause within `WINDOW_SECONDS`.

Sixty a minute is the wall. Each watch may, beside what its reflector asks, repeat one list and one open
a minute after a 401 (K3.9).
"""
WINDOW_SECONDS: Final = 61.0
"""A minute, and one second for what the network takes: the server counts arrivals."""


class Backoff:
    """Waits that double with each failure, from nothing up to all of it at random (full jitter)."""

    def __init__(self, jitter: Callable[[], float]) -> None:
        """`jitter` answers a number from 0 up to 1, a new one each time."""
        self._jitter = jitter
        self._failures = 0
        self._healthy_from = 0.0

    def failed(self, now_seconds: float) -> float:
        """Seconds to wait after a failure at this time, on any clock that only goes forward."""
        if now_seconds - self._healthy_from >= HEALTHY_SECONDS:
            self._failures = 0
        # Beyond sixteen doublings the longest wait holds anyway.
        longest: float = min(LONGEST_SECONDS, FIRST_SECONDS * 2 ** min(self._failures, 16))
        self._failures += 1
        wait = longest * self._jitter()
        self._healthy_from = now_seconds + wait
        return wait

    def reset(self) -> None:
        """Begin again, as after a success that settles the matter."""
        self._failures = 0


class RequestBudget:
    """At most so many requests in any window of time, whatever the server does (rule K3.11)."""

    def __init__(
        self, requests_max: int = REQUESTS_MAX, window_seconds: float = WINDOW_SECONDS
    ) -> None:
        self._window_seconds = window_seconds
        self._spent: deque[float] = deque(maxlen=requests_max)
        self._requests_max = requests_max

    def wait_seconds(self, now_seconds: float) -> float:
        """Seconds until the next request may be made; 0 for at once."""
        if len(self._spent) < self._requests_max:
            return 0.0
        return max(0.0, self._spent[0] + self._window_seconds - now_seconds)

    def is_half_spent(self, now_seconds: float) -> bool:
        """Whether half of the requests of a window were made within the last one."""
        half = self._requests_max // 2
        return len(self._spent) >= half and now_seconds - self._spent[-half] < self._window_seconds

    def spend(self, now_seconds: float) -> None:
        """A request is made at this time."""
        self._spent.append(now_seconds)
