"""Where the figures of the moment are read: whoever builds the daemon says so, once there is something."""

from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Struct

from projections.state import State


class WatchFigures(Protocol):
    """What a watch says of itself."""

    @property
    def resource(self) -> str:
        """The kind."""

    @property
    def is_open(self) -> bool:
        """Whether it is being watched."""

    @property
    def age_seconds(self) -> float | None:
        """Since it last showed anything; None before it did."""

    @property
    def events(self) -> int:
        """Events shown since the process began."""

    @property
    def dropped(self) -> int:
        """Events dropped since the process began."""

    @property
    def requests(self) -> int:
        """Requests made since the process began."""


class Lag(Struct, frozen=True):
    """How far a standby is behind the log."""

    records: int
    seconds: float


def _no_state() -> State | None:
    return None


def _nothing() -> int:
    return 0


def _no_watches() -> Iterable[WatchFigures]:
    return ()


def _no_lag() -> Lag | None:
    return None


class Sources(Struct):
    """Functions that are asked at each scrape. They answer at once and change nothing."""

    state: Callable[[], State | None] = _no_state
    position: Callable[[], int] = _nothing
    epoch: Callable[[], int] = _nothing
    in_flight: Callable[[], int] = _nothing
    intake: Callable[[], int] = _nothing
    watches: Callable[[], Iterable[WatchFigures]] = _no_watches
    lag: Callable[[], Lag | None] = _no_lag
