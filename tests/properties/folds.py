"""Folds of a log that leave indexes out of older records, from the first record, from a cache, and from a base."""

from typing import Final

from events.codec import event_of
from events.cycle import CycleOpened
from events.decisions.search_deferred import SearchDeferred
from events.decisions.work_deferred import WorkDeferred
from events.record import Record
from features.table import FEATURES
from projections.snapshot import restore, take
from projections.state import State
from tests.projections.bases import base_of, differences
from tests.projections.bases import folded as folded_base

Log = list[tuple[Record, bytes | None]]

LEAVING_WORK: Final = (WorkDeferred.kind, SearchDeferred.kind)


def indexes_needed_from(log: Log) -> int:
    """Return the position of the last cycle but one that left no work for the next; 0 if there is none."""
    found = last = 0
    leaves_work = False
    for record, _ in log:
        if record.kind == CycleOpened.kind:
            if last and not leaves_work:
                found = last
            last, leaves_work = record.position, False
        leaves_work = leaves_work or record.kind in LEAVING_WORK
    return found


def continued(state: State, log: Log, needed_from: int) -> int:
    """Fold the records behind the position of State; return how many were applied without indexes, which are left out before
    `needed_from`."""
    if needed_from > state.position:
        state.leave_indexes_out(needed_from, records_per_pod=0)
    count = 0
    for record, content in log[state.position :]:
        state.apply(record, event_of(record), content)
        count += state.are_indexes_left_out
    state.settle()
    return count


def check_folds(log: Log, end: State) -> int:
    """Compare the ends of such folds of a whole log with the State of an ordinary one. Return how many records were applied
    without indexes."""
    needed_from = indexes_needed_from(log)
    ends = [one.position for one, _ in log if one.position + 1 == _batch_after(log, one.position)]
    middle = ends[len(ends) // 3] if ends else 0
    half, count = State(FEATURES), 0
    continued(half, log[:middle], 0)
    contents = {one.object: content for one, content in log if one.object and content is not None}
    base = base_of(half, contents)
    last = max((one.position for one, _ in log if one.kind == CycleOpened.kind), default=0)
    for state in (
        State(FEATURES),
        restore(take(half), FEATURES),
        folded_base(base, contents, half.position),
    ):
        begins_at = state.position
        count += continued(state, log, needed_from)
        state.validate()
        assert differences(end, state) == []
        assert state.next_deadline_ns == end.next_deadline_ns
        # What the last cycle looked at is not in a cache or base behind it.
        assert begins_at >= last or state.cycle_events == end.cycle_events
    return count


def _batch_after(log: Log, position: int) -> int:
    """Return the batch of the record behind a position; the position behind it at the end."""
    return log[position][0].batch if position < len(log) else position + 1
