"""One worker thread in which State is changed, so that the event loop goes on during a cycle.

A cycle and the intake of a batch are computation without a pause. In the event loop they would hold up the renewal of
the Lease, the probes, the watches and SIGTERM for as long as they take. The loop hands them to this thread and awaits
the result; until then nothing else reads or changes State.

Python's global lock is shared: the event loop gets it within `SWITCH_SECONDS` from Python code, and from a C call when the call
returns. A request needs it some six times (TLS and sockets give it up at each call), so with Python's own interval of 5 ms the
event loop would send some 250 requests a second during a cycle, a quarter of what it can.

A cycle that is not waited for any more (the lead is lost, or the grace of a shutdown is over) is abandoned. It works
on in a State that nothing else holds, its result is dropped, and the process can end without it.
"""

import asyncio
import queue
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import structlog

from events.errors import MusterError

LATE_SECONDS: Final = 10.0
"""A cycle, or a batch, that takes longer is a reason not to be ready."""

STUCK_SECONDS: Final = 300.0
"""A cycle, or a batch, that takes longer counts as stuck: the daemon is not live."""

SWITCH_SECONDS: Final = 0.0005
"""How long a thread keeps Python's global lock that another one waits for."""

_SECOND_NS: Final = 1_000_000_000

logger: Final = structlog.get_logger("muster")

T = TypeVar("T")


class StuckCycleError(MusterError):
    """A cycle did not end within the grace of a shutdown."""

    exit_code = 70


class _Task:
    """A call, and the future that awaits its result."""

    def __init__(self, what: str, call: Callable[[], Any], began_ns: int) -> None:
        self.what = what
        self.call = call
        self.began_ns = began_ns
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()


class DecidingThread:
    """Runs one call at a time. All methods belong to the event loop's thread."""

    def __init__(self, elapsed_ns: Callable[[], int]) -> None:
        self._elapsed_ns = elapsed_ns
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._under_way: _Task | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def is_busy(self) -> bool:
        """Whether a call is under way, abandoned or not: State must not be read."""
        return self._under_way is not None

    @property
    def seconds(self) -> float:
        """How long the call that is under way has taken; 0 where there is none."""
        task = self._under_way
        return 0.0 if task is None else (self._elapsed_ns() - task.began_ns) / _SECOND_NS

    async def until_idle(self) -> None:
        """Return when no call is under way."""
        while self.is_busy:
            await self._idle.wait()

    async def run(self, what: str, call: Callable[[], T]) -> T:
        """Return what the call returns, or raise what it raises. When cancelled, abandon it.

        `what` names it, as in "the cycle".
        """
        await self.until_idle()
        if self._thread is None:
            sys.setswitchinterval(SWITCH_SECONDS)
            # A daemon thread: the process does not wait for it at its end.
            self._thread = threading.Thread(target=self._work, name="deciding", daemon=True)
            self._thread.start()
        task = self._under_way = _Task(what, call, self._elapsed_ns())
        self._idle.clear()
        self._tasks.put(task)
        result: T = await task.future
        return result

    def close(self) -> None:
        """End the thread, once the call under way has ended."""
        self._tasks.put(None)

    def reasons(self) -> Mapping[str, str]:
        """The reason `cycle` while a call takes longer than `LATE_SECONDS`."""
        task, seconds = self._under_way, self.seconds
        if task is None or seconds <= LATE_SECONDS:
            return {}
        return {"cycle": f"{task.what} has taken {seconds:.0f} s"}

    def still(self) -> Mapping[str, float]:
        """A call that takes longer than `STUCK_SECONDS`."""
        seconds = self.seconds
        return {"cycle": seconds} if seconds > STUCK_SECONDS else {}

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            result, error = None, None
            try:
                result = task.call()
            except BaseException as raised:  # raised again where the call is awaited
                error = raised
            try:
                task.loop.call_soon_threadsafe(self._end, task, result, error)
            except RuntimeError:
                return  # The event loop is closed: the process is ending.
            del task, result, error  # A snapshot is large, and the next call may be far off.

    def _end(self, task: _Task, result: object, error: BaseException | None) -> None:
        """In the event loop: hand the result over, unless the call was abandoned."""
        seconds = round(self.seconds, 1)
        self._under_way = None
        self._idle.set()
        if task.future.cancelled():
            logger.warning("an abandoned cycle ended", what=task.what, seconds=seconds)
        elif error is not None:
            task.future.set_exception(error)
        else:
            task.future.set_result(result)
