"""Find the incidents of a log: fold it, and follow its faults and the restarts after them."""

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, structs

from daemon.first_state import state_at_base
from daemon.fold import restored
from daemon.log.code_key import code_key
from daemon.log.contract import ReadableLog
from daemon.queries.bases import past_at_base
from daemon.queries.log_state import check_complete
from daemon.queries.moments import recorded_at_ns, resolved
from events.chain import check_link
from events.errors import UsageError
from events.record import Head
from projections.left_out import ApplyError, LeftOut, folded
from replay.incident_answer import IncidentReport
from replay.incident_selection import Selection
from replay.incidents import Incidents

Progress: TypeAlias = Callable[[int], None]


class FoundIncidents(Struct, frozen=True):
    """The incidents that were asked for."""

    position: int
    """How far the log was read."""
    incidents: tuple[IncidentReport, ...]
    left_out: int
    """Earlier incidents that are not among them, because there are too many."""


async def incidents(
    log: ReadableLog,
    selection: Selection,
    progress: Progress | None = None,
) -> FoundIncidents:
    """Return the incidents that are asked for, oldest first. Raises UsageError where the log cannot answer.

    The log is read up to where the answer is complete: from its first record or what stands where it begins, or for a fault
    with a position from the newest snapshot before it, unless the incident may have begun earlier. `progress` is called with positions
    as they are read.
    """
    check_complete(log)
    if selection.moment is not None:
        selection = structs.replace(selection, moment=await resolved(log, selection.moment))
    if selection.position:
        found = await _from_snapshot(log, selection, progress)
        if found is not None:
            return found
    before = await past_at_base(log)

    async def attempt(left_out: LeftOut) -> FoundIncidents:
        state = await state_at_base(log)
        if state is None:
            return await _find(log, Incidents(selection, left_out=left_out), log.base, progress)
        state.left_out = left_out
        found = Incidents(
            selection,
            state=state,
            start_ns=await recorded_at_ns(log, log.base.position + 1),
            begun_ns=before[-1].record.recorded_at_ns,
        )
        found.take_standing([(one.record, one.content) for one in before])
        return await _find(log, found, log.base, progress)

    return await folded(attempt)


async def _from_snapshot(
    log: ReadableLog, selection: Selection, progress: Progress | None
) -> FoundIncidents | None:
    """Return the incident of a fault from the newest snapshot before it; None if that may not be the whole answer."""
    snapshot = await log.latest_snapshot(code_key(), before=selection.position - 1)
    if snapshot is None:
        return None
    state = restored(snapshot)
    if state.cluster.reschedulings.restarts:
        return None
    incidents = Incidents(
        selection,
        state=state,
        start_ns=await recorded_at_ns(log, log.base.position + 1),
        begun_ns=await recorded_at_ns(log, snapshot.position),
    )
    try:
        found = await _find(log, incidents, snapshot.head, progress)
    except (ApplyError, UsageError):
        return None
    return found if incidents.is_independent else None


async def _find(
    log: ReadableLog, incidents: Incidents, head: Head, progress: Progress | None
) -> FoundIncidents:
    async for entries in log.read(after=head.position):
        for entry in entries:
            head = check_link(head, entry.record)
            if not incidents.take(entry.record, entry.content):
                return _answer(incidents)
        if progress is not None:
            progress(head.position)
    return _answer(incidents)


def _answer(incidents: Incidents) -> FoundIncidents:
    answer = tuple(incidents.answer())
    return FoundIncidents(incidents.state.position, answer, incidents.left_out)
