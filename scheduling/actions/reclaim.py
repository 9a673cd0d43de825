"""Reclaim: evict pods of other queues in favour of groups that starve, the gang whole or nobody."""

from collections.abc import Iterator

from events.union import Decision
from scheduling.session import Session
from scheduling.victims.preempt_reclaim import preempt_or_reclaim


def reclaim(session: Session) -> Iterator[Decision]:
    """Decide on every group that starves and for which other queues have somebody to give up."""
    yield from preempt_or_reclaim(session, "reclaim")
