"""Gangpreempt: evict surplus pods, or whole gangs, of the same queue in favour of whole gangs that starve."""

from collections.abc import Iterator

from events.union import Decision
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import preempt_or_reclaim


def gangpreempt(session: Session) -> Iterator[Decision]:
    """Decide on every gang that starves and for which less urgent ones of its queue could leave."""
    yield from preempt_or_reclaim(session, "gangpreempt")
