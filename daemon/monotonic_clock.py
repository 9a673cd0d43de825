"""The time of the loop: close to the wall clock, but never backwards, and never with a large step.

A machine's clock may be set. The time of the loop runs at the pace of the monotonic clock and is corrected towards the
wall clock: if that is ahead by no more than `FOLLOWED_NS`, at once; if it is further ahead, time runs twice as fast
until it has caught up; if it is behind, half as fast. So deadlines, which are kept in this time, come at most twice as
early or late as they should, and an error of the clock does not stay in the log for ever. While the two are further
apart than that bound, the daemon is not ready, with the reason `clock`.

If the wall clock is behind the log at the start, time continues from the log; if it is ahead, from the wall clock, as it
is unknown for how long no daemon led. The stepped clock of a simulation is used as it is (`SteppedTime`).
"""

import asyncio
from typing import Final, Protocol

FOLLOWED_NS: Final = 60_000_000_000
"""How far the wall clock may be ahead to be followed at once: what a time service corrects in one step."""

FASTER: Final = 2
"""How much faster, or slower, time runs while it is corrected."""


class Clock(Protocol):
    """The time, and how to wait."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more can happen."""

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""

    def elapsed_ns(self) -> int:
        """Monotonic time in nanoseconds."""

    async def wait(self, until_ns: int | None, woken: asyncio.Event, longest_ns: int) -> None:
        """Wait until a time or until woken."""


class SteppedClock(Clock, Protocol):
    """A clock that moves only when nothing else can."""

    async def settle(self) -> None:
        """Return when all events so far have been shown."""


class LoopTime(Clock, Protocol):
    """The time of the loop: a clock that never runs backwards."""

    ahead_ns: int
    """How far this time was ahead of the wall clock at the last check; below 0 if it was behind."""

    @property
    def is_off(self) -> bool:
        """Return True if the wall clock is too far away to be followed at once."""

    def not_before(self, moment_ns: int) -> None:
        """Continue from this time at least."""


class SteppedTime:
    """The time of a stepped clock: nothing sets that."""

    is_off = False

    def __init__(self, clock: Clock) -> None:
        self.ahead_ns = 0
        self.now_ns = clock.now_ns
        self.elapsed_ns = clock.elapsed_ns
        self.wait = clock.wait
        self._clock = clock

    @property
    def is_over(self) -> bool:
        """Whether nothing more can happen."""
        return self._clock.is_over

    def not_before(self, moment_ns: int) -> None:
        """The time of a scenario is that of its log."""


class MonotonicClock:
    """A clock whose time never runs backwards."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._now_ns = self._elapsed_ns = 0
        self.ahead_ns = 0
        """How far this time was ahead of the wall clock at the last check; below 0 if it was behind."""

    @property
    def is_over(self) -> bool:
        """Whether nothing more can happen."""
        return self._clock.is_over

    def now_ns(self) -> int:
        """Nanoseconds since the Unix epoch, as near to the wall clock as the pace allows."""
        wall_ns = self._clock.now_ns()
        elapsed_ns = self._clock.elapsed_ns()
        if not self._now_ns:
            self._now_ns = wall_ns
        else:
            self._now_ns += self._advance(wall_ns, elapsed_ns - self._elapsed_ns)
        self._elapsed_ns = elapsed_ns
        self.ahead_ns = self._now_ns - wall_ns
        return self._now_ns

    def not_before(self, moment_ns: int) -> None:
        """Continue from this time at least."""
        if self.now_ns() < moment_ns:
            self.ahead_ns += moment_ns - self._now_ns
            self._now_ns = moment_ns

    @property
    def is_off(self) -> bool:
        """Return True if the wall clock is too far away to be followed at once."""
        return abs(self.ahead_ns) > FOLLOWED_NS

    def _advance(self, wall_ns: int, passed_ns: int) -> int:
        """How far time advances for a span of monotonic time."""
        missing_ns = wall_ns - (self._now_ns + passed_ns)
        if missing_ns > FOLLOWED_NS:
            return passed_ns + min(missing_ns, passed_ns * (FASTER - 1))
        if missing_ns >= 0:
            return passed_ns + missing_ns
        return max(passed_ns + missing_ns, passed_ns // FASTER)

    def elapsed_ns(self) -> int:
        """Monotonic time in nanoseconds."""
        return self._clock.elapsed_ns()

    async def wait(self, until_ns: int | None, woken: asyncio.Event, longest_ns: int) -> None:
        """Wait until a time or until woken."""
        if until_ns is not None:
            left_ns = until_ns - self.now_ns()
            if self.ahead_ns > 0:
                # The correction may end earlier; then this is a little late, and the next wait is not.
                left_ns += min(left_ns * (FASTER - 1), self.ahead_ns)
            elif self.is_off:
                left_ns //= FASTER
            until_ns = self._clock.now_ns() + left_ns
        await self._clock.wait(until_ns, woken, longest_ns)
