"""The hot standby: it folds the log as the leader writes it, and can take over at any position.

State and views are folded record by record, and the chain is checked. The rows of views are read once, as of one
moment; State is folded to exactly that moment, and from there on both move together, batch by batch, as on the
leader. Taking over reads only what came since the last notification.

An unavailable log is waited for. A damaged or newer one is an error, and ends the daemon; so is one that ends before what was read
from it. While the log that is read ends before what the Lease states, as that of a replica that lags, it does not take over.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from msgspec import Struct

from daemon.composition import build_engine
from daemon.fold import nearest_state
from daemon.log.anchors import Anchor
from daemon.log.entry import Entry, Projection, StandingView
from daemon.log.reading import CHUNK
from daemon.log.store import SqlLog
from daemon.stated_end import UNLED_SECONDS, StatedEnd
from engine.engine import Engine
from events.chain import check_link
from events.codec import event_of
from events.errors import DamagedLogError, LogUnavailableError, LostRecordsError, UsageError
from events.record import GENESIS, Head
from projections.internal_error import OnError, ignore
from projections.left_out import ApplyError, LeftOut, leave_out
from projections.state import State
from projections.views.catalogue import DECISION, OUTCOME, VIEWS
from projections.views.project import Views, is_whole

RETRY_SECONDS: Final = 2.0
"""Time between two tries to read an unavailable log."""

MEASURE_SECONDS: Final = 2.0
"""Time between two checks of the leader's position."""

LATE_SECONDS: Final = 5.0
"""A log whose position has not been read for so long counts as unavailable."""

GATHER_SECONDS: Final = 0.05
"""Appends within this time are read together: a busy leader notifies of hundreds of batches."""

RESUMED: Final = tuple(view.name for view in VIEWS if view not in (DECISION, OUTCOME))
"""Views whose rows are needed to continue; the rows of others never change, and only their checksum is needed."""

logger: Final = structlog.get_logger("muster")


class Lag(Struct, frozen=True):
    """How far a standby is behind."""

    records: int
    seconds: float
    """Time since the leader was first seen ahead of the present position; 0 if it is not ahead."""


