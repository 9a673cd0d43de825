"""The end of the leader's log as the Lease states it, compared with the log that a standby reads."""

from collections.abc import Callable
from typing import Final

import structlog

from daemon.log.anchors import Anchor
from daemon.log.lost_records import ADVICE, accepting, is_accepted
from daemon.log.store import SqlLog
from events.errors import LostRecordsError

UNLED_SECONDS: Final = 30.0
"""A log that ends before what the Lease states for so long, while no daemon leads, has lost its end: a replica would have caught up."""

logger: Final = structlog.get_logger("muster")


class StatedEnd:
    """What the Lease states, and since when the log that is read ends before it."""

    def __init__(
        self,
        anchor: Callable[[], Anchor | None],
        is_unled: Callable[[], bool],
        accepts_loss: Callable[[Anchor], bool],
        unled_seconds: float,
    ) -> None:
        """`anchor` returns what the Lease states of the leader's log, `is_unled` whether the Lease can be taken, and
        `accepts_loss` whether the settings accept the loss of an anchor."""
        self._anchor = anchor
        self._is_unled = is_unled
        self._accepts_loss = accepts_loss
        self._unled_seconds = unled_seconds
        self._accepted: Anchor | None = None
        """An anchor whose loss the log has accepted."""
        self.behind_since: float | None = None
        """Since when the log that is read ends before what the Lease states."""

    def missing(self, end: int) -> Anchor | None:
        """Return what the Lease states and a log that ends at a position does not reach; None if it does."""
        anchor = self._anchor()
        if anchor is None or anchor == self._accepted or self._accepts_loss(anchor):
            return None
        return anchor if end < anchor.position else None

    def text(self, end: int) -> str:
        """Return what is missing in a log that ends at a position; empty if nothing is."""
        anchor = self.missing(end)
        if anchor is None:
            return ""
        return (
            f"the log that this daemon reads ends at position {end}, but {anchor.source} states that "
            f"position {anchor.position} was written"
        )

    async def compare(self, log: SqlLog, end: int, now: float) -> None:
        """Note since when the log is behind the Lease, unless that loss was accepted.

        Raises LostRecordsError if it has been behind for too long while no daemon leads.
        """
        missing = self.missing(end)
        if missing is not None and await is_accepted(log, missing):
            self._accepted, missing = missing, None
        if missing is None:
            self.behind_since = None
        elif self.behind_since is None:
            self.behind_since = now
            logger.warning("the log is behind the Lease", error=self.text(end))
        elif self._is_unled() and now - self.behind_since > self._unled_seconds:
            raise LostRecordsError(
                f"{log.place}: position {missing.position}: lost: {self.text(end)}, and no daemon leads; {ADVICE}: "
                f"{accepting(log, [missing])}"
            )
