"""The health of the daemon as far as its watches show it.

If a kind that State needs cannot be watched, the daemon is not ready: at once if that is forbidden, otherwise when it
lasts. That is no reason to restart it. The daemon is not live if a kind gets neither events nor requests for longer
than a watch may be silent (K3.12): the task that should open the watch again hangs. Except while watch events are not
read: while the log is unavailable, watches stop at their bound, as they should.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from projections.kind_table import REQUIRED

PATIENCE_SECONDS: Final = 10.0
"""How long a watch may be away before the daemon is not ready."""

LAG_SECONDS: Final = 60.0
"""From how late on the events of a watch are said to be behind; clocks of two machines may differ by seconds."""

SILENCE_SECONDS: Final = 720.0
"""The longest that a kind may be silent: the longest `timeoutSeconds`, 600, the 30 s after which a watch is
given up, and as much again as it may take to be asked."""


class WatchStatus(Protocol):
    """The status of the watch of a kind."""

    @property
    def resource(self) -> str:
        """The kind."""

    @property
    def is_required(self) -> bool:
        """Whether it is installed on every cluster."""

    @property
    def state(self) -> str:
        """`starting`, `listing`, `watching`, `waiting` (to try again), `forbidden` or `absent`."""

    @property
    def state_seconds(self) -> float:
        """How long it has been in this state, in seconds."""

    @property
    def is_listed(self) -> bool:
        """Whether its list is complete, or the kind is known not to be served."""

    @property
    def requests(self) -> int:
        """Requests made since the process began."""

    @property
    def last_event_seconds(self) -> float | None:
        """Seconds since the last event or bookmark; None before the first."""

    @property
    def reason(self) -> str:
        """Why it does not watch."""

    @property
    def lag_seconds(self) -> float | None:
        """How late its events come after the objects were written, in seconds; None if that is not known."""


class WatchHealthCheck:
    """Asked by `Health` as long as the task of the watches runs."""

    def __init__(
        self,
        standings: Callable[[], Iterable[WatchStatus]],
        elapsed_ns: Callable[[], int],
        is_held_up: Callable[[], bool],
        server: str = "",
    ) -> None:
        self._server = server
        self._standings = standings
        self._elapsed_ns = elapsed_ns
        self._is_held_up = is_held_up
        self._moved: dict[str, tuple[int, int]] = {}
        """Kind to its number of requests, and when that number was first seen."""

    def reasons(self) -> dict[str, str]:
        """Kinds that State needs and that are not watched, or not listed yet."""
        needed = [one for one in self._standings() if one.is_required or one.resource in REQUIRED]
        found = {f"watch/{one.resource}": _why(one) for one in needed if _is_away(one)}
        missing = [one.resource for one in needed if not one.is_listed]
        if missing:
            why = next((f" ({self._server}: {one.reason})" for one in needed if one.reason), "")
            found["lists"] = f"not listed yet: {', '.join(missing)}{why}"
        for one in needed:
            if one.lag_seconds is not None and one.lag_seconds > LAG_SECONDS:
                text = f"events come {one.lag_seconds:.0f} s after the objects were written"
                found[f"behind/{one.resource}"] = text
        return found

    def still(self) -> dict[str, float]:
        """Kinds without events and without requests."""
        if self._is_held_up():
            self._moved.clear()
            return {}
        silent = {f"watch/{one.resource}": self._silence(one) for one in self._standings()}
        return {key: seconds for key, seconds in silent.items() if seconds > SILENCE_SECONDS}

    def _silence(self, one: WatchStatus) -> float:
        now = self._elapsed_ns()
        requests, since = self._moved.get(one.resource, (-1, 0))
        if requests != one.requests:
            self._moved[one.resource] = (one.requests, now)
            return 0.0
        seconds = (now - since) / 1_000_000_000
        return seconds if one.last_event_seconds is None else min(seconds, one.last_event_seconds)


def _is_away(one: WatchStatus) -> bool:
    if one.state == "forbidden":
        return True
    return one.state == "waiting" and one.state_seconds > PATIENCE_SECONDS


def _why(one: WatchStatus) -> str:
    since = f"for {one.state_seconds:.0f} s"
    if one.reason.startswith(f"{one.state}: "):
        return one.reason.replace(one.state, f"{one.state} {since}", 1)
    return f"{one.state} {since}: {one.reason}"
