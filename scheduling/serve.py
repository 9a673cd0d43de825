"""Serving the queues: whose turn it is, which of its lines is next, and when a line is done.

The queue with the first turn serves the first group of all its lines, and goes back among the others. A
line whose head is refused is done for this cycle, and everyone in it is refused alike.
"""

import heapq
from collections.abc import Callable, Iterator
from typing import TypeAlias

from events.union import Decision
from projections.lines import Line, Order
from projections.pod_groups import PodGroup
from scheduling.quota.order import Turns
from scheduling.refuse import Reason, refusal
from scheduling.session import Session

ServeLine: TypeAlias = Callable[[Session, Line], Iterator[Decision]]
"""Serves the head of a line. When it decides nothing that moves the head on, the line is done."""


class _Waiting:
    """The lines of one queue that are still to be served, those with the first head first."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines: dict[int, Line] = {}
        self._heap: list[tuple[Order, int]] = []
        for line in lines:
            self.add(line)

    def first(self) -> Line | None:
        """The line whose head is first of all. Entries that are out of date are put right on the way."""
        while self._heap:
            order, key = self._heap[0]
            line = self._lines.get(key)
            if line is None or not line.jobs:
                heapq.heappop(self._heap)
                self._lines.pop(key, None)
            elif line.jobs[0][0] != order:
                heapq.heapreplace(self._heap, (line.jobs[0][0], key))
            else:
                return line
        return None

    def add(self, line: Line) -> None:
        """Serve a line, too. If it is there already its place is put right."""
        self._lines[id(line)] = line
        heapq.heappush(self._heap, (line.jobs[0][0], id(line)))

    def drop(self, line: Line) -> None:
        """Be done with a line."""
        self._lines.pop(id(line), None)


def serve(session: Session, action: str, serve_line: ServeLine) -> Iterator[Decision]:
    """Serve all lines of an action until none is left to be served."""
    cluster = session.cluster
    waiting = {name: _Waiting(lines) for name, lines in session.lines_to_serve(action).items()}
    turns = Turns(cluster, waiting)
    while (name := turns.first()) is not None:
        line = waiting[name].first()
        if line is None:
            turns.drop(name)
            continue
        if not session.could_change(line):
            # What woke it has gone to someone else in the meantime.
            waiting[name].drop(line)
            continue
        head = line.head
        before = head.mark
        yield from serve_line(session, line)
        if head.mark == before:
            waiting[name].drop(line)
        else:
            for other in cluster.lines.of(head):
                if other.action == action and other.queue == name:
                    session.mark_due(other)
                    waiting[name].add(other)
        turns.served(name)


def refuse_line(
    line: Line, reason: Reason, retell: Callable[[PodGroup, Reason], Reason] | None = None
) -> Iterator[Decision]:
    """Refuse everyone in a line who is not refused for the same thing already.

    `retell` puts a reason found at the head of the line into the words for another group.
    """
    head = line.head
    anew = [
        group
        for _, group in line.jobs
        if (standing := group.refusals.get(line.action)) is None
        or standing.code != reason.code
        or standing.limit != reason.limit
        or (standing.is_hopeless, standing.is_shut) != (reason.is_hopeless, reason.is_shut)
        or (standing.barred, standing.lacks_node) != (reason.barred, reason.lacks_node)
    ]
    for group in anew:
        told = reason if retell is None or group is head else retell(group, reason)
        yield refusal(group, line.action, told)
