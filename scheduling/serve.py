"""Serving the queues: whose turn it is, which of its lines is next, and when a line is done.

The queue with the first turn serves the first group of all its lines, and goes back among the others. A
line whose head is refused is done for this cycle, and everyone in it is refused alike.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import TypeAlias

from events.union import Decision
from projections.lines import Line
from projections.pod_groups import PodGroup
from scheduling.quota.order import Turn
from scheduling.refuse import Reason, refusal
from scheduling.session import Session

ServeLine: TypeAlias = Callable[[Session, Line], Iterator[Decision]]
"""Serves the head of a line. When it decides nothing that moves the head on, the line is done."""


class _Waiting:
    """The lines of one queue that are still to be served."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines = {id(line): line for line in lines}

    def first(self) -> Line | None:
        """The line whose head is first of all."""
        for key in [key for key, line in self._lines.items() if not line.jobs]:
            del self._lines[key]
        return min(self._lines.values(), key=lambda line: line.jobs[0][0], default=None)

    def add(self, line: Line) -> None:
        self._lines[id(line)] = line

    def drop(self, line: Line) -> None:
        self._lines.pop(id(line), None)


def serve(session: Session, action: str, serve_line: ServeLine) -> Iterator[Decision]:
    """Serve all lines of an action until none is left to be served."""
    cluster = session.cluster
    waiting = {name: _Waiting(lines) for name, lines in session.lines_to_serve(action).items()}
    turns = [Turn(cluster, cluster.queue(name)) for name in waiting]
    heapq.heapify(turns)
    while turns:
        name = turns[0].queue.name
        line = waiting[name].first()
        if line is None:
            heapq.heappop(turns)
            continue
        head = line.head
        before = head.mark
        yield from serve_line(session, line)
        if head.mark == before:
            waiting[name].drop(line)
        else:
            for other in cluster.lines.of(head):
                if other.action == action and other.queue == name:
                    waiting[name].add(other)
        heapq.heapreplace(turns, Turn(cluster, cluster.queue(name)))


def refuse_line(
    session: Session, line: Line, reason_for: Callable[[PodGroup], Reason]
) -> Iterator[Decision]:
    """Refuse everyone in a line who is not refused for the same thing already."""
    for _, group in list(line.jobs):
        reason = reason_for(group)
        if not session.is_standing(group, line.action, reason.code, reason.limit):
            yield refusal(group, line.action, reason)
