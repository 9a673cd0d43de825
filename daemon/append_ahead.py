"""Batches of which State runs ahead: they are made durable in the background while the next ones are taken in.

Nothing waits for a watch event or an outcome to be durable, so the loop hands their batches over and goes on. What
comes within a few milliseconds shares a transaction, in the order in which it was made; each batch stays one of its
own. Before decisions, requests and snapshots the loop waits until everything handed over is durable.

When the log fails, every batch handed over has failed: State ran ahead of the log and is thrown away.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from engine.batch import Batch

LINGER_SECONDS: Final = 0.05
"""How long batches are collected before they are written together, unless something waits for them."""

GROUP_RECORDS: Final = 1_000
"""Records of batches that are written without waiting for more."""

BATCHES_MAX: Final = 1_000
"""Batches that may be ahead of the log."""

BYTES_MAX: Final = 16 << 20
"""Bytes of objects in batches that may be ahead of the log."""


class AppendAhead:
    """Batches handed over to a log and not durable yet. `woken` is set when the log fails."""

    def __init__(
        self,
        append: Callable[[*tuple[Batch, ...]], Awaitable[None]],
        woken: asyncio.Event,
        linger_seconds: float = LINGER_SECONDS,
    ) -> None:
        self._append = append
        self._woken = woken
        self._linger_seconds = linger_seconds
        self._waiting: list[Batch] = []
        self._waiting_records = 0
        self._count = 0
        """Batches waiting or being written."""
        self._bytes = 0
        self._error: Exception | None = None
        self._some = asyncio.Event()
        self._urgent = asyncio.Event()
        self._written = asyncio.Event()
        self.durable_count = 0
        """Batches made durable."""

    def hand_over(self, batches: Iterable[Batch]) -> None:
        """Let batches be written after those handed over before."""
        for batch in batches:
            self._waiting.append(batch)
            self._waiting_records += len(batch.records)
            self._count += 1
            self._bytes += _bytes_of(batch)
        if self._waiting:
            self._some.set()
        if self._waiting_records >= GROUP_RECORDS:
            self._urgent.set()

    async def append(self, batches: Sequence[Batch]) -> None:
        """Return when all are durable, and what was handed over before them. They share a transaction."""
        await self.until_durable()
        await self._append(*batches)
        self.durable_count += len(batches)

    def check(self) -> None:
        """Raise the error of the log if it failed since the last call."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    async def until_room(self) -> None:
        """Return when another batch may be handed over. Raise the error of the log."""
        await self._until(lambda: self._count < BATCHES_MAX and self._bytes < BYTES_MAX)

    async def until_durable(self) -> None:
        """Return when everything handed over is durable. Raise the error of the log."""
        await self._until(lambda: self._count == 0)

    async def run(self) -> None:
        """Write what is handed over, until cancelled."""
        while True:
            await self._some.wait()
            await self._collect()
            batches, self._waiting, self._waiting_records = self._waiting, [], 0
            self._some.clear()
            try:
                await self._append(*batches)
            except Exception as error:
                # What was handed over meanwhile follows a batch that is not in the log.
                self._waiting, self._waiting_records, self._count, self._bytes = [], 0, 0, 0
                self._some.clear()
                self._error = error
                self._woken.set()
            else:
                self.durable_count += len(batches)
                self._count -= len(batches)
                self._bytes -= sum(map(_bytes_of, batches))
            del batches
            self._written.set()

    async def _collect(self) -> None:
        """Wait for more, unless something waits for what there is."""
        if not self._urgent.is_set():
            try:
                async with asyncio.timeout(self._linger_seconds):
                    await self._urgent.wait()
            except TimeoutError:
                pass
        self._urgent.clear()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        self.check()
        while not is_so():
            self._urgent.set()
            self._written.clear()
            await self._written.wait()
            self.check()


def _bytes_of(batch: Batch) -> int:
    return sum(len(one.content) for one in batch.objects)
