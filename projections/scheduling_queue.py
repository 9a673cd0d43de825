"""Lines: groups of one queue that an action answers alike, in the order in which they are served.

What holds for the first in a line holds for all behind it, as nothing is given back within a cycle. So a
cycle looks at the head of a line, not at everyone who waits in it.
"""

from bisect import bisect_left, insort

from projections.pod_groups import LineKey, PodGroup

Order = tuple[object, ...]


class Line:
    """The groups of one line, first served first."""

    __slots__ = ("jobs", "key", "queue")

    def __init__(self, queue: str, key: LineKey) -> None:
        self.queue = queue
        self.key = key
        self.jobs: list[tuple[Order, PodGroup]] = []

    @property
    def action(self) -> str:
        """The action it waits for."""
        return self.key[0]

    @property
    def head(self) -> PodGroup:
        """Who is served first."""
        return self.jobs[0][1]

    def is_led_by(self, group: PodGroup) -> bool:
        """Whether the group is first: a decision may have put it into another line."""
        return bool(self.jobs) and self.jobs[0][1] is group


class Lines:
    """All lines, by queue."""

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[LineKey, Line]] = {}
        self._standing: dict[str, tuple[Order, list[Line]]] = {}

    def of(self, group: PodGroup) -> list[Line]:
        """The lines a group stands in."""
        standing = self._standing.get(group.key)
        return [] if standing is None else standing[1]

    def place(self, group: PodGroup, order: Order, keys: tuple[LineKey, ...]) -> None:
        """Let a group stand in these lines and no others."""
        standing = self._standing.get(group.key)
        if standing is not None:
            same = [(line.queue, line.key) for line in standing[1]]
            if standing[0] == order and same == [(group.queue, key) for key in keys]:
                return
            self.leave(group)
        if not keys:
            return
        lines = self.by_queue.setdefault(group.queue, {})
        joined = []
        for key in keys:
            line = lines.get(key)
            if line is None:
                line = lines[key] = Line(group.queue, key)
            insort(line.jobs, (order, group), key=_order)
            joined.append(line)
        self._standing[group.key] = (order, joined)

    def leave(self, group: PodGroup) -> None:
        """Take a group out of its lines."""
        standing = self._standing.pop(group.key, None)
        if standing is None:
            return
        order, lines = standing
        for line in lines:
            index = bisect_left(line.jobs, order, key=_order)
            assert line.jobs[index][1] is group
            del line.jobs[index]
            if not line.jobs:
                of_queue = self.by_queue[line.queue]
                del of_queue[line.key]
                if not of_queue:
                    del self.by_queue[line.queue]


def _order(job: tuple[Order, PodGroup]) -> Order:
    return job[0]
