"""State before the first record of a log."""

import asyncio

from daemon.log.base_records import state_of_base
from daemon.log.contract import ReadableLog
from daemon.log.entry import Base
from daemon.memory_tuning import collector_paused
from events.errors import UsageError
from events.record import GENESIS
from features.table import FEATURES
from projections.left_out import LeftOut
from projections.state import State


async def first_state(log: ReadableLog, left_out: LeftOut) -> State:
    """Return State before the first record of a log: what stands there, or nothing.

    Raises UsageError for a log that begins behind a position and does not say what stands there: that is not nothing.
    """
    state = await state_at_base(log)
    if state is None and log.base != GENESIS:
        raise UsageError(
            f"{log.place} begins behind position {log.base.position}: what led there is missing; "
            "`muster log join` puts its archive back in front"
        )
    state = State(FEATURES) if state is None else state
    state.left_out = left_out
    return state


async def state_at_base(log: ReadableLog) -> State | None:
    """Return what stands where a log begins; None if it begins with the first record, or without what stands there."""
    base = await log.read_base()
    return None if base is None else await asyncio.to_thread(_folded, base, log.place)


def _folded(base: Base, place: str) -> State:
    with collector_paused():
        return state_of_base(base, FEATURES, place)
