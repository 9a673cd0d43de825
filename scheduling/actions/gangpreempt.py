"""Gangpreempt: evict surplus pods, or whole gangs, of the same queue in favour of starving gangs."""

from collections.abc import Iterator

from events.decision import Decision
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import EvictingAction


def gangpreempt(session: Session) -> Iterator[Decision]:
    """Decide for every starving gang whose queue has pod groups of lower priority."""
    return EvictingAction(session, "gangpreempt").decide()
