"""Time for the loop: as the clock on the wall has it, but never backwards, and never standing still.

A machine's clock may be set back. Cycles and deadlines then go on from where they were, at the pace of the
monotonic clock, ahead of the wall by as much as it was set back; where it is set forward, they follow. A
daemon that begins while the wall is behind the log goes on from the log. A clock that is stepped is passed on.
"""

import asyncio
from typing import Protocol


class Clock(Protocol):
    """The time, and how to let it pass."""

    is_stepped: bool
    """Whether time moves only when nothing else can."""
    is_over: bool
    """Whether nothing more can happen."""

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""

    def elapsed_ns(self) -> int:
        """Nanoseconds that only ever go forward."""

    async def settle(self) -> None:
        """Return when all that has happened so far has been shown; in real time, at once."""

    async def wait(self, until_ns: int | None, woken: asyncio.Event, longest_ns: int) -> None:
        """Until a moment or until woken."""


class SteadyClock:
    """The same clock, of which time never runs backwards."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now_ns = self._elapsed_ns = 0

    @property
    def is_stepped(self) -> bool:
        """Whether time moves only when nothing else can."""
        return self._clock.is_stepped

    @property
    def is_over(self) -> bool:
        """Whether nothing more can happen."""
        return self._clock.is_over

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch; what was told before, and what passed since, at least."""
        wall_ns = self._clock.now_ns()
        if self._clock.is_stepped:
            return wall_ns
        elapsed_ns = self._clock.elapsed_ns()
        if self._now_ns:
            wall_ns = max(wall_ns, self._now_ns + elapsed_ns - self._elapsed_ns)
        self._now_ns, self._elapsed_ns = wall_ns, elapsed_ns
        return wall_ns

    def not_before(self, moment_ns: int) -> None:
        """Go on from this moment at least."""
        if not self._clock.is_stepped and self.now_ns() < moment_ns:
            self._now_ns = moment_ns

    def elapsed_ns(self) -> int:
        """Nanoseconds that only ever go forward."""
        return self._clock.elapsed_ns()

    async def settle(self) -> None:
        """Return when all that has happened so far has been shown."""
        await self._clock.settle()

    async def wait(self, until_ns: int | None, woken: asyncio.Event, longest_ns: int) -> None:
        """Until a moment or until woken."""
        if until_ns is not None and not self._clock.is_stepped:
            until_ns -= self.now_ns() - self._clock.now_ns()
        await self._clock.wait(until_ns, woken, longest_ns)
