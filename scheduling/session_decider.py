"""The decider `session`: the actions that the policy names, in its order, over tiers of plugins.

Each decision is yielded before the next one is computed, and the caller applies it first: an action always reads
the current State and keeps no counts of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import ClassVar, Final, TypeAlias

from events.decision import Decision
from projections.internal_error import OnError, ignore
from projections.pod_groups import PodGroup
from projections.policy.pools import DEFAULT_POOL
from projections.state import State
from scheduling.actions.allocate import allocate
from scheduling.actions.backfill import backfill
from scheduling.actions.enqueue import enqueue
from scheduling.actions.gangpreempt import gangpreempt
from scheduling.actions.gangreclaim import gangreclaim
from scheduling.actions.preempt import preempt
from scheduling.actions.reclaim import reclaim
from scheduling.explain.every_node import judged_pods
from scheduling.explain.nodes import excluded_pods
from scheduling.explain.placement import explain_placement
from scheduling.explain.waiting import WaitingExplanation
from scheduling.explanation import EveryNode, Explanation, PlacedPod, Subject
from scheduling.rejected_pods import recreate_rejected
from scheduling.requeue import is_cycle_due
from scheduling.session import Session

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


class FeatureAction(ABC):
    """A hook that is an action. It comes where the policy names it; before all others where it does not, and in pools that no actions
    decide."""

    name: ClassVar[str]

    @abstractmethod
    def decide(self, session: Session) -> Iterator[Decision]:
        """Yield the decisions of the action."""


class SessionDecider:
    """Decides for one pool. Everything that it caches between cycles can be recomputed from State."""

    def __init__(self, state: State, on_error: OnError = ignore, pool: str = DEFAULT_POOL) -> None:
        self.session = Session(state, on_error, pool)

    def wakes(self, at_ns: int) -> bool:
        """Return True if a cycle at this moment could decide anything."""
        session = self.session
        return is_cycle_due(
            session.state, at_ns, lambda events: session.requeued(events).values(), session.donors
        )

    def decide(self) -> Iterator[Decision]:
        """Yield the decisions of a cycle."""
        self.session.open_cycle()
        yield from recreate_rejected(self.session.cluster)
        policy = self.session.cluster.policy
        brought: dict[str, Action] = {
            one.name: one.decide for one in self.session.cluster.features.of(FeatureAction)
        }
        for name in brought:
            if name not in policy.actions:
                yield from self._carried_out(name, brought[name])
        for name in policy.actions:
            yield from self._carried_out(name, brought.get(name) or ACTIONS[name])

    def deferred(self) -> Iterator[Decision]:
        """Yield the record of the work that the cycle leaves to the next."""
        yield from self.session.deferred()

    def drop_stale(self) -> None:
        """Drop the parts of caches that are out of date."""
        self.session.rankings.drop_stale()

    def explain(self, subject: Subject) -> Explanation | None:
        """Return why a pod group waits, why a pod got its node, or which pods a node excludes, by the functions that
        decide; None for a subject of another pool. A trial placement leaves no trace in State."""
        if not self.session.has_subject(subject):
            return None
        match subject:
            case PodGroup():
                return Explanation(waiting=WaitingExplanation(self.session, subject).explain())
            case PlacedPod():
                return explain_placement(self.session, subject)
            case EveryNode():
                return Explanation(judged=judged_pods(self.session, subject.group))
            case _:
                return Explanation(excluded=excluded_pods(self.session.rankings, subject))

    def _carried_out(self, name: str, action: Action) -> Iterator[Decision]:
        """Yield the decisions of an action. An action that raises ends, and its remaining groups are decided later.

        An exception while a pod group is evaluated does not get here (`scheduling/queue_iteration.py`), and an
        exception that the caller meets while applying a decision does not pass through a generator at all.
        """
        try:
            yield from action(self.session)
        except Exception as error:  # any bug
            yield from self.session.action_failed(name, error, is_abandoned=True)
