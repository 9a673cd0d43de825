"""How the watch of each kind stands, for readiness, metrics, and the operator's log."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import structlog
from msgspec import Struct, field

from daemon.cluster.watching.lag import WatchLag
from daemon.cluster.watching.rate_limit import now

logger: Final = structlog.get_logger("muster")

LOGGED: Final = frozenset({"watching", "absent", "forbidden", "waiting"})
"""States of which an operator should read; `starting` and `listing` pass by themselves."""


class WatchHealth(Struct, frozen=True):
    """How the watch of a kind stands at a moment."""

    resource: str
    is_required: bool
    state: str
    """`starting`, `listing`, `watching`, `waiting` (to try again), `forbidden` or `absent`."""
    state_seconds: float
    """For how long."""
    is_listed: bool
    """Whether it has been handed over, or is known not to be served."""
    last_event_seconds: float | None
    """Seconds since the last event or bookmark; None before the first."""
    reason: str
    """Why it does not watch; empty where it does."""
    restarts: Mapping[str, int]
    """How often the watch ended, by cause."""
    requests: int
    events: int
    dropped: int
    """Duplicates and regressions that were not handed over (K3.14)."""
    malformed: int
    """Revisions that cannot be compared (K1.2)."""
    lag_seconds: float | None = None
    """How late events come after the objects were written; None while too few come."""


class WatchState(Struct):
    """The same as it is kept, from the start of the process on."""

    resource: str
    is_required: bool = False
    state: str = "starting"
    since: float = 0.0
    is_listed: bool = False
    last_event: float | None = None
    reason: str = ""
    logged: tuple[str, str] = ("", "")
    """State and cause of which the operator's log speaks last."""
    restarts: Counter[str] = field(default_factory=Counter)
    events: int = 0
    dropped: int = 0
    malformed: int = 0
    lag: WatchLag = field(default_factory=WatchLag)

    def become(self, state: str, cause: str = "", reason: str = "") -> None:
        """Change state. Logged once per change, not once per try."""
        if state != self.state or not self.since:
            self.state, self.since = state, now()
        self.reason = reason
        if state in LOGGED and (state, cause) != self.logged:
            is_first, self.logged = not any(self.logged), (state, cause)
            log = logger.info if state in {"watching", "absent"} else logger.warning
            if is_first and state == "watching":
                log = logger.debug  # `cluster listed` is one line for all kinds.
            log("watch", resource=self.resource, state=state, reason=reason)

    def at(self, moment: float, requests: int) -> WatchHealth:
        """How it stands at a moment of the loop's clock."""
        last = None if self.last_event is None else moment - self.last_event
        return WatchHealth(
            resource=self.resource,
            is_required=self.is_required,
            state=self.state,
            state_seconds=moment - self.since,
            is_listed=self.is_listed,
            last_event_seconds=last,
            reason=self.reason,
            restarts=dict(self.restarts),
            requests=requests,
            events=self.events,
            dropped=self.dropped,
            malformed=self.malformed,
            lag_seconds=self.lag.at(moment),
        )
