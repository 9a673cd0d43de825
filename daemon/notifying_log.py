"""A log that reports each batch once it is durable, and each operation that takes too long.

An append that waits for a database that stands still fails only after the bounds of the driver. Long before that
the daemon is not ready: nothing is decided or done while it waits.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from daemon.log.contract import Log
from engine.batch import Batch
from events.record import Head
from projections.internal_error import OnError, ignore, report

Listener = Callable[[Batch, float], None]
"""Called with a batch, and the seconds from the append until it was durable. Must not wait."""


LATE_SECONDS: Final = 5.0
"""An operation that the log has not answered for so long is a reason not to be ready."""

_SECOND_NS: Final = 1_000_000_000


class NotifyingLog:
    """The part of a log that the loop needs, with listeners."""

    def __init__(
        self,
        log: Log,
        elapsed_ns: Callable[[], int],
        listeners: Iterable[Listener],
        on_error: OnError = ignore,
        until_idle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`until_idle` returns when State is not being changed: listeners may read it."""
        self._log = log
        self._elapsed_ns = elapsed_ns
        self._listeners = tuple(listeners)
        self._on_error = on_error
        self._until_idle = until_idle
        self._under_way: dict[int, tuple[str, int]] = {}
        """Number of an operation to what it is and when it began; the oldest first."""
        self._number = 0

    async def append(self, *batches: Batch) -> None:
        """Append batches; return when they are durable and listeners were called."""
        with self._timed("an append") as began:
            await self._log.append(*batches)
        seconds = (self._elapsed_ns() - began) / _SECOND_NS
        if self._until_idle is not None:
            await self._until_idle()
        for batch in batches:
            for listener in self._listeners:
                try:
                    listener(batch, seconds)
                except Exception as error:  # a bug that must not reach the writer of the log
                    report(error, "Log//", "listeners", self._on_error)

    async def take_over(self, holder: str) -> Head:
        """As the log does."""
        with self._timed("taking the log over"):
            return await self._log.take_over(holder)

    async def reopen(self) -> Head:
        """As the log does."""
        with self._timed("connecting again"):
            return await self._log.reopen()

    async def save_snapshot(self, position: int, digest: str, code: str, payload: bytes) -> None:
        """As the log does."""
        with self._timed("a snapshot"):
            await self._log.save_snapshot(position, digest, code, payload)

    def reasons(self) -> Mapping[str, str]:
        """The reason `log` while the oldest operation has waited for too long."""
        for what, began in self._under_way.values():
            seconds = (self._elapsed_ns() - began) / _SECOND_NS
            if seconds > LATE_SECONDS:
                return {"log": f"no answer to {what} for {seconds:.0f} s"}
            break
        return {}

    def still(self) -> Mapping[str, float]:
        """An unavailable log is no reason to restart the daemon."""
        return {}

    @contextmanager
    def _timed(self, what: str) -> Iterator[int]:
        self._number += 1
        number, began = self._number, self._elapsed_ns()
        self._under_way[number] = (what, began)
        try:
            yield began
        finally:
            del self._under_way[number]
