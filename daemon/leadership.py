"""Leader election: at most one daemon leads at a time, agreed by a Lease (rules K14.1 to K14.6).

A leader may act until `give_up_seconds` after it *began* its last renewal that was answered. A candidate that waits
takes the lease when it has not changed for its whole duration since *they* saw it change, which is later
than the leader began. Both count on their own monotonic clocks; no time that someone wrote is looked at.
So the leader has stopped before anyone else can begin.

A Lease fences no process: one that was paused may wake up late. The epoch of the log does (K14.6).
"""

import asyncio
import os
import secrets
import socket
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

import structlog
from msgspec import Struct
from msgspec.structs import replace

from daemon.cluster.lease import Lease, micro_time
from events.errors import SettingsError

RELEASED_SECONDS: Final = 1
"""The duration that a released lease states (K14.5)."""

RELEASE_TRIES: Final = 3
"""A release is worth a few tries: without it everyone waits for the whole duration."""

logger: Final = structlog.get_logger("muster")


FAILURES_MAX: Final = 3
"""Each failed look doubles the wait before the next one, so many times."""


class LeaseStore(Protocol):
    """Where the lease is. A write fails where someone else has written since the read."""

    async def read(self) -> Lease | None:
        """What it says now; None where there is none."""

    async def create(self, lease: Lease) -> Lease:
        """Create it, as it does not exist."""

    async def update(self, lease: Lease) -> Lease:
        """Write it over the version that was read."""


class Timing(Struct, frozen=True):
    """Seconds by which leaders hold and candidates wait (K14.1). `muster` uses these, tests shorter ones."""

    lease_seconds: int = 15
    """How long others wait for a leader that they do not hear of."""
    renew_seconds: float = 2.0
    """Between two renewals, give or take a fifth."""
    give_up_seconds: float = 10.0
    """After so long without a renewal a leader stops."""
    poll_seconds: float = 0.5
    """The longest that a candidate waits between two looks."""
    try_seconds: float = 3.0
    """The longest that one try may take."""

    def __post_init__(self) -> None:
        if not 0 < self.renew_seconds < self.give_up_seconds < self.lease_seconds:
            raise SettingsError(
                "a lease must be renewed more often than a leader gives up, and given up before it expires"
            )


def holder_identity() -> str:
    """A name that no other process ever has: host, process, chance (K14.1)."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


class LogAnchor(Struct, frozen=True):
    """What a Lease states of the leader's log, as its annotations do."""

    anchor: str
    """POSITION:DIGEST of a record that was durable."""
    log: str
    """Which log it is."""


class _LostError(Exception):
    """The lease is someone else's, or gone."""


