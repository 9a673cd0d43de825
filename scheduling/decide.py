"""One cycle: the actions the policy names, in its order.

Each decision is yielded before the next is thought of, and the caller applies it first: an action always
sees the truth and keeps no tally of its own.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from events.decision import ObjectFaulted, QueueFaulted
from events.union import Decision
from projections.internal_error import OnError, ignore
from projections.state import State
from scheduling.actions.allocate import allocate
from scheduling.actions.backfill import backfill
from scheduling.actions.enqueue import enqueue
from scheduling.actions.gangpreempt import gangpreempt
from scheduling.actions.gangreclaim import gangreclaim
from scheduling.actions.preempt import preempt
from scheduling.actions.reclaim import reclaim
from scheduling.session import Session

DECIDER: Final = 4
"""Version of the deciding code. Raise it with every change that can alter a decision."""

Action: TypeAlias = Callable[[Session], Iterator[Decision]]

ACTIONS: Final[dict[str, Action]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
    "gangpreempt": gangpreempt,
    "gangreclaim": gangreclaim,
}
"""What the policy may name."""


class Decider:
    """Decides for one State. What it remembers between cycles can be made anew from State."""

    def __init__(self, state: State, on_error: OnError = ignore) -> None:
        self.session = Session(state, on_error)

    @property
    def examined(self) -> int:
        """How many times a node was scored for a class of pods, since the beginning."""
        return self.session.rankings.examined

    def decide(self) -> Iterator[Decision]:
        """The decisions of the cycle that is open. Apply each before asking for the next."""
        cluster = self.session.cluster
        self.session.open_cycle()
        self.session.drop_stale()
        for name in sorted(cluster.queues_with_unreported_errors):
            queue = cluster.queues[name]
            for code, message in queue.unreported_errors:
                yield QueueFaulted(queue=name, code=code, message=message)
        for action in cluster.policy.actions:
            yield from self._carried_out(action)
        for subject in sorted(cluster.config_errors.unreported):
            for code, message in cluster.config_errors.unreported_of(subject):
                yield ObjectFaulted(subject=subject, code=code, message=message)
        yield from self.session.deferred()

    def _carried_out(self, action: str) -> Iterator[Decision]:
        """The decisions of an action. One that raises ends, and what it did not get to is looked at later.

        An exception out of the evaluation of a pod group does not get here (`scheduling/queue_iteration.py`), and one
        that the caller meets in applying a decision does not pass through a generator at all.
        """
        try:
            yield from ACTIONS[action](self.session)
        except Exception as error:  # a bug, whatever it is
            yield from self.session.action_failed(action, error, is_abandoned=True)
