"""What status the object of a pod group should have since when, and up to where it was reported."""

from functools import lru_cache
from typing import Final

from msgspec import Struct, structs

Status = tuple[str, int, int, int]
"""Status of a PodGroup: its phase, and the numbers of running, succeeded and failed pods."""


class ReportedStatus(Struct, frozen=True, gc=False, array_like=True):
    """The status that a PodGroup object should have, and what was reported, as positions of records."""

    status: Status = ("", 0, 0, 0)
    since: int = 0
    """Position since which it should have this status."""
    phase_since: int = 0
    """Position since which it should have this phase."""
    before: tuple[str, int] = ("", 0)
    """The phase that it should have had before, and since which position."""
    reported_at: int = 0
    """Position up to which the status was reported, or rejected for good."""
    ready_since: int = 0
    """Position since which the gang is ready; 0 if it is not."""
    conditions_reported_at: int = 0
    """Position up to which conditions were reported, or rejected for good."""
    overwritten: int = 0
    """How often another client has overwritten this phase and these counts after they were reported."""

    def at(self, position: int, status: Status, *, is_ready: bool) -> "ReportedStatus":
        """Return the row if it should have this status and be ready or not at this position."""
        found = self
        if status != self.status:
            phase_since, before = self.phase_since, self.before
            if status[0] != self.status[0]:
                before = (self.status[0], phase_since) if phase_since else before
                phase_since = position
            found = structs.replace(
                self,
                status=_shared(status),
                since=position,
                phase_since=phase_since,
                before=before,
                overwritten=0,
            )
        if is_ready != bool(found.ready_since):
            found = structs.replace(found, ready_since=position if is_ready else 0)
        return found

    def phase_set_at(self, phase: str) -> int:
        """Return the position since which it should have, or should have had, this phase; 0 for another client's."""
        if phase == self.status[0]:
            return self.phase_since
        return self.before[1] if phase == self.before[0] else 0


NOT_REPORTED: Final = ReportedStatus()
"""The row of a pod group without an object."""


@lru_cache(maxsize=1 << 12)
def _shared(status: Status) -> Status:
    """Return an equal status; most groups have few different ones."""
    return status
