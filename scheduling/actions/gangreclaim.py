"""Gangreclaim: evict surplus pods, or whole gangs, of other queues in favour of starving gangs."""

from collections.abc import Iterator

from events.decision import Decision
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import EvictingAction


def gangreclaim(session: Session) -> Iterator[Decision]:
    """Decide for every starving gang for which other queues have reclaimable pods."""
    return EvictingAction(session, "gangreclaim").decide()
