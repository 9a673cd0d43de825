"""Preempt: evict pods of the same queue in favour of groups that starve, the gang whole or nobody."""

from collections.abc import Iterator

from events.union import Decision
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import preempt_or_reclaim


def preempt(session: Session) -> Iterator[Decision]:
    """Decide on every group that starves and for which its queue has somebody to evict."""
    yield from preempt_or_reclaim(session, "preempt")
