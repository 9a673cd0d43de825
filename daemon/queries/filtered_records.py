"""The records of a log that pass a filter: of a stretch, the last ones, and those that are still to come."""

from collections import deque
from collections.abc import AsyncIterator
from typing import Final

from msgspec import Struct

from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.queries.checked_records import checked_records
from daemon.queries.followed_records import followed
from daemon.queries.history import History
from daemon.queries.log_state import check_complete
from events.codec import event_of
from events.union import Event
from replay.record_filter import RecordFilter
from replay.record_scope import Scope

FIRST_LOOK: Final = 2_000
"""Records from the end in which the last ones are looked for first; then four times as many, and so on."""

LOOK_BACK_MAX: Final = 100_000
"""Records from the end in which the last ones that pass a filter are looked for."""


class Passed(Struct, frozen=True):
    """A record that passes."""

    entry: Entry
    event: Event


class LastRecords(Struct, frozen=True):
    """The last records that pass a filter, oldest first."""

    records: list[Passed]
    looked_at: int
    """The records that were looked at, from the end."""
    is_complete: bool
    """Whether there are as many as were asked for, or all of the log was looked at."""


async def filtered_records(
    log: ReadableLog,
    wanted: RecordFilter,
    after: int,
    until: int | None = None,
    *,
    follows: bool = False,
) -> AsyncIterator[Passed]:
    """Yield the records that pass behind a position, up to another one or the end of the log; with `follows`, for ever.

    Raises UsageError for a filter by queue or node if the log does not begin with the facts at its start.
    """
    chunks = log.tail(after) if follows else log.read(after, until)
    if wanted.needs_state:
        check_complete(log)
        history = History(log)
        before = await history.facts_at_position(after)
        async for one in followed(checked_records(log, after, chunks), history, before):
            if wanted.passes(one.record, one.event, one.scope):
                yield Passed(one.entry, one.event)
        return
    nothing = Scope()
    async for entries in chunks:
        for entry in entries:
            event = event_of(entry.record)
            if wanted.passes(entry.record, event, nothing):
                yield Passed(entry, event)


async def last_records(log: ReadableLog, wanted: RecordFilter, count: int) -> LastRecords:
    """Return the last records that pass, up to the end of the log as it was opened."""
    base, end = log.base.position, log.head.position
    look = count if wanted.is_empty else FIRST_LOOK
    while True:
        look = min(look, end - base, max(LOOK_BACK_MAX, count))
        found: deque[Passed] = deque(maxlen=count)
        if count and look:
            async for one in filtered_records(log, wanted, end - look, end):
                found.append(one)
        is_whole = look == end - base
        if len(found) == count or is_whole or look >= LOOK_BACK_MAX:
            return LastRecords(list(found), look, len(found) == count or is_whole)
        look *= 4
