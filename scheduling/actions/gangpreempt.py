"""Gangpreempt: evict surplus pods, or whole gangs, of the same queue in favour of starving gangs."""

from collections.abc import Iterator

from events.decision import Decision
from scheduling.gang_placement import strategy_problem
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import preempt_or_reclaim


def gangpreempt(session: Session) -> Iterator[Decision]:
    """Decide for every starving gang whose queue has pod groups of lower priority."""
    yield from preempt_or_reclaim(session, "gangpreempt", strategy_problem)
