"""Preempt: evict pods of the same queue in favour of starving pod groups; a gang gets all its pods or evicts none."""

from collections.abc import Iterator

from events.decision import Decision
from scheduling.gang_placement import strategy_problem
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import preempt_or_reclaim


def preempt(session: Session) -> Iterator[Decision]:
    """Decide for every starving pod group whose queue has possible victims."""
    yield from preempt_or_reclaim(session, "preempt", strategy_problem)
