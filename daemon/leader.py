"""Leader election: follow as a standby, be elected, lead for a term, and follow again when the term ends.

A term ends in one of four ways. When asked to stop, the loop finishes in order. When the Lease was not renewed, no
request is sent from that moment on, and the loop is cancelled and awaited (K14.4); the same when another process took
over the log, or it could not be opened. Any other error ends the daemon. In all cases the Lease is released only when
nothing of the term runs any more, and the next campaign begins after that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Final, Protocol, TypeAlias

import structlog
from msgspec import Struct

from daemon.leadership import Elector
from engine.engine import Engine
from events.errors import FencedError, LogUnavailableError
from events.record import Head

PAUSE_SECONDS: Final = 3.0
"""How long a daemon that could not lead waits before it campaigns again."""

logger: Final = structlog.get_logger("muster")


class Work(Protocol):
    """The work of a leader: the loop."""

    async def run(self) -> None:
        """Run until stopped."""

    def stop(self) -> None:
        """Shut down in order."""


class Standby(Protocol):
    """What a daemon does while it is not the leader."""

    @property
    def is_ready(self) -> bool:
        """Whether it could take over now."""

    @property
    def may_lead(self) -> bool:
        """Whether it may campaign: it is ready, and its log does not end before what the Lease states."""

    async def follow(self) -> None:
        """Keep State up to date, until cancelled."""

    async def hand_over(self, head: Head) -> Engine | None:
        """Return its step at exactly this head, or None."""

    async def close(self) -> None:
        """Release everything."""


Warm: TypeAlias = Callable[[Head], Awaitable[Engine | None]]
"""Called once after the log was taken over: the step to begin with, or None to fold it."""

Begin: TypeAlias = Callable[[Warm], AbstractAsyncContextManager[Work]]
"""Opens the log for writing and builds the loop around it; closes the log at the end."""


class LeaderStatus(Struct):
    """The daemon's role."""

    role: str = "standby"
    """`standby`, `leading` or `stopped`"""
    terms: int = 0
    """The number of terms."""
    reason: str = ""
    """Why the last term ended, if not in order."""


class _Term(Struct):
    """How a term ended."""

    lost: str = ""
    """Why the Lease was lost."""
    error: Exception | None = None
    """The error that ended the work."""
    was_leading: bool = False
    """Whether it was allowed to act when it failed."""


class LeaderLoop:
    """Campaigns, leads and follows. Without an elector it leads at once: then only the log keeps others out."""

    def __init__(
        self,
        begin: Begin,
        *,
        elector: Elector | None = None,
        standby: Callable[[], Standby] | None = None,
        may_stand: Callable[[], bool] = lambda: True,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self.post = LeaderStatus()
        self._begin = begin
        self._elector = elector
        self._standby = standby
        self._may_stand = may_stand
        """Whether nothing else keeps it from leading."""
        self._pause_seconds = pause_seconds
        self._wish = asyncio.Event()
        self._work: Work | None = None

    def stop(self) -> None:
        """Shut down in order, whatever is running."""
        self._wish.set()
        if self._work is not None:
            self._work.stop()

    async def run(self) -> None:
        """Run until stopped, or until an error that another try would not mend."""
        try:
            while not self._wish.is_set():
                await self._stand_and_lead()
        finally:
            self.post.role = "stopped"

    async def _stand_and_lead(self) -> None:
        standby = self._standby() if self._standby is not None else None
        try:
            if self._elector is None:
                await self._lead(standby)
                self._wish.set()
            elif await self._is_elected(self._elector, standby):
                await self._serve(self._elector, standby)
            else:
                # The response to a successful election may have been lost.
                await self._elector.release()
        finally:
            if standby is not None:
                await standby.close()

    async def _is_elected(self, elector: Elector, standby: Standby | None) -> bool:
        """Follow until elected, or until stopped. A log that cannot be followed at all ends both."""
        async with asyncio.TaskGroup() as tasks:
            wish = tasks.create_task(self._wish.wait(), name="wish")
            campaign = tasks.create_task(elector.campaign(), name="campaign")
            others = [wish, campaign]
            elector.stands = lambda: self._may_stand() and (standby is None or standby.may_lead)
            if standby is not None:
                others.append(tasks.create_task(standby.follow(), name="standby"))
            await asyncio.wait((wish, campaign), return_when=asyncio.FIRST_COMPLETED)
            for task in others:
                task.cancel()
        return not self._wish.is_set()

    async def _serve(self, elector: Elector, standby: Standby | None) -> None:
        """Run one term, from the election to the release of the Lease."""
        self.post.role, self.post.reason = "leading", ""
        self.post.terms += 1
        term = await hold_term(elector, lambda: self._lead(standby))
        self.post.role = "standby"
        self.post.reason = term.lost or ("" if term.error is None else _reason_of(term.error))
        # Nothing of the term runs any more (K14.4).
        await elector.release()
        if not self.post.reason:
            self._wish.set()
            return
        logger.warning("the lead is lost", error=self.post.reason)
        if term.error is not None:
            is_ours = term.was_leading and elector.leader in ("", elector.identity)
            if not _is_passing(term.error, is_ours=is_ours):
                raise term.error
            await self._pause()

    async def _lead(self, standby: Standby | None) -> None:
        async with self._begin(_nothing_warm if standby is None else standby.hand_over) as work:
            self._work = work
            try:
                if not self._wish.is_set():
                    await work.run()
            finally:
                self._work = None

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(self._pause_seconds):
                await self._wish.wait()
        except TimeoutError:
            return


async def hold_term(elector: Elector, lead: Callable[[], Awaitable[None]]) -> _Term:
    """Lead as long as the Lease is renewed. When this returns, nothing of the term runs any more."""
    term = _Term()

    async def work() -> None:
        try:
            await lead()
        except Exception as error:  # No error may keep the Lease from being released.
            term.error, term.was_leading = error, elector.may_act()

    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(work(), name="lead")
        holding = tasks.create_task(elector.hold(), name="lease")
        await asyncio.wait((working, holding), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            # From here on no request is sent; others can lead only later (K14.4).
            elector.stop_acting()
            term.lost = holding.result()
        working.cancel()
        holding.cancel()
    return term


def _is_passing(error: Exception, *, is_ours: bool) -> bool:
    """Return True if another term may succeed. To be fenced out while holding the Lease means that another process
    writes the log without the Lease: that is not retried."""
    for leaf in _leaves(error):
        if isinstance(leaf, FencedError) and not is_ours:
            continue
        if not isinstance(leaf, LogUnavailableError):
            return False
    return True


def _reason_of(error: Exception) -> str:
    first = next(_leaves(error))
    return str(first) or type(first).__name__


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors inside the groups that tasks wrap around them."""
    if isinstance(error, BaseExceptionGroup):
        for one in error.exceptions:
            yield from _leaves(one)
    else:
        yield error


async def _nothing_warm(head: Head) -> Engine | None:
    return None
