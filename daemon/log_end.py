"""Whether the log holds all that the Lease, and the file beside it, state that was written (docs/log.md)."""

from collections.abc import Callable

import structlog
from msgspec import structs

from daemon.health import Health
from daemon.leadership import Elector, LogAnchor
from daemon.log.anchors import Anchor, is_same, parse_anchor
from daemon.log.contract import Log
from daemon.log.lost_records import accept_loss, check_anchors, has_loss, identity_of
from daemon.settings import Settings
from events.errors import LostRecordsError, UsageError
from events.record import Head

logger = structlog.get_logger("muster")


class LogEnd:
    """Compares logs with what is stated of their end, and knows which losses the settings accept."""

    def __init__(self, settings: Settings, health: Health, now_ns: Callable[[], int]) -> None:
        self._settings = settings
        self._health = health
        self._now_ns = now_ns

    async def check(self, log: Log, elector: Elector | None) -> None:
        """Compare a log with what the Lease and the file beside it state, and let both follow it from now on.

        Raises LostRecordsError with both positions if it ends before, unless the settings accept that loss.
        """
        stated = None if elector is None else elector.stated_anchor
        found = (log.stored_anchor(), self.anchor_of(stated))
        anchors = [one for one in found if one is not None]
        lost = [one for one in anchors if self.accepts(one)]
        if lost and await has_loss(log, lost):
            by, now_ns = "the setting accept_loss", self._now_ns()
            for one in await accept_loss(log, lost, by=by, now_ns=now_ns):
                logger.warning("a loss was accepted", first=one.first, last=one.last)
        try:
            await check_anchors(log, anchors)
        except LostRecordsError as error:
            identity = await identity_of(log)
            self._health.set("log", str(error))
            if stated is not None and stated.log and stated.log != identity:
                raise LostRecordsError(
                    f"{error} (the Lease names the log {stated.log}, this one is {identity})"
                ) from error
            raise
        log.keep_anchor()
        if elector is not None:
            # A log of which the beginning was archived keeps the name that the Lease gave it.
            is_whole = log.base.position == 0
            identity = "" if stated is None or is_whole else stated.log
            identity = identity or await identity_of(log)
            elector.log_anchor = lambda: _log_anchor(log.head, identity)

    def accepts(self, anchor: Anchor) -> bool:
        """Return True if the settings accept the loss of an anchor."""
        accepted = [parse_anchor(one, "accept_loss") for one in self._settings.accept_loss]
        return any(is_same(anchor, one) for one in accepted)

    def anchor_of(self, stated: LogAnchor | None) -> Anchor | None:
        """Return what the Lease states; None if it states nothing that can be read."""
        if stated is None:
            return None
        source = f"the Lease {self._settings.lease_name}"
        try:
            return structs.replace(parse_anchor(stated.anchor, source), source=source)
        except UsageError as error:
            logger.warning("the anchor of the Lease cannot be read", error=str(error))
            return None


def _log_anchor(head: Head, identity: str) -> LogAnchor | None:
    """Return what the Lease states of a log with this durable head; None for one without records."""
    if not head.position:
        return None
    return LogAnchor(f"{head.position}:{head.digest}", identity)
