"""The only file that reads a clock."""

import asyncio
import time


class WallClock:
    """Real time, in nanoseconds since the Unix epoch."""

    is_over = False

    def now_ns(self) -> int:
        """Now. May jump when the machine's clock is set; State never goes back with it."""
        return time.time_ns()

    def elapsed_ns(self) -> int:
        """Time that only ever goes forward, from an arbitrary beginning."""
        return time.monotonic_ns()

    async def wait(self, until_ns: int | None, woken: asyncio.Event, longest_ns: int) -> None:
        """Until a moment, or until woken, but never longer than `longest_ns`."""
        left = longest_ns if until_ns is None else min(max(0, until_ns - self.now_ns()), longest_ns)
        try:
            async with asyncio.timeout(left / 1_000_000_000):
                await woken.wait()
        except TimeoutError:
            return
