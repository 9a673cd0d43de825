"""Where current figures are read from: set while the daemon is composed."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from events.record import Head
from projections.state import State


class WatchFigures(Protocol):
    """Counters of a watch since the process started."""

    @property
    def resource(self) -> str:
        """The kind."""

    @property
    def state(self) -> str:
        """`watching`, or why not."""

    @property
    def last_event_seconds(self) -> float | None:
        """Seconds since it last showed anything; None before it did."""

    @property
    def restarts(self) -> Mapping[str, int]:
        """Cause to how often it ended of that."""

    @property
    def events(self) -> int:
        """Events shown."""

    @property
    def dropped(self) -> int:
        """Events that were no news."""

    @property
    def malformed(self) -> int:
        """Revisions that cannot be compared."""

    @property
    def lag_seconds(self) -> float | None:
        """Seconds that events come late; None if that is not known."""


class Lag(Struct, frozen=True):
    """How far a standby is behind the log."""

    records: int
    """Records that it has not read."""
    seconds: float
    """Since it was last level."""


def _no_state() -> State | None:
    return None


def _nothing() -> int:
    return 0


def _no_updates() -> tuple[int, int, int, int]:
    return 0, 0, 0, 0


async def _no_wait() -> None:
    return


def _no_watches() -> Iterable[WatchFigures]:
    return ()


def _no_reports() -> Iterable[tuple[str, int]]:
    return ()


def _no_anchor() -> Head | None:
    return None


def _no_lag() -> Lag | None:
    return None


class Sources(Struct):
    """Functions that are asked at each scrape. They answer at once and change nothing."""

    state: Callable[[], State | None] = _no_state
    """Not to be read while `is_state_busy`."""
    is_state_busy: Callable[[], bool] = bool
    """Whether a cycle, or a batch, changes State in another thread."""
    until_state_is_idle: Callable[[], Awaitable[None]] = _no_wait
    under_way_seconds: Callable[[], float] = float
    """Since the cycle, or the batch, began that is under way; 0 where there is none."""
    position: Callable[[], int] = _nothing
    anchor: Callable[[], Head | None] = _no_anchor
    """The head that was anchored last."""
    epoch: Callable[[], int] = _nothing
    in_flight: Callable[[], int] = _nothing
    intake: Callable[[], int] = _nothing
    status_updates: Callable[[], tuple[int, int, int, int]] = _no_updates
    """Queued, dropped and put off, and objects that rest."""
    events_queued: Callable[[], int] = _nothing
    watches: Callable[[], Iterable[WatchFigures]] = _no_watches
    lag: Callable[[], Lag | None] = _no_lag
    clock_ahead: Callable[[], float] = float
    """Seconds that the time of the log is ahead of the machine's clock."""
    stale_reports: Callable[[], Iterable[tuple[str, int]]] = _no_reports
    """Kind of device reports to the number of those that are stale."""
    unknown_decisions: Callable[[], int] = _nothing
    """Bound pods that name a decision which the log does not have."""
    stale_policy: Callable[[], bool] = bool
    """Whether the policy file has changed and cannot be read."""
