"""What the watches mean for the health of the daemon.

A kind that State needs, and that cannot be watched, is a reason not to be ready: at once where it is
forbidden, otherwise when it lasts. It is no reason to be killed. A kind of which nothing comes, and of
which nothing is asked either, for longer than a watch may be open in silence (K3.12), is one: whoever
should have opened it anew does not move. Unless nobody takes in what is shown: while the log is away,
watches stand still once their bound is reached, as they should.
"""

from collections.abc import Callable, Iterable
from typing import Final, Protocol

from projections.state import REQUIRED

PATIENCE_SECONDS: Final = 10.0
"""How long a watch may be away before the daemon is not ready."""

SILENCE_SECONDS: Final = 720.0
"""The longest that a kind may be silent: the longest `timeoutSeconds`, 600, the 30 s after which a watch is
given up, and as much again as it may take to be asked."""


class WatchStatus(Protocol):
    """How the watch of a kind stands."""

    @property
    def resource(self) -> str:
        """The kind."""

    @property
    def is_required(self) -> bool:
        """Whether every cluster has it."""

    @property
    def state(self) -> str:
        """`starting`, `listing`, `watching`, `waiting` (to try again), `forbidden` or `absent`."""

    @property
    def state_seconds(self) -> float:
        """For how long."""

    @property
    def is_listed(self) -> bool:
        """Whether it has been handed over, or is known not to be served."""

    @property
    def requests(self) -> int:
        """Requests made since the process began."""

    @property
    def last_event_seconds(self) -> float | None:
        """Seconds since the last event or bookmark; None before the first."""

    @property
    def reason(self) -> str:
        """Why it does not watch."""


class WatchHealthCheck:
    """Asked by `Health`, for as long as there is a task that watches."""

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
        """Kind to the requests made by then, and when it was first seen that they were so many."""

    def reasons(self) -> dict[str, str]:
        """Kinds that State needs and that are not watched, or not listed yet."""
        needed = [one for one in self._standings() if one.is_required or one.resource in REQUIRED]
        found = {f"watch/{one.resource}": _why(one) for one in needed if _is_away(one)}
        missing = [one.resource for one in needed if not one.is_listed]
        if missing:
            why = next((f" ({self._server}: {one.reason})" for one in needed if one.reason), "")
            found["lists"] = f"not listed yet: {', '.join(missing)}{why}"
        return found

    def still(self) -> dict[str, float]:
        """Kinds of which nothing comes and nothing is asked."""
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