class StandbyFollower:
    """A standby, from its first read of the log until it leads or ends."""

    def __init__(
        self,
        open_log: Callable[[], Awaitable[SqlLog]],
        *,
        with_views: bool = True,
        secret: tuple[str, ...] = (),
        on_error: OnError = ignore,
        retry_seconds: float = RETRY_SECONDS,
        stated_anchor: Callable[[], Anchor | None] = lambda: None,
        is_unled: Callable[[], bool] = lambda: False,
        accepts_loss: Callable[[Anchor], bool] = lambda _: False,
        unled_seconds: float = UNLED_SECONDS,
    ) -> None:
        """`stated_anchor` is what the Lease states of the leader's log, `is_unled` whether the Lease can be taken, and
        `accepts_loss` whether the settings accept the loss of an anchor."""
        self._stated_end = StatedEnd(stated_anchor, is_unled, accepts_loss, unled_seconds)
        self._reason = "the log is not read yet"
        self._asked_at: float | None = None
        """When the log's position was last asked for, while there is no answer."""
        self._open_log = open_log
        self._with_views = with_views
        self._secret = secret
        self._on_error = on_error
        self._retry_seconds = retry_seconds
        self._log: SqlLog | None = None
        self._state: State | None = None
        self._views: Views | None = None
        self._head = GENESIS
        self._batch = 0
        """The batch being folded; 0 when the last one is closed."""
        self._recorded_at_ns = 0
        self._left_out: LeftOut = {}
        self._is_cold = False
        """Whether there is no log to follow: the next leader begins with an empty or old one."""
        self._leader_at = 0
        self._behind: tuple[int, float] | None = None
        """A position that the leader had reached and this standby had not, and when that was first seen."""

    @property
    def reason(self) -> str:
        """Why it cannot take over without a fold; empty if it can."""
        waited = 0.0 if self._asked_at is None else _now() - self._asked_at
        if not self._reason and waited > LATE_SECONDS:
            return f"no answer from the log for {waited:.0f} s"
        since = self._stated_end.behind_since
        if not self._reason and since is not None and _now() - since > LATE_SECONDS:
            return self._stated_end.text(self._end)
        return self._reason

    @property
    def is_ready(self) -> bool:
        """Return True if it can take over: up to date and reading the log, or with no log to follow."""
        return self._is_cold or (self._state is not None and not self.reason)

    @property
    def may_lead(self) -> bool:
        """Return True if it is ready and its log holds as much as the Lease states. What a log that ends earlier lacks may have been
        carried out."""
        return self.is_ready and (self._is_cold or self._stated_end.missing(self._end) is None)

    @property
    def _end(self) -> int:
        """The end of the log that is read, as far as it is known."""
        return max(self._leader_at, self.position)

    @property
    def state(self) -> State | None:
        """State as folded so far; None before the first fold, and after `hand_over`."""
        return self._state

    @property
    def position(self) -> int:
        """The position folded so far."""
        return self._head.position

    @property
    def lag(self) -> Lag:
        """The distance to the leader at the last check."""
        seconds = 0.0 if self._behind is None else _now() - self._behind[1]
        return Lag(records=max(self._leader_at - self.position, 0), seconds=seconds)

    async def follow(self) -> None:
        """Keep State up to date, until cancelled. Raises errors that waiting would not mend."""
        while True:
            try:
                if (log := await self._loaded()) is not None:
                    async with asyncio.TaskGroup() as tasks:
                        tasks.create_task(self._tail(log), name="tail")
                        tasks.create_task(self._measure(log), name="lag")
            except* LogUnavailableError as group:
                self._set_reason(str(group.exceptions[0]))
            except* ApplyError as group:
                self._begin_again(group)
            await asyncio.sleep(self._retry_seconds)

    async def hand_over(self, head: Head) -> Engine | None:
        """Return a step at exactly this head, which has our epoch; None if the log has to be folded.

        May be called only after `follow` was cancelled.
        """
        log, state = self._log, self._state
        if log is None or state is None:
            return None
        try:
            async for entries in log.read(after=self._head.position, until=head.position):
                self._take(state, entries)
        except ApplyError as error:
            leave_out(self._left_out, error)
            self._state = None
            return None
        self._close_batch(state)
        if (self._head.position, self._head.digest) != (head.position, head.digest):
            raise DamagedLogError(
                f"position {head.position}: the log ends with another digest than its records"
            )
        if self._with_views and _standing_at(await log.projections()) != head.position:
            logger.warning("views were not kept up", position=head.position)
            return None
        self._state = None  # Handed over: the leader changes it from now on.
        return build_engine(
            state, head, views=self._views, secret=self._secret, on_error=self._on_error
        )

    def _begin_again(self, group: BaseExceptionGroup[ApplyError]) -> None:
        """Fold again, without the record that State could not apply."""
        self._state = None
        for error in group.exceptions:
            if isinstance(error, ApplyError):
                leave_out(self._left_out, error)

    async def close(self) -> None:
        """Close the log."""
        log, self._log = self._log, None
        if log is not None:
            await log.close()

    async def _loaded(self) -> SqlLog | None:
        """Return the log, with State folded from it; None if there is no log to follow yet."""
        if self._log is None:
            try:
                self._log = await self._open_log()
            except UsageError as error:
                # Not created yet, or of an older schema: the leader creates or migrates it.
                self._is_cold = True
                self._set_reason(str(error))
                return None
        if self._head.position < self._log.base.position:
            self._state = None  # What it has to read next was archived meanwhile.
        if self._state is None and not await self._load(self._log):
            self._is_cold = True
            self._set_reason("the views are not those of this release: they will be rebuilt")
            return None
        self._is_cold = False
        return self._log

    async def _load(self, log: SqlLog) -> bool:
        """Fold to the position of the views, and load their rows."""
        standing: list[StandingView] = []
        until: int | None = None
        if self._with_views:
            standing = await log.views_at_once(RESUMED)
            until = _standing_at([one.projection for one in standing])
            if until is None or not await asyncio.to_thread(_are_whole, standing):
                return False
        state = await self._restored(log, until)
        if self._with_views:
            async for entries in log.read(after=self._head.position, until=until):
                self._take(state, entries)
            self._close_batch(state)
            self._views = await asyncio.to_thread(_resumed, state, standing, self._on_error)
        self._state = state
        return True

    async def _restored(self, log: SqlLog, until: int | None) -> State:
        """Return State from the newest snapshot or base, or from the beginning of the log."""
        self._views, self._batch = None, 0
        state, self._head = await nearest_state(log, until, self._left_out)
        return state

    async def _tail(self, log: SqlLog) -> None:
        state = self._state
        assert state is not None
        async for entries in log.tail(self._head.position):
            self._take(state, entries)
            if self._behind is not None and self._behind[0] <= self.position:
                self._behind = None
            await asyncio.sleep(GATHER_SECONDS if len(entries) < CHUNK else 0)

    async def _measure(self, log: SqlLog) -> None:
        while True:
            self._asked_at, known = _now(), self._head
            try:
                found = await log.refresh()
            finally:
                self._asked_at = None
            self._compare(found, known, log.place)
            self._leader_at = found.position
            await self._stated_end.compare(log, self._end, _now())
            self._set_reason("")
            if self._behind is None and self._leader_at > self.position:
                self._behind = (self._leader_at, _now())
            await asyncio.sleep(MEASURE_SECONDS)

    def _compare(self, found: Head, known: Head, place: str) -> None:
        """Raise LostRecordsError if the log ends before what was read from it."""
        is_other = found.position == known.position and found.digest != known.digest
        if found.position < known.position or is_other:
            raise LostRecordsError(
                f"{place}: position {known.position}: lost: the log ends at position {found.position} with digest {found.digest}, but "
                f"this standby has read position {known.position} with digest {known.digest}"
            )

    def _take(self, state: State, entries: list[Entry]) -> None:
        """Fold entries. A batch is known to be complete when the next one begins, or the log ends."""
        for entry in entries:
            record = entry.record
            head = check_link(self._head, record)
            if record.batch != self._batch:
                self._close_batch(state)
                self._batch = record.batch
            event = event_of(record)
            state.apply(record, event, entry.content, self._on_error)
            if self._views is not None:
                self._views.note(record, event)
            self._head, self._recorded_at_ns = head, record.recorded_at_ns

    def _close_batch(self, state: State) -> None:
        if not self._batch:
            return
        state.settle(self._on_error)
        if self._views is None:
            state.cluster.clear_changed_rows()
        else:
            # The leader wrote these rows; only the checksums kept of them matter here.
            self._views.rows(self._head.position, self._recorded_at_ns)
        self._batch = 0

    def _set_reason(self, reason: str) -> None:
        if reason != self._reason:
            logger.info("standby", reason=reason or "warm", position=self.position)
        self._reason = reason


def _standing_at(standing: list[Projection]) -> int | None:
    """Return the common position of all views of this release; None if they differ."""
    versions = {view.name: view.version for view in VIEWS}
    positions = {one.position for one in standing if versions.get(one.name) == one.version}
    known = sum(versions.get(one.name) == one.version for one in standing)
    return positions.pop() if known == len(versions) and len(positions) == 1 else None


def _are_whole(standing: list[StandingView]) -> bool:
    """Return True if the rows of the views have their checksums."""
    return all(
        is_whole(one.projection.name, one.rows, one.projection.checksum)
        for one in standing
        if one.projection.name in RESUMED
    )


def _resumed(state: State, standing: list[StandingView], on_error: OnError) -> Views:
    views = Views(state, on_error)
    state.cluster.clear_changed_rows()
    named = {one.projection.name: one for one in standing}
    for view in VIEWS:
        one = named[view.name]
        views.resume(view.name, one.rows, one.projection.checksum)
    return views


def _now() -> float:
    return asyncio.get_running_loop().time()
