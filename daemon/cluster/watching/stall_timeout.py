"""An open watch: its chunks, and how long they may be waited for (rule K3.12)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final

from daemon.cluster.client.errors import StalledError
from daemon.cluster.watching.rate_limit import now
from events.errors import ClusterError

SILENCE_SECONDS: Final = 1.0
"""A server that refuses a revision says so at once; after so much silence it has taken it."""


class ResponseChunks:
    """The chunks of a watch. Bytes alone do not count as progress: a server that sends half lines for ever has stalled, too."""

    def __init__(self, chunks: AsyncIterator[bytes], stall_seconds: float) -> None:
        self._chunks = chunks
        self._stall_seconds = stall_seconds
        self._until = now() + stall_seconds

    def alive(self) -> None:
        """An event or a bookmark came, or the time passed with taking one in."""
        self._until = now() + self._stall_seconds

    async def next(self) -> bytes | None:
        """The next chunk; None at the end."""
        try:
            async with asyncio.timeout_at(self._until):
                return await anext(self._chunks, None)
        except TimeoutError:
            raise self._stalled() from None

    async def first(self, silent: Callable[[], Awaitable[None]]) -> bytes | None:
        """The first chunk. If none comes soon, `silent` is called, and the wait goes on."""
        async with asyncio.TaskGroup() as tasks:
            coming = tasks.create_task(_outcome(self._next_unbounded()), name="first chunk")
            try:
                trouble = None
                done, _ = await asyncio.wait({coming}, timeout=SILENCE_SECONDS)
                if not done:
                    trouble = await _outcome(_nothing_after(silent()))
                    self.alive()
                if trouble is None:
                    done, _ = await asyncio.wait({coming}, timeout=max(0, self._until - now()))
            finally:
                coming.cancel()
        if isinstance(trouble, ClusterError):
            raise trouble
        if not done:
            raise self._stalled()
        if isinstance(came := coming.result(), ClusterError):
            raise came
        return came

    async def _next_unbounded(self) -> bytes | None:
        return await anext(self._chunks, None)

    def _stalled(self) -> StalledError:
        return StalledError(f"neither event nor bookmark for {self._stall_seconds:.0f} seconds")


async def _outcome(awaitable: Awaitable[bytes | None]) -> bytes | ClusterError | None:
    """What comes of it; expected trouble as a value, so that it passes through a task."""
    try:
        return await awaitable
    except ClusterError as error:
        return error


async def _nothing_after(awaitable: Awaitable[None]) -> None:
    await awaitable
