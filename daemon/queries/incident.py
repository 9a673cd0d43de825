"""Find the incidents of a log: fold it, and follow its faults and the restarts after them."""

from collections.abc import Callable

from msgspec import Struct

from daemon.log.contract import ReadableLog
from daemon.queries.log_state import check_complete
from events.chain import check_link
from projections.left_out import folded
from replay.incident_answer import IncidentReport
from replay.incident_selection import Selection
from replay.incidents import Incidents


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
    progress: Callable[[int], None] | None = None,
) -> FoundIncidents:
    """Return the incidents that are asked for, oldest first. Raises UsageError where the log cannot answer.

    The log is read once, up to where the answer is complete. `progress` is called with positions as they are read.
    """
    check_complete(log)
    return await folded(
        lambda left_out: _find(log, Incidents(selection, left_out=left_out), progress)
    )


async def _find(
    log: ReadableLog, found: Incidents, progress: Callable[[int], None] | None
) -> FoundIncidents:
    head = log.base
    async for entries in log.read():
        for entry in entries:
            head = check_link(head, entry.record)
            if not found.take(entry.record, entry.content):
                return _answer(found)
        if progress is not None:
            progress(entries[-1].record.position)
    return _answer(found)


def _answer(found: Incidents) -> FoundIncidents:
    answer = tuple(found.answer())
    return FoundIncidents(found.state.position, answer, found.left_out)
