"""Where a fold of a log begins to keep up indexes."""

from itertools import pairwise
from typing import Final

from daemon.log.contract import ReadableLog
from daemon.log.tables import CYCLE_KINDS
from events.decisions.search_deferred import SearchDeferred
from events.decisions.work_deferred import WorkDeferred

DEFERRALS: Final = (WorkDeferred.kind, SearchDeferred.kind)
"""Kinds of records by which a cycle leaves work for the next one."""

RECORDS: Final = 1_000
"""Records before the end of the fold in which cycles are looked for first; then in twice as many, and so on."""


async def indexes_needed_from(log: ReadableLog, after: int, until: int | None) -> int:
    """Return the position of the cycle before which a fold of the records after a position up to `until` can leave indexes out;
    0 if there is none.

    Events that the last cycle has to look at are those since the cycle before it, and what that one left; so it is the last
    cycle but one that left nothing.
    """
    end = log.head.position if until is None else min(until, log.head.position)
    records, last = RECORDS, end
    while last > after:
        begin = max(after, end - records)
        cycles = await log.positions_of_kinds(CYCLE_KINDS, begin, last)
        for following, cycle in pairwise(reversed(cycles)):
            if not await log.positions_of_kinds(DEFERRALS, cycle, following):
                return cycle
        records *= 2
        # The first of these may follow one that was not looked at.
        last = cycles[0] if cycles else last
        if begin == after:
            return 0
    return 0
