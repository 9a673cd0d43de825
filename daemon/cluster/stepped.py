"""A simulated cluster in virtual time, which advances only when nothing is left to do.

Neither the order in which tasks wake nor the latency of a database can change what happens when.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

from events.errors import UsageError
from events.messages import Reply, Request, ResumePoint, WatchMessage
from simulator.cluster import SimulatedCluster
from simulator.journal import execute

RETRIES_MAX: Final = 1_000
"""Number of times in a row that the clock advances to a deadline of the scheduler while the cluster has no event left:
then the scenario never comes to rest."""


class SteppedCluster:
    """A simulated cluster in virtual time. Calls are answered at once."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self.simulated = simulated
        self._moved = asyncio.Event()
        self._shown = asyncio.Event()
        """Set when every watch event has been read."""

    async def messages(self) -> AsyncIterator[list[WatchMessage]]:
        """Yield watch events as they happen."""
        while True:
            self._moved.clear()
            if taken := self.simulated.poll_watch():
                yield taken
            else:
                self._shown.set()
                await self._moved.wait()

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """Show all objects again: a simulated cluster keeps no history."""
        self.simulated.relist()
        self._stir()

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Execute a request; returns its result and the number of tries."""
        self._stir()
        return execute(self.simulated, request), 1

    def advance(self, to_ns: int) -> None:
        """Advance virtual time."""
        self.simulated.advance(to_ns)
        self._stir()

    async def settle(self) -> None:
        """Return when every watch event has been read."""
        await self._shown.wait()

    def _stir(self) -> None:
        self._shown.clear()
        self._moved.set()


class VirtualClock:
    """The clock of a simulated cluster: it advances to the next event."""

    def __init__(self, cluster: SteppedCluster, until_ns: int | None = None) -> None:
        self._cluster = cluster
        self._until_ns = until_ns
        self._retries = 0
        self.is_over = False

    def now_ns(self) -> int:
        """Nanoseconds since the scenario began."""
        return self._cluster.simulated.now_ns

    def elapsed_ns(self) -> int:
        """The same as `now_ns`: nothing takes time in a simulation."""
        return self._cluster.simulated.now_ns

    async def settle(self) -> None:
        """Run all events that are due now, and let them be read."""
        due = self._cluster.simulated.next_event_ns
        if due is not None and due <= self._cluster.simulated.now_ns:
            self._cluster.advance(self._cluster.simulated.now_ns)
        await self._cluster.settle()

    async def wait(self, until_ns: int | None, woken: asyncio.Event, longest_ns: int) -> None:
        """Advance to the next event or to `until_ns`, whichever is first.

        Raises:
            UsageError: The scenario has no end, and only the scheduler goes on, again and again.
        """
        await self._cluster.settle()
        if woken.is_set():
            return
        moments = [
            one for one in (until_ns, self._cluster.simulated.next_event_ns) if one is not None
        ]
        target = min(moments, default=None)
        if target is None or (self._until_ns is not None and target > self._until_ns):
            if self._until_ns is not None:
                self._cluster.advance(self._until_ns)
            self.is_over = True
            return
        is_retry = self._cluster.simulated.next_event_ns is None and self._until_ns is None
        self._retries = self._retries + 1 if is_retry else 0
        if self._retries > RETRIES_MAX:
            raise UsageError(
                f"the scenario does not come to rest: at {target / 1e9:.0f} s the scheduler tries something for the "
                f"{self._retries}th time, and nothing else is left to happen; say when it ends (`until`)"
            )
        self._cluster.advance(target)
