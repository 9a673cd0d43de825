"""The State of a log at a position."""

from collections.abc import Callable

from daemon.fold import fold
from daemon.log.contract import ReadableLog
from events.errors import UsageError
from events.record import GENESIS
from projections.state import State


def check_complete(log: ReadableLog, purpose: str = "") -> None:
    """Raise UsageError for a log that does not begin with the first record."""
    if log.base != GENESIS:
        raise UsageError(
            f"{log.place} begins behind position {log.base.position}: what led there is missing{purpose}"
        )


async def state_at(
    log: ReadableLog, at: int | None = None, progress: Callable[[int], None] | None = None
) -> State:
    """Fold the log up to a position (None: its end). Raises UsageError where it does not hold that position.

    `progress` is called with positions as they are read.
    """
    check_complete(log)
    if at is not None and not 0 <= at <= log.head.position:
        raise UsageError(f"--at {at}: {log.place} ends at position {log.head.position}")
    return await fold(log, at, progress=progress)
