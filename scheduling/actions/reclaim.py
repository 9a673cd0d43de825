"""Reclaim: evict pods of other queues in favour of starving pod groups; a gang gets all its pods or evicts none."""

from collections.abc import Iterator

from events.decision import Decision
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import EvictingAction


def reclaim(session: Session) -> Iterator[Decision]:
    """Decide for every starving pod group for which other queues have possible victims."""
    return EvictingAction(session, "reclaim").decide()
