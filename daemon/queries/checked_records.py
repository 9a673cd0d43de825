"""Records whose chain is checked as they are read."""

from collections.abc import AsyncIterator

from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.queries.moments import entry_at
from events.chain import check_link
from events.record import Head


async def checked_records(
    log: ReadableLog, after: int, chunks: AsyncIterator[list[Entry]]
) -> AsyncIterator[list[Entry]]:
    """Yield chunks that begin behind a position. Raises DamagedLogError at a record that does not follow from the one before."""
    head = log.base
    if after > head.position:
        record = (await entry_at(log, after)).record
        head = Head(position=after, digest=record.digest, epoch=record.epoch)
    async for entries in chunks:
        for one in entries:
            head = check_link(head, one.record)
        yield entries
