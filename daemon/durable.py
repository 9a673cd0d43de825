"""A log that tells of each batch once it is durable: to whoever counts, and to whoever reads stderr."""

from collections.abc import Callable, Iterable

from daemon.log.contract import Log
from events.record import Head
from projections.batch import Batch

Listener = Callable[[Batch, float], None]
"""Told a batch, and the seconds from the call until it was durable. Must not raise or wait."""


class DurableLog:
    """The part of a log that the loop needs, with listeners."""

    def __init__(
        self, log: Log, elapsed_ns: Callable[[], int], listeners: Iterable[Listener]
    ) -> None:
        self._log = log
        self._elapsed_ns = elapsed_ns
        self._listeners = tuple(listeners)

    async def append(self, batch: Batch) -> None:
        """Return when the batch is durable, and told."""
        began = self._elapsed_ns()
        await self._log.append(batch)
        seconds = (self._elapsed_ns() - began) / 1_000_000_000
        for listener in self._listeners:
            listener(batch, seconds)

    async def take_over(self, holder: str) -> Head:
        """As the log does."""
        return await self._log.take_over(holder)

    async def reopen(self) -> Head:
        """As the log does."""
        return await self._log.reopen()

    async def save_snapshot(self, position: int, digest: str, version: int, payload: bytes) -> None:
        """As the log does."""
        await self._log.save_snapshot(position, digest, version, payload)
