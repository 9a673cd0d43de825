"""Whether a log is a shadow's: every record of it was made without acting on the cluster."""

from daemon.log.base_records import entries_of
from daemon.log.contract import ReadableLog
from daemon.log.entry import Base
from events.codec import event_of
from events.daemon import DaemonStarted
from events.errors import UsageError
from events.standing.kinds import decode_standing
from events.standing.log import DaemonStands


async def is_shadow(log: ReadableLog) -> bool:
    """Return whether a shadow wrote the log: its first record, or the facts before it, say so."""
    base = log.base.position
    if log.head.position <= base:
        return False
    async for entries in log.entries_at([base + 1]):
        event = event_of(entries[0].record)
        if isinstance(event, DaemonStarted):
            return event.is_shadow
    found = await log.read_base()
    return found is not None and _is_shadow(found, log.place)


def _is_shadow(base: Base, place: str) -> bool:
    stands = (
        decode_standing(DaemonStands, one.record.body)
        for one in entries_of(base, place)
        if one.record.kind == DaemonStands.kind
    )
    return any(one.is_shadow for one in stands)


async def check_mode(log: ReadableLog, *, shadow: bool) -> None:
    """Raise UsageError if the log was written in the other mode: a shadow's decisions were never meant to be carried
    out, and a shadow must not take a log over from a daemon that acts."""
    if log.head.position <= log.base.position or await is_shadow(log) == shadow:
        return
    if shadow:
        raise UsageError(
            f"{log.place} is the log of a daemon that acts: a shadow needs a log of its own"
        )
    raise UsageError(
        f"{log.place} is the log of a shadow, whose decisions must not be carried out: give another --log, or --shadow"
    )
