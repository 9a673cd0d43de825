"""The timeline of an incident: its first and its last steps, equal ones in a row as one."""

from collections import deque
from typing import Final

from msgspec import Struct, field

from replay.incident_answer import IncidentStep
from replay.log_time import format_time
from replay.why_subject import why_command

STEPS_FIRST: Final = 40
"""Steps kept from the beginning."""
STEPS_LAST: Final = 60
"""Steps kept from the end."""
DETAILS_MAX: Final = 12
"""The most lines under one step."""


class _Step(Struct):
    position: int
    last_position: int
    at_ns: int
    kind: str
    subject: str
    text: str
    details: list[str] = field(default_factory=list)
    details_left_out: int = 0
    count: int = 1

    def add_details(self, details: list[str]) -> None:
        room = max(0, DETAILS_MAX - len(self.details))
        self.details += details[:room]
        self.details_left_out += len(details) - len(details[:room])


class Timeline:
    """The steps of one incident, a bounded number of them."""

    def __init__(self) -> None:
        self.left_out = 0
        self._first: list[_Step] = []
        self._last: deque[_Step] = deque()

    def add(
        self,
        position: int,
        at_ns: int,
        kind: str,
        subject: str,
        text: str,
        details: list[str] | None = None,
    ) -> None:
        """Add a step. Equal ones at the same time are counted, and their details are joined."""
        last = self._last[-1] if self._last else self._first[-1] if self._first else None
        if last is not None and (last.at_ns, last.kind, last.subject, last.text) == (
            *(at_ns, kind, subject),
            text,
        ):
            last.count += 1
            last.last_position = position
            last.add_details(details or [])
            return
        step = _Step(position, position, at_ns, kind, subject, text)
        step.add_details(details or [])
        if len(self._first) < STEPS_FIRST:
            self._first.append(step)
            return
        self._last.append(step)
        if len(self._last) > STEPS_LAST:
            self._last.popleft()
            self.left_out += 1

    def steps(self, start_ns: int, base: int = 0) -> tuple[IncidentStep, ...]:
        """Return the steps of a log that began at `start_ns` behind a position, oldest first. No command explains earlier ones."""
        return tuple([_finished(one, start_ns, base) for one in (*self._first, *self._last)])


def _finished(step: _Step, start_ns: int, base: int) -> IncidentStep:
    more = [f"and {step.details_left_out} more"] if step.details_left_out else []
    return IncidentStep(
        position=step.position,
        last_position=step.last_position,
        at=format_time(step.at_ns, start_ns),
        at_ns=step.at_ns,
        kind=step.kind,
        subject=step.subject,
        text=step.text,
        details=(*step.details, *more),
        count=step.count,
        why=why_command(step.subject, step.last_position) if step.last_position > base else "",
    )
