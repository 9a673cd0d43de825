"""A simulated cluster in real time, for `run --simulate SCENARIO --world FILE`.

Every call is committed to the file before it is answered or shown, so the cluster outlives the daemon's process as
a real one does.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping

from daemon.cluster.world_file import WorldFile
from events.duration import SECOND
from events.messages import Reply, Request, ResumePoint, WatchMessage
from simulator.journal import execute_and_record, rebuild_cluster
from simulator.scenario import Scenario

LONGEST_WAIT_SECONDS = 3600.0
"""The longest time between two checks of a cluster in which nothing happens."""


class RealTimeCluster:
    """A simulated cluster in real time, stored in a file. Concurrent calls share a commit."""

    def __init__(self, scenario: Scenario, file: WorldFile, now_ns: Callable[[], int]) -> None:
        self._file = file
        self._now_ns = now_ns
        self._simulated = rebuild_cluster(scenario, file.calls(), file.origin_ns)
        self._waiting: list[tuple[Request, asyncio.Future[Reply]]] = []
        self._woken = asyncio.Event()

    async def messages(self) -> AsyncGenerator[list[WatchMessage], None]:
        """Yield all objects first, kind by kind; then watch events as they happen."""
        self.resume_from({})
        while True:
            self._woken.clear()
            self._advance()
            if taken := self._simulated.poll_watch():
                yield taken
            else:
                await self._sleep()

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """Show all objects again: a simulated cluster keeps no history."""
        self._simulated.relist()
        self._woken.set()

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Execute a request; returns its result and the number of tries."""
        return await self.perform(request), 1

    async def perform(self, request: Request) -> Reply:
        """Execute a request; returns when it is durable."""
        return await self._call(request)

    async def close(self) -> None:
        """Close the file."""
        self._file.close()

    async def _call(self, request: Request) -> Reply:
        future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting.append((request, future))
        try:
            # Calls that are made meanwhile join this commit.
            await asyncio.sleep(0)
        finally:
            # A cancelled caller has made the call all the same.
            if not future.done():
                self._answer_all()
        return future.result()

    def _answer_all(self) -> None:
        """Execute all waiting calls. If they cannot be stored, neither they nor later calls are answered."""
        self._advance()
        waiting = self._waiting
        answers = [execute_and_record(self._simulated, request) for request, _ in waiting]
        self._file.append([call for _, call in answers])
        self._waiting = []
        self._woken.set()
        for (_, future), (reply, _) in zip(waiting, answers, strict=True):
            if not future.done():
                future.set_result(reply)

    def _advance(self) -> None:
        """Let time pass until now; after the clock was set back, wait until it has caught up."""
        self._simulated.advance(max(self._now_ns() - self._file.origin_ns, self._simulated.now_ns))

    async def _sleep(self) -> None:
        """Wait until a call changes something or the next event is due."""
        wait = LONGEST_WAIT_SECONDS
        if (due := self._simulated.next_event_ns) is not None:
            left = (due - (self._now_ns() - self._file.origin_ns)) / SECOND
            wait = min(max(left, 0.0), LONGEST_WAIT_SECONDS)
        try:
            async with asyncio.timeout(wait):
                await self._woken.wait()
        except TimeoutError:
            return
