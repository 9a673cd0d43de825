"""Moments that a user names, as positions of a log: the one place where a time becomes a position."""

from collections.abc import AsyncIterator, Sequence
from typing import TypeAlias

from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from events.errors import UsageError
from replay.log_time import HEAD, LogTime, format_time

At: TypeAlias = LogTime | int | None
"""A moment, a position, or None for the end of the log."""


async def position_at(log: ReadableLog, at: At, option: str = "--at") -> int:
    """Return the position of the last record at or before a moment.

    Raises UsageError if the moment is before the first record of the log or after the last one; `option` names it there.
    """
    moment = await resolved(log, at, option)
    if moment.position is not None:
        return moment.position
    if moment.at_ns is None:
        return log.head.position
    return await log.position_at(moment.at_ns)


async def position_from(log: ReadableLog, at: At, option: str = "--from") -> int:
    """Return the position of the first record at or after a moment. Raises UsageError as `position_at` does."""
    moment = await resolved(log, at, option)
    if moment.position is not None:
        return moment.position
    if moment.at_ns is None:
        return log.base.position + 1
    return await log.position_at(moment.at_ns - 1) + 1


async def stretch(
    log: ReadableLog, first: At, last: At, option: str = "--from"
) -> tuple[int | None, int | None]:
    """Return the first and last positions between two moments, --from and --to; None where none is given.

    Raises UsageError for a moment outside of the log, and for a stretch that holds no record.
    """
    begin = None if first is None else await position_from(log, first, option)
    end = None if last is None else await position_at(log, last, "--to")
    if begin is not None and end is not None and begin > end:
        raise UsageError(f"{option} {begin} comes after --to {end}")
    return begin, end


async def resolved(log: ReadableLog, at: At, option: str = "--at") -> LogTime:
    """Return a moment as a position or as nanoseconds since the Unix epoch; HEAD stays as it is.

    Raises UsageError if it is before the first record of the log or after the last one.
    """
    if at is None or at == HEAD:
        return HEAD
    if isinstance(at, int):
        at = LogTime(position=at)
    first, last = log.base.position + 1, log.head.position
    if last < first:
        raise UsageError(f"{option}: {log.place} holds no records")
    if at.position is not None:
        if not first <= at.position <= last:
            raise UsageError(
                f"{option} {at.position}: {log.place} holds positions {first} to {last}"
            )
        return at
    start_ns, end_ns = await recorded_at_ns(log, first), await recorded_at_ns(log, last)
    at_ns = at.time_ns(start_ns, end_ns)
    assert at_ns is not None
    if not start_ns <= at_ns <= end_ns:
        asked, start, end = (format_time(one, start_ns) for one in (at_ns, start_ns, end_ns))
        which = "before its first record" if at_ns < start_ns else "after its last record"
        raise UsageError(
            f"{option} {asked} is {which}: {log.place} holds positions {first} to {last}, from {start} to {end}"
        )
    return LogTime(at_ns=at_ns)


async def recorded_at_ns(log: ReadableLog, position: int) -> int:
    """Return when the record at a position was written."""
    return (await entry_at(log, position)).record.recorded_at_ns


async def entry_at(log: ReadableLog, position: int) -> Entry:
    """Return the entry at a position."""
    async for entries in log.entries_at([position]):
        return entries[0]
    raise UsageError(f"{log.place} has no position {position}")


async def each_entry(log: ReadableLog, positions: Sequence[int]) -> AsyncIterator[Entry]:
    """Yield the entries at some positions, which are in order. They are read in blocks."""
    async for entries in log.entries_at(positions):
        for one in entries:
            yield one


async def entries_at(log: ReadableLog, positions: Sequence[int]) -> list[Entry]:
    """Return the entries at some positions, which are in order."""
    return [one async for one in each_entry(log, positions)]
