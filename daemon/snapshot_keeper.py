"""Snapshots of State while the loop runs, and when it leaves, so that a start need not fold all of the log.

With a deciding thread, the loop waits for a fork of State only, and goes on while that is written. There is one such fork
at a time.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

import structlog

from daemon.log.code_key import code_key
from daemon.log.snapshots import payload_of
from daemon.memory_tuning import return_freed_memory
from daemon.state_access import StateAccess
from engine.engine import Engine
from events.errors import LogUnavailableError
from events.record import Head
from projections.state import State

SNAPSHOT_SHARE: Final = 20
"""Writing snapshots beside the loop takes at most one part in so many of the time: it takes the lock of Python from the loop."""

logger: Final = structlog.get_logger("muster")


class SnapshotLog(Protocol):
    """The part of a log that keeps snapshots."""

    async def save_snapshot(self, position: int, digest: str, code: str, payload: bytes) -> None:
        """Keep State at a position."""


class SnapshotKeeper:
    """Keeps State each time `every` records have been added; 0 for never."""

    def __init__(
        self, log: SnapshotLog, every: int, access: StateAccess, elapsed_ns: Callable[[], int]
    ) -> None:
        self._log = log
        self._every = every
        self._access = access
        self._elapsed_ns = elapsed_ns
        self._position = 0
        """Where State was kept last."""
        self._fork: tuple[State, Head] | None = None
        """A fork of State of which a snapshot is being written, while the loop goes on."""
        self._next_fork_ns = 0
        """When the next one is made at the earliest."""
        self._forked = asyncio.Event()
        self._written = asyncio.Event()

    def begin(self, position: int) -> None:
        """State was folded up to a position."""
        self._position = position

    def is_due(self, position: int) -> bool:
        """Whether there are enough records since the last time; all of them must be durable before `keep_beside`."""
        if not self._every or position - self._position < self._every:
            return False
        return self._fork is None and self._elapsed_ns() >= self._next_fork_ns

    async def keep_beside(self, engine: Engine) -> None:
        """Keep State while the loop goes on, or at once where it stands still meanwhile."""
        if not self._access.has_thread:
            await self.keep(engine)
            return
        fork = await self._access.call("a fork for a snapshot", engine.state.fork)
        self._fork, self._position = (fork, engine.head), engine.head.position
        self._written.clear()
        self._forked.set()

    async def keep(self, engine: Engine) -> None:
        """Keep State as it is at the end of the log."""
        payload = await self._access.call("a snapshot", lambda: payload_of(engine.state))
        head = engine.head
        await self._log.save_snapshot(head.position, head.digest, code_key(), payload)
        self._position = head.position
        return_freed_memory()

    async def finish(self, engine: Engine | None, until: float) -> None:
        """Wait for what is being written, until a time of the event loop, and keep the State of `engine`."""
        if self._fork is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._written.wait()
        if self._every and engine is not None:
            await self.keep(engine)

    async def run(self) -> None:
        """Write a snapshot of each fork of State, encoded in a thread, until cancelled."""
        while True:
            await self._forked.wait()
            assert self._fork is not None
            state, head = self._fork
            began_ns = self._elapsed_ns()
            payload = await asyncio.to_thread(payload_of, state)
            del state
            try:
                await self._log.save_snapshot(head.position, head.digest, code_key(), payload)
            except LogUnavailableError as error:
                logger.warning(
                    "a snapshot was not written", position=head.position, error=str(error)
                )
            del payload
            self._fork = None
            now_ns = self._elapsed_ns()
            self._next_fork_ns = now_ns + (SNAPSHOT_SHARE - 1) * (now_ns - began_ns)
            self._forked.clear()
            self._written.set()
            return_freed_memory()
