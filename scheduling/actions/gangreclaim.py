"""Gangreclaim: evict surplus pods, or whole gangs, of other queues in favour of starving gangs."""

from collections.abc import Iterator

from events.decision import Decision
from scheduling.gang_placement import strategy_problem
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import preempt_or_reclaim


def gangreclaim(session: Session) -> Iterator[Decision]:
    """Decide for every starving gang for which other queues have reclaimable pods."""
    yield from preempt_or_reclaim(session, "gangreclaim", strategy_problem)
