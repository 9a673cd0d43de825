"""State at any moment of a log: from the nearest snapshot, or from a State that was computed before.

The States computed last are kept. What is returned is a fork, so the caller may change it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from itertools import pairwise
from typing import Final, TypeAlias

from daemon.first_state import first_state
from daemon.fold import restore_in_thread
from daemon.log.code_key import code_key
from daemon.log.contract import Log, ReadableLog
from daemon.log.snapshots import payload_of
from daemon.queries.log_state import check_complete
from daemon.queries.moments import At, position_at
from daemon.settled_cycle import indexes_needed_from
from events.chain import check_link
from events.codec import event_of
from events.record import Head
from projections.left_out import LeftOut, folded
from projections.state import State

KEPT_MAX: Final = 4
"""States that are kept; each may be as large as that of the daemon."""

SNAPSHOT_EVERY: Final = 10_000
"""Records between two snapshots of a ladder that is written afterwards: folding so many takes less than a second."""

Progress: TypeAlias = Callable[[int], None]


class History:
    """The past of one log."""

    def __init__(self, log: ReadableLog, kept_max: int = KEPT_MAX) -> None:
        self._log = log
        self._kept_max = kept_max
        self._kept: OrderedDict[int, tuple[State, Head]] = OrderedDict()
        """Position to State there, the one used last at the end."""

    async def facts_at(self, at: At = None, progress: Progress | None = None) -> State:
        """Return State at a moment (None: the end of the log); the caller may change it.

        Raises UsageError if the moment is outside of the log, or the log does not begin with the first record.
        `progress` is called with positions as they are read.
        """
        check_complete(self._log)
        position = await position_at(self._log, at)
        return await self.facts_at_position(position, progress)

    async def facts_at_position(self, position: int, progress: Progress | None = None) -> State:
        """Return State behind the record at a position; 0 for the empty State."""
        if position not in self._kept:
            found = await folded(lambda left_out: self._fold(position, left_out, progress))
            self._kept[position] = found
            while len(self._kept) > self._kept_max:
                self._kept.popitem(last=False)
        self._kept.move_to_end(position)
        return self._kept[position][0].fork()

    async def nearest(self, position: int) -> int:
        """Return the position of the last snapshot at or before a position; that of the base where there is none."""
        stored = await self._log.snapshot_positions(code_key())
        return max((one for one in stored if one <= position), default=self._log.base.position)

    async def _fold(
        self, until: int, left_out: LeftOut, progress: Progress | None
    ) -> tuple[State, Head]:
        log = self._log
        state, head = await self._nearest(until, left_out)
        state.leave_indexes_out(await indexes_needed_from(log, head.position, until))
        async for entries in log.read(after=head.position, until=until):
            for entry in entries:
                head = check_link(head, entry.record)
                state.apply(entry.record, event_of(entry.record), entry.content)
            if progress is not None:
                progress(head.position)
        state.settle()
        return state, head

    async def _nearest(self, until: int, left_out: LeftOut) -> tuple[State, Head]:
        """Return the State to fold from, at or before a position."""
        # A State that left records out, or may have to, is not reused.
        kept = [] if left_out else [one for one in self._kept if one <= until]
        nearest = max(kept, default=0)
        stored = await self._log.snapshot_positions(code_key())
        if any(nearest < one <= until for one in stored):
            snapshot = await self._log.latest_snapshot(code_key(), before=until)
            if snapshot is not None and snapshot.position > nearest:
                return await restore_in_thread(snapshot, left_out), snapshot.head
        if nearest:
            state, head = self._kept[nearest]
            state = state.fork()
            state.left_out = dict(state.left_out)
            return state, head
        return await first_state(self._log, left_out), self._log.base


async def write_snapshots(
    log: Log, every: int = SNAPSHOT_EVERY, progress: Progress | None = None
) -> list[int]:
    """Write the snapshots that the ladder of a log lacks, at ends of batches, `every` records apart; return the positions of all.

    The chain is checked on the way. Raises UsageError for a log that does not begin with the first record.
    """
    check_complete(log)
    await folded(lambda left_out: _write_snapshots(log, every, left_out, progress))
    return await log.snapshot_positions(code_key())


async def _write_snapshots(
    log: Log, every: int, left_out: LeftOut, progress: Progress | None
) -> None:
    stored = await log.snapshot_positions(code_key())
    end = log.head.position
    state, head = await first_state(log, left_out), log.base
    for begin, until in pairwise([head.position, *stored, end]):
        if until - begin < 2 * every:  # A long batch is not divided.
            continue
        if begin > head.position:
            snapshot = await log.latest_snapshot(code_key(), before=begin)
            if snapshot is not None and snapshot.position > head.position:
                state, head = await restore_in_thread(snapshot, left_out), snapshot.head
        last = begin
        async for entries in log.read(after=head.position, until=until):
            for entry in entries:
                record = entry.record
                is_end = record.batch == record.position
                if is_end and head.position - last >= every:
                    state.settle()
                    await _save(log, state, head)
                    last = head.position
                head = check_link(head, record)
                state.apply(record, event_of(record), entry.content)
            if progress is not None:
                progress(head.position)
    state.settle()
    if head.position == end and end not in stored:
        await _save(log, state, head)


async def _save(log: Log, state: State, head: Head) -> None:
    payload = await asyncio.to_thread(payload_of, state)
    await log.save_snapshot(head.position, head.digest, code_key(), payload)
