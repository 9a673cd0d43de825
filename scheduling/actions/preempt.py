"""Preempt: evict pods of the same queue in favour of starving pod groups; a gang gets all its pods or evicts none."""

from collections.abc import Iterator

from events.decision import Decision
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import EvictingAction


def preempt(session: Session) -> Iterator[Decision]:
    """Decide for every starving pod group whose queue has possible victims."""
    return EvictingAction(session, "preempt").decide()
