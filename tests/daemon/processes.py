"""Several processes in one virtual time, each with an event loop and a monotonic clock of its own.

A process that is paused does nothing while time goes on: when it wakes, all that came due meanwhile is there
at once, in the order in which it was due. That is what a stopped process or a starved machine looks like.
"""

import asyncio
import heapq
import math
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class Universe:
    """The true time, what happens in it, and the processes that live in it."""

    def __init__(self) -> None:
        self.now = 0.0
        self._happenings: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0
        self._processes: list[Process] = []

    def at(self, when: float, happens: Callable[[], None]) -> None:
        """Something happens at a moment, whatever the processes do."""
        self._count += 1
        heapq.heappush(self._happenings, (when, self._count, happens))

    def process(
        self,
        main: Callable[[], Coroutine[Any, Any, None]],
        *,
        offset: float = 0.0,
        rate: float = 1.0,
    ) -> "Process":
        """A process whose monotonic clock begins at `offset` and runs at `rate`."""
        made = Process(self, offset, rate)
        made.task = made.loop.create_task(main())
        self._processes.append(made)
        return made

    def run(self, until: float) -> None:
        """Let time pass."""
        while True:
            first = min(self._processes, key=Process.next_moment)
            next_process = first.next_moment()
            next_happening = self._happenings[0][0] if self._happenings else math.inf
            moment = min(next_process, next_happening)
            if moment > until:
                self.now = until
                return
            self.now = max(self.now, moment)
            if next_happening <= next_process:
                heapq.heappop(self._happenings)[2]()
            else:
                first.loop.run_once()

    def close(self) -> None:
        """End every process. What one of them failed with is raised."""
        for process in self._processes:
            process.close()


class Process:
    """One process."""

    def __init__(self, universe: Universe, offset: float, rate: float) -> None:
        self.loop = _Loop(lambda: offset + rate * universe.now)
        self.task: asyncio.Task[None] | None = None
        self._universe = universe
        self._offset, self._rate = offset, rate
        self._paused_until = 0.0

    def pause(self, seconds: float) -> None:
        """Do nothing for so long, from now on."""
        self._paused_until = self._universe.now + seconds

    def kill(self) -> None:
        """Never do anything again."""
        self._paused_until = math.inf

    def next_moment(self) -> float:
        """When it next has something to do."""
        due = self.loop.due()
        moment = self._universe.now if due == 0 else (due - self._offset) / self._rate
        return max(moment, self._paused_until)

    def close(self) -> None:
        """Cancel all that is left of it."""
        try:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            for _ in range(100):
                self.loop.run_once()
            assert not asyncio.all_tasks(self.loop)
            if self.task is not None and not self.task.cancelled() and self.task.exception():
                raise self.task.exception() or AssertionError
        finally:
            self.loop.close()


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that never waits; it is run once at a time."""

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__(_Nothing())
        self._clock = clock

    def time(self) -> float:
        return self._clock()

    def due(self) -> float:
        """When, by its own clock, it next has something to do: 0 for now, infinity for never."""
        ready, scheduled = self._ready, self._scheduled  # type: ignore[attr-defined]
        if ready:
            return 0.0
        waiting = [handle.when() for handle in scheduled if not handle.cancelled()]
        return min(waiting, default=math.inf)

    def run_once(self) -> None:
        """What is ready, and no more."""
        self.call_soon(self.stop)
        self.run_forever()


class _Nothing(selectors.DefaultSelector):
    """Nothing ever comes from outside."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return []
