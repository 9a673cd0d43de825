"""Preempt: evict pods of the same queue in favour of groups that starve, the gang whole or nobody."""

from collections.abc import Iterator

from events.union import Decision
from projections.lines import Line
from scheduling.attempt import incomplete, standing_problem
from scheduling.serve import refuse_line, serve
from scheduling.session import Session
from scheduling.victims.search import Search

ACTION = "preempt"


def preempt(session: Session) -> Iterator[Decision]:
    """Decide on every group that starves and for which somebody could be evicted."""
    yield from serve(session, ACTION, _make_way)


def _make_way(session: Session, line: Line) -> Iterator[Decision]:
    group = line.head
    problem = standing_problem(session, group) or incomplete(group)
    if problem is not None:
        yield from refuse_line(line, problem)
        return
    search = Search(session, ACTION, group)
    if not search.is_whole and group.allocated_count:
        within = Search(session, ACTION, group, is_within=True)
        search = within if within.is_whole else search
    if search.is_whole:
        yield from search.decisions()
    else:
        yield from refuse_line(line, search.reason)
