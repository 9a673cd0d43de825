"""Making way: what `preempt` and `reclaim` do with the head of a line."""

from collections.abc import Iterator

from events.union import Decision
from projections.lines import Line
from projections.policy import GANGING
from scheduling.attempt import incomplete, standing_problem
from scheduling.serve import refuse_line, serve
from scheduling.session import Session
from scheduling.victims.gang_search import GangSearch
from scheduling.victims.search import Search


def make_way(session: Session, action: str) -> Iterator[Decision]:
    """Decide on every group that starves and for which the action could evict somebody."""

    def for_head(session: Session, line: Line) -> Iterator[Decision]:
        group = line.head
        problem = standing_problem(session, group) or incomplete(group)
        if problem is not None:
            yield from refuse_line(line, problem)
            return
        search: Search | GangSearch = (
            Search(session, action, group)
            if action not in GANGING
            else GangSearch(session, action, group)
        )
        if action == "preempt" and not search.is_whole and group.allocated_count:
            within = Search(session, action, group, is_within=True)
            search = within if within.is_whole else search
        if search.is_whole:
            yield from search.decisions()
        else:
            yield from refuse_line(line, search.reason)

    yield from serve(session, action, for_head)
