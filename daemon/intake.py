"""What watches have shown and the loop has not taken in: bounded, so that a loop that is behind stops the watches."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from events.messages import WatchMessage

INTAKE_MAX: Final = 10_000
"""Watch messages not yet taken in, from which on watches are not read on."""

INTAKE_BYTES_MAX: Final = 64 << 20
"""Bytes of objects not yet taken in, at which watches are not read on."""


class Intake:
    """Watch messages between the cluster and the loop. `woken` is set when some come."""

    def __init__(self, woken: asyncio.Event, messages_max: int | None = INTAKE_MAX) -> None:
        """Without `messages_max` there is no bound, as where time stands still until all are taken in."""
        self._woken = woken
        self._messages_max = messages_max
        self._waiting: list[WatchMessage] = []
        self._bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._restarts = 0
        """How often all there is was asked for again."""

    def __len__(self) -> int:
        return len(self._waiting)

    async def fill(self, messages: AsyncIterator[list[WatchMessage]]) -> None:
        """Take in what the cluster shows, until cancelled."""
        async for taken in messages:
            restarts = self._restarts
            if self._messages_max is not None:
                await self._room.wait()
            if restarts != self._restarts:
                continue  # Older than the list that has been asked for meanwhile.
            self._waiting += taken
            self._bytes += sum([len(getattr(one, "raw", b"")) for one in taken])
            del taken  # It would hold the objects until the next come.
            if self._is_full():
                self._room.clear()
            self._woken.set()

    def take(self) -> deque[WatchMessage]:
        """Take all messages."""
        taken = deque(self._waiting)
        self._empty()
        return taken

    def restart(self) -> None:
        """Drop all messages: everything there is will be shown again."""
        self._restarts += 1
        self._empty()

    def _empty(self) -> None:
        self._waiting, self._bytes = [], 0
        self._room.set()

    def _is_full(self) -> bool:
        most = self._messages_max
        return most is not None and (len(self._waiting) >= most or self._bytes >= INTAKE_BYTES_MAX)
