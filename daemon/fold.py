"""State and views of a log: from the newest snapshot or base if there is one, else from the first record."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from daemon.composition import build_engine
from daemon.first_state import first_state
from daemon.kept_base import kept_state
from daemon.log.code_key import code_key
from daemon.log.contract import Log, ReadableLog
from daemon.log.entry import Snapshot
from daemon.log.snapshots import payload_of, state_of
from daemon.memory_tuning import collector_paused
from daemon.settled_cycle import indexes_needed_from
from daemon.view_rebuild import write_views_anew
from engine.engine import Engine
from events.chain import check_link
from events.codec import event_of
from events.record import Head
from projections.internal_error import OnError, ignore
from projections.left_out import LeftOut, folded
from projections.state import State
from projections.views.catalogue import DECISION, OUTCOME, VIEWS
from projections.views.project import Views, is_whole

logger: Final = structlog.get_logger("muster")

_NEVER_CHANGED: Final = (DECISION.name, OUTCOME.name)
"""Views whose rows never change once written: only their checksum is continued."""


async def fold(
    log: ReadableLog,
    until: int | None = None,
    on_error: OnError = ignore,
    progress: Callable[[int], None] | None = None,
) -> State:
    """Return State at a position, from the newest usable snapshot or base, or from the beginning.

    The chain is checked on the way. Indexes are kept up from the last cycle but one on (`daemon/settled_cycle.py`). Records
    that State cannot apply are left out. `progress` is called with positions as they are read.
    """
    kept: list[Snapshot] = []
    return await folded(lambda left_out: _fold(log, until, on_error, left_out, kept, progress))


async def _fold(
    log: ReadableLog,
    until: int | None,
    on_error: OnError,
    left_out: LeftOut,
    kept: list[Snapshot],
    progress: Callable[[int], None] | None,
) -> State:
    """Fold, and keep State behind the last record that is left out, where the next fold can begin."""
    if kept:
        state, head = await restore_in_thread(kept[-1], left_out), kept[-1].head
    else:
        state, head = await nearest_state(log, until, left_out)
    state.leave_indexes_out(await indexes_needed_from(log, head.position, until))
    to_keep = max(left_out, default=0)
    async for entries in log.read(after=head.position, until=until):
        for entry in entries:
            record = entry.record
            if to_keep and head.position >= to_keep and record.batch == record.position:
                state.settle(on_error)
                payload = payload_of(state)
                kept.append(Snapshot(head.position, head.digest, code_key(), payload))
                to_keep = 0
            head = check_link(head, record)
            state.apply(record, event_of(record), entry.content, on_error)
        if progress is not None:
            progress(head.position)
    state.settle(on_error)
    return state


async def nearest_state(
    log: ReadableLog, until: int | None, left_out: LeftOut
) -> tuple[State, Head]:
    """Return the State to fold from, at or before a position: that of the newest snapshot, else of the newest kept base, else what
    stands where the log begins."""
    snapshot = await log.latest_snapshot(code_key(), before=until)
    if snapshot is not None:
        return await restore_in_thread(snapshot, left_out), snapshot.head
    if (kept := await kept_state(log, until)) is not None:
        kept[0].left_out = left_out
        return kept
    return await first_state(log, left_out), log.base


def restored(snapshot: Snapshot) -> State:
    """Return the State of a snapshot."""
    with collector_paused():
        return state_of(snapshot.payload)


def under_policy(state: State, policy: bytes) -> State:
    """Return State as if another policy had been in force before."""
    with collector_paused():
        return state_of(payload_of(state), policy)


async def restore_in_thread(snapshot: Snapshot, left_out: LeftOut) -> State:
    """Return the State of a snapshot, in a thread: it takes seconds with many pods, and the Lease has to be renewed meanwhile."""
    state = await asyncio.to_thread(restored, snapshot)
    state.left_out = left_out
    return state


def refolder(
    log: Log,
    *,
    with_views: bool,
    secret: tuple[str, ...] = (),
    on_error: OnError = ignore,
) -> Callable[[Head], Awaitable[Engine]]:
    """Return a function that folds the log into an Engine each time it is called.

    Annotations named in `secret` never enter the log.
    """

    async def refold(head: Head) -> Engine:
        if not with_views:
            state = await fold(log, on_error=on_error)
            return build_engine(state, head, views=None, secret=secret, on_error=on_error)
        views = await _views(log, on_error)
        return build_engine(views.state, head, views=views, secret=secret, on_error=on_error)

    return refold


async def _views(log: Log, on_error: OnError) -> Views:
    """The views, continued from the database; all are rebuilt if one does not stand at the end of the log."""
    versions = {view.name: view.version for view in VIEWS}
    stand = await log.projections()
    end = log.head.position
    if any((one.version, one.position) != (versions.get(one.name), end) for one in stand):
        return await write_views_anew(log, on_error=on_error)
    views = Views(await fold(log, on_error=on_error), on_error)
    views.state.cluster.clear_changed_rows()
    for one in stand:
        rows = [] if one.name in _NEVER_CHANGED else await log.view_rows(one.name)
        if one.name not in _NEVER_CHANGED and not is_whole(one.name, rows, one.checksum):
            logger.warning(
                "a view does not match its checksum: all views are rebuilt", view=one.name
            )
            return await write_views_anew(log, on_error=on_error)
        views.resume(one.name, rows, one.checksum)
    return views
