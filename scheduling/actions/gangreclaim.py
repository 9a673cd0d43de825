"""Gangreclaim: evict surplus pods, or whole gangs, of other queues in favour of whole gangs that starve."""

from collections.abc import Iterator

from events.union import Decision
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import preempt_or_reclaim


def gangreclaim(session: Session) -> Iterator[Decision]:
    """Decide on every gang that starves and for which other queues have to give something up."""
    yield from preempt_or_reclaim(session, "gangreclaim")
