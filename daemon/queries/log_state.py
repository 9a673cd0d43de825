"""The State of a log at a position."""

from collections.abc import Callable

from daemon.fold import fold
from daemon.log.contract import ReadableLog
from daemon.queries.moments import At, position_at
from events.errors import UsageError
from events.record import GENESIS
from projections.state import State


def check_complete(log: ReadableLog, purpose: str = "") -> None:
    """Raise UsageError for a log that begins neither with the first record nor with what stands at its start."""
    if log.base == GENESIS or log.base_digest is not None:
        return
    raise UsageError(
        f"{log.place} begins behind position {log.base.position}: what led there is missing{purpose}"
    )


async def state_at(
    log: ReadableLog, at: At = None, progress: Callable[[int], None] | None = None
) -> State:
    """Fold the log up to a moment (None: its end). Raises UsageError where the moment is outside of it.

    `progress` is called with positions as they are read.
    """
    check_complete(log)
    return await fold(log, await position_at(log, at), progress=progress)