class Elector:
    """One candidate. `campaign` until elected, `hold` while leading, `release` when done leading.

    `now_ns` is wall time and is only written.
    """

    def __init__(
        self,
        store: LeaseStore,
        identity: str,
        *,
        now_ns: Callable[[], int],
        jitter: Callable[[], float],
        timing: Timing | None = None,
    ) -> None:
        self.identity = identity
        self.reason = ""
        """Why the last try failed; empty when it did not."""
        self.stands: Callable[[], bool] = lambda: True
        """Whether it would lead if it could. One that would not keeps an eye on the lease all the same."""
        self.log_anchor: Callable[[], LogAnchor | None] = lambda: None
        """What a leader writes of its log as it renews; None leaves what the Lease states."""
        self.timing = timing or Timing()
        self._store = store
        self._now_ns = now_ns
        self._jitter = jitter
        self._seen: Lease | None = None
        """The lease as last read or written."""
        self._seen_at = 0.0
        """When, by our own clock, it was first seen like that."""
        self._is_fresh = False
        """Whether a write may go by what was seen, or must read first."""
        self._act_until: float | None = None
        """When the leave to act ends; None while not leading."""

    @property
    def leader(self) -> str:
        """The holder of the lease when last seen; empty when it was not held."""
        return self._seen.holder if self._seen is not None else ""

    @property
    def stated_anchor(self) -> LogAnchor | None:
        """What the Lease stated of the leader's log when last seen; None if nothing."""
        seen = self._seen
        return None if seen is None or not seen.anchor else LogAnchor(seen.anchor, seen.log)

    @property
    def is_unled(self) -> bool:
        """Whether the Lease, as last seen, can be taken."""
        return self._expires_in() <= 0

    def may_act(self) -> bool:
        """Whether something may be done to the cluster at this very moment (K14.4)."""
        return self._act_until is not None and _now() < self._act_until

    def stop_acting(self) -> None:
        """Act no more, whatever time is left."""
        self._act_until = None

    async def campaign(self) -> None:
        """Return when elected. The lease that others hold is looked at again and again."""
        assert self._act_until is None, "a leader does not campaign"
        self.log_anchor = lambda: (
            None
        )  # Another leader's is not to be replaced by ours of the last term.
        self._is_fresh, failures = False, 0
        while True:
            if await self._try(self._acquire, self.timing.try_seconds):
                logger.info("elected", identity=self.identity)
                return
            failures = min(failures + 1, FAILURES_MAX) if self.reason else 0
            # Between half and all of it: candidates that began together do not stay together.
            wait = self.timing.poll_seconds * 2**failures * (1 - self._jitter() / 2)
            left = self._expires_in()
            await asyncio.sleep(min(wait, left) if left > 0 else wait)

    async def hold(self) -> str:
        """Renew the lease until that no longer works; return why. Never fails (K14.3)."""
        wait = self.timing.renew_seconds
        while True:
            wait *= 0.8 + 0.4 * self._jitter()
            await asyncio.sleep(max(min(wait, self._may_act_for()), 0.0))
            if self._may_act_for() <= 0:
                cause = f": {self.reason}" if self.reason else ""
                return f"not renewed for {self.timing.give_up_seconds:g} s{cause}"
            try:
                longest = min(self.timing.try_seconds, self._may_act_for())
                is_renewed = await self._try(self._renew, longest)
            except _LostError as lost:
                self.stop_acting()
                return str(lost)
            wait = self.timing.renew_seconds / (1 if is_renewed else 2)

    async def release(self) -> None:
        """Let others lead at once (K14.5), where the lease is ours. To be called when nothing is done
        to the cluster any more. Never fails."""
        self.stop_acting()
        for _ in range(RELEASE_TRIES):
            try:
                if await self._try(self._give_back, self.timing.try_seconds / RELEASE_TRIES):
                    return
            except _LostError:
                return
            await asyncio.sleep(self.timing.poll_seconds * (1 - self._jitter() / 2) / 2)
        logger.warning("the lease was not released", error=self.reason)

    async def _try(self, step: Callable[[], Awaitable[bool]], longest: float) -> bool:
        """Whether a step succeeded in time. Any failure is a failed try (K14.3)."""
        try:
            async with asyncio.timeout(longest):
                done = await step()
        except _LostError:
            raise
        except Exception as error:  # Whatever it is, the loop goes on (K14.3).
            self._is_fresh = False
            reason = str(error) or f"no answer within {longest:.1f} s"
            if reason != self.reason:
                # Once for each reason: while the server is away, many a try fails.
                logger.warning("the lease was not reached", error=reason)
            self.reason = reason
            return False
        self.reason = ""
        return done

    async def _acquire(self) -> bool:
        lease = await self._store.read()
        self._look(lease)
        if self._expires_in() > 0 or not self.stands():
            return False
        begun = _now()
        if lease is None:
            self._written(await self._store.create(self._ours(Lease())), begun)
        else:
            self._written(await self._store.update(self._ours(lease)), begun)
        return True

    async def _renew(self) -> bool:
        lease = await self._held()
        begun = _now()
        self._written(await self._store.update(self._ours(lease)), begun)
        return True

    async def _give_back(self) -> bool:
        lease = await self._held()
        nobodys = replace(
            self._anchored(lease),
            holder="",
            duration_seconds=RELEASED_SECONDS,
            renewed=micro_time(self._now_ns()),
        )
        self._seen = await self._store.update(nobodys)
        return True

    async def _held(self) -> Lease:
        """The lease that is ours, of the version to be written over."""
        if self._is_fresh and self._seen is not None:
            return self._seen
        lease = await self._store.read()
        if lease is None:
            raise _LostError("the lease was deleted")
        self._look(lease)
        if lease.holder != self.identity:
            raise _LostError(f"the lease is held by {lease.holder or 'no process'}")
        return lease

    def _look(self, lease: Lease | None) -> None:
        """Note when the lease changed, on our own clock (K14.2). One that vanished was not given up:
        its holder may still act, and is waited for as if the lease stood."""
        if lease is None:
            return
        if lease.holder != self.leader:
            logger.info("the lease changed hands", holder=lease.holder)
        if self._seen is None or lease.version != self._seen.version:
            self._seen_at = _now()
        self._seen = lease

    def _written(self, lease: Lease, begun: float) -> None:
        """The leave to act counts from when the write began, which is before anyone can have seen it."""
        self._seen, self._seen_at, self._is_fresh = lease, _now(), True
        self._act_until = begun + self.timing.give_up_seconds

    def _ours(self, lease: Lease) -> Lease:
        at = micro_time(self._now_ns())
        is_change = lease.holder != self.identity
        return replace(
            self._anchored(lease),
            holder=self.identity,
            duration_seconds=self.timing.lease_seconds,
            acquired=at if is_change else lease.acquired,
            renewed=at,
            transitions=lease.transitions + (is_change and bool(lease.version)),
        )

    def _anchored(self, lease: Lease) -> Lease:
        stated = self.log_anchor()
        return lease if stated is None else replace(lease, anchor=stated.anchor, log=stated.log)

    def _expires_in(self) -> float:
        """Seconds for which the lease is another's; nothing or less where it can be had."""
        lease = self._seen
        if lease is None or lease.holder in ("", self.identity):
            return 0.0
        return self._seen_at + (lease.duration_seconds or self.timing.lease_seconds) - _now()

    def _may_act_for(self) -> float:
        return 0.0 if self._act_until is None else self._act_until - _now()


def _now() -> float:
    """Seconds on a monotonic clock."""
    return asyncio.get_running_loop().time()
