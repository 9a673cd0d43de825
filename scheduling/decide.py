"""Run one scheduling cycle: the actions that the policy names, in its order.

Each decision is yielded before the next one is computed, and the caller applies it first: an action always reads
the current State and keeps no counts of its own.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import scheduling.plugin_table  # noqa: F401  # policies name plugins of the table
from events.decision import ConfigInvalid
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
"""Version of the decision code. Raise it with every change that can alter a decision."""

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
"""Action name in the policy to the action."""


class Decider:
    """Decides for one State. Everything that it caches between cycles can be recomputed from State."""

    def __init__(self, state: State, on_error: OnError = ignore) -> None:
        self.session = Session(state, on_error)

    @property
    def examined(self) -> int:
        """Return how many times a node was scored for an equivalence class of pods since the start."""
        return self.session.rankings.examined

    def is_cycle_due(self, at_ns: int) -> bool:
        """Return True if a cycle at this moment could decide anything."""
        return self.session.is_cycle_due(at_ns)

    def decide(self) -> Iterator[Decision]:
        """Yield the decisions of the open cycle. Apply each one before asking for the next."""
        cluster = self.session.cluster
        self.session.open_cycle()
        self.session.drop_stale()
        for name in sorted(cluster.queues_with_unreported_errors):
            queue = cluster.queues[name]
            for code, message in queue.unreported_errors:
                yield ConfigInvalid(subject=f"Queue//{name}", code=code, message=message)
        for action in cluster.policy.actions:
            yield from self._carried_out(action)
        for subject in sorted(cluster.config_errors.unreported):
            for code, message in cluster.config_errors.unreported_of(subject):
                yield ConfigInvalid(subject=subject, code=code, message=message)
        yield from self.session.deferred()

    def _carried_out(self, action: str) -> Iterator[Decision]:
        """Yield the decisions of an action. An action that raises ends, and its remaining groups are decided later.

        An exception while a pod group is evaluated does not get here (`scheduling/queue_iteration.py`), and an
        exception that the caller meets while applying a decision does not pass through a generator at all.
        """
        try:
            yield from ACTIONS[action](self.session)
        except Exception as error:  # any bug
            yield from self.session.action_failed(action, error, is_abandoned=True)
