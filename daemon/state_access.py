"""Where State is read and changed: in the deciding thread, or, where time stands still meanwhile, in the event loop itself."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

import structlog

from daemon.deciding_thread import DecidingThread, StuckCycleError
from daemon.health import Health

_SECOND_NS: Final = 1_000_000_000

logger: Final = structlog.get_logger("muster")

T = TypeVar("T")


class StateAccess:
    """Calls that read or change State, one at a time."""

    def __init__(self, thread: DecidingThread | None, health: Health, grace_ns: int) -> None:
        """`grace_ns` is how long a shutdown waits for a call that changes State."""
        self._thread = thread
        self._health = health
        self._grace_ns = grace_ns
        self._leave_by: float | None = None
        """When the grace ends, in the event loop's time; None until a shutdown began."""
        self._deadline: asyncio.Timeout | None = None
        """Of the change that is under way in the thread."""

    @property
    def has_thread(self) -> bool:
        """Whether the event loop goes on during a call."""
        return self._thread is not None

    @property
    def leave_by(self) -> float:
        """When the grace of a shutdown ends, in the event loop's time."""
        if self._leave_by is None:
            self._leave_by = asyncio.get_running_loop().time() + self._grace_ns / _SECOND_NS
        return self._leave_by

    def begin_shutdown(self) -> None:
        """Bound the change that is under way, and all later ones. Without a thread none is under way."""
        if self._thread is None or self._leave_by is not None:
            return
        leave_by = self.leave_by
        if self._deadline is not None:
            self._deadline.reschedule(leave_by)

    async def call(self, what: str, call: Callable[[], T]) -> T:
        """Return what a call returns, in the thread where there is one."""
        if self._thread is None:
            return call()
        self._health.rest()  # The thread has a bound of its own.
        try:
            return await self._thread.run(what, call)
        finally:
            self._health.beat()

    async def change(self, what: str, call: Callable[[], T]) -> T:
        """Return what a call returns that changes State. If it is under way when the grace of a shutdown ends, abandon it."""
        try:
            async with asyncio.timeout_at(self._leave_by) as self._deadline:
                return await self.call(what, call)
        except TimeoutError:
            if self._deadline is None or not self._deadline.expired():
                raise
            grace = f"{self._grace_ns / _SECOND_NS:g} s"
            logger.error("left during a cycle", what=what, grace=grace)
            raise StuckCycleError(
                f"{what} did not end within {grace} of being asked to stop; nothing of it was recorded"
            ) from None
        finally:
            self._deadline = None
