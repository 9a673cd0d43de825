"""Read a log batch by batch, and rebuild its views from it."""

from collections.abc import AsyncIterator, Callable

from daemon.first_state import first_state
from daemon.log.contract import Log, ReadableLog
from daemon.log.entry import Entry
from events.chain import check_link
from events.codec import event_of
from projections.internal_error import OnError, ignore
from projections.left_out import LeftOut, folded
from projections.state import State
from projections.views.project import Views
from projections.views.rows import ViewChanges

RECORDS_AT_ONCE = 2000
"""The number of records whose row changes are written together."""


async def batches(log: ReadableLog, after: int | None = None) -> AsyncIterator[list[Entry]]:
    """Yield the entries of a log, batch by batch: all, or those after a position at which a batch ends."""
    gathered: list[Entry] = []
    async for entries in log.read(after=log.base.position if after is None else after):
        for entry in entries:
            if gathered and entry.record.batch != gathered[0].record.batch:
                yield gathered
                gathered = []
            gathered.append(entry)
    if gathered:
        yield gathered


async def write_views_anew(
    log: Log, progress: Callable[[int], None] | None = None, on_error: OnError = ignore
) -> Views:
    """Rebuild every view from the log; the chain is checked on the way. Records that State cannot apply are left
    out.

    In a log that begins with facts, the rows that the facts imply begin there, and those of earlier records are gone.
    """
    return await folded(lambda left_out: _write_views(log, progress, on_error, left_out))


async def _write_views(
    log: Log, progress: Callable[[int], None] | None, on_error: OnError, left_out: LeftOut
) -> Views:
    views = Views(await _begin(log, left_out), on_error)
    await log.clear_views()
    head, written, gathered = log.base, log.base.position, list[ViewChanges]()
    if head.position:
        gathered.append(views.rows(head.position, views.state.now_ns))
    async for batch in batches(log):
        for entry in batch:
            head = check_link(head, entry.record)
            event = event_of(entry.record)
            views.state.apply(entry.record, event, entry.content, on_error)
            views.note(entry.record, event)
        views.state.settle(on_error)
        gathered.append(views.rows(head.position, batch[-1].record.recorded_at_ns))
        if head.position - written >= RECORDS_AT_ONCE:
            await log.write_views(gathered, written, head.position)
            written, gathered = head.position, []
            if progress is not None:
                progress(written)
    if gathered:
        await log.write_views(gathered, written, head.position)
    return views


async def _begin(log: Log, left_out: LeftOut) -> State:
    """Return State before the first record of a log, with every row to be written."""
    state = await first_state(log, left_out)
    if log.base_digest is not None:
        state.cluster.mark_rows_changed()
    return state
