"""Virtual time for real connections: when no task is ready, time advances to the next timer at once."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

from daemon.clock import WallClock

T = TypeVar("T")
P = ParamSpec("P")

GRACE_SECONDS: Final = 0.00005
"""Real time in which bytes that are on their way through the kernel arrive."""
THREAD_SECONDS: Final = 30.0
ORIGIN_NS: Final = 1_700_000_000_000_000_000


class Hurried(selectors.SelectSelector):
    """Waits for a connection a little while; what it would have waited longer is counted instead."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 1000.0

    def is_thread_at_work(self) -> bool:
        """Whether time waits for a thread, which wakes the loop when it is done. Tests with threads replace this."""
        return False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """What is ready."""
        if ready := super().select(0):
            return ready
        if timeout is None or (timeout > 0 and self.is_thread_at_work()):
            # A thread has something to do, and it does it in real time.
            ready = super().select(THREAD_SECONDS)
            assert ready, "nothing will ever happen any more"
        elif timeout > 0 and not (ready := super().select(GRACE_SECONDS)):
            self.passed += timeout
        return ready


class HurriedLoop(asyncio.SelectorEventLoop):
    """An event loop on such a clock."""

    def __init__(self) -> None:
        self._hurried = Hurried()
        super().__init__(self._hurried)

    def time(self) -> float:
        """Virtual seconds."""
        return self._hurried.passed


class LoopClock(WallClock):
    """The time of the loop in which it was first asked, also for other threads."""

    _loop: asyncio.AbstractEventLoop | None = None

    def now_ns(self) -> int:
        """As if the loop had begun at a certain moment."""
        return ORIGIN_NS + self.elapsed_ns()

    def elapsed_ns(self) -> int:
        """Of the loop."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return int(self._loop.time() * 1_000_000_000)


def hurried(story: Coroutine[Any, Any, T]) -> T:
    """What comes of a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=HurriedLoop) as runner:
        return runner.run(story)


def hurriedly(story: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """A test that runs in virtual time."""

    @wraps(story)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return hurried(story(*args, **kwargs))

    return run
