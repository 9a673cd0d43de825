"""Run one scheduling cycle: the decider of each pool, in the order of the policy.

Each decision is yielded before the next one is computed, and the caller applies it first.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Final, Protocol

from events.decision import Decision
from events.decisions.config_invalid import ConfigInvalid
from projections.internal_error import OnError, ignore
from projections.policy.pools import Pool, Pools
from projections.state import State
from scheduling.explanation import Explanation, Subject
from scheduling.session import Session
from scheduling.session_decider import SessionDecider

DECIDER: Final = 14
"""Version of the decision code. Raise it with every change that can alter a decision."""


class PoolDecider(Protocol):
    """Decides for the nodes and pod groups of one pool."""

    def wakes(self, at_ns: int) -> bool:
        """Return True if a cycle at this moment could decide anything."""

    def decide(self) -> Iterator[Decision]:
        """Yield the decisions of a cycle. Each is applied before the next one is asked for."""

    def deferred(self) -> Iterator[Decision]:
        """Yield the record of the work that the cycle leaves to the next."""

    def explain(self, subject: Subject) -> Explanation | None:
        """Return what this decider answers about a pod group, a placed pod or a node; None if it is of another pool."""

    def drop_stale(self) -> None:
        """Drop the parts of caches that are out of date."""


class OtherDeciders(ABC):
    """A hook that decides for the pools that are not decided by actions and plugins."""

    @abstractmethod
    def of_pool(self, state: State, pool: Pool, on_error: OnError) -> PoolDecider:
        """Return the decider of a pool."""

    @abstractmethod
    def before_pools(self, state: State) -> Iterator[Decision]:
        """Yield the decisions of a cycle that come before those of all pools."""


class Decider:
    """Decides for one State: each pool of the policy by its decider."""

    def __init__(
        self,
        state: State,
        on_error: OnError = ignore,
        *,
        pools: tuple[PoolDecider, ...] | None = None,
    ) -> None:
        self._state, self._cluster, self._on_error = state, state.cluster, on_error
        self._given = pools
        self._policy: Pools | None = None
        self._deciders: tuple[PoolDecider, ...] = ()
        self._default = SessionDecider(state, on_error)

    @property
    def _pools(self) -> tuple[PoolDecider, ...]:
        """Return the deciders of all pools of the policy in force."""
        if self._given is not None:
            return self._given
        pools = self._cluster.policy.pools
        if self._policy != pools:
            before, self._policy = self._default, pools
            found: list[PoolDecider] = []
            for pool in pools.all:
                if not pool.is_session:
                    found.append(self._other().of_pool(self._state, pool, self._on_error))
                elif pools.is_plain and before.session.pool == pool.name:
                    found.append(before)
                else:
                    found.append(SessionDecider(self._state, self._on_error, pool.name))
            self._deciders = tuple(found)
            self._default = next(
                (
                    one
                    for one, pool in zip(found, pools.all, strict=True)
                    if isinstance(one, SessionDecider) and pool.name == pools.compute
                ),
                next((one for one in found if isinstance(one, SessionDecider)), before),
            )
        return self._deciders

    def _other(self) -> OtherDeciders:
        """Return what decides for pools that are not decided by actions and plugins."""
        [others] = self._cluster.features.of(OtherDeciders)
        return others

    @property
    def session(self) -> Session:
        """Return the session of the default pool; of the first pool that has one, if that has none."""
        _ = self._pools
        return self._default.session

    def drop_stale(self) -> None:
        """Drop the parts of caches that are out of date."""
        for one in self._pools:
            one.drop_stale()

    @property
    def examined(self) -> int:
        """Return how many times a node was scored for an equivalence class of pods since the start."""
        return self.session.rankings.examined

    def wakes(self, at_ns: int) -> bool:
        """Return True if a cycle at this moment could decide anything."""
        return any(one.wakes(at_ns) for one in self._pools)

    def decide(self) -> Iterator[Decision]:
        """Yield the decisions of the open cycle. Apply each one before asking for the next."""
        cluster = self._cluster
        for name in sorted(cluster.queues_with_unreported_errors):
            queue = cluster.queues[name]
            for code, message in queue.unreported_errors:
                yield ConfigInvalid(subject=f"Queue//{name}", code=code, message=message)
        for others in cluster.features.of(OtherDeciders):
            yield from others.before_pools(self._state)
        for pool in self._pools:
            yield from pool.decide()
        for subject in sorted(cluster.config_errors.unreported):
            for code, message in cluster.config_errors.unreported_of(subject):
                yield ConfigInvalid(subject=subject, code=code, message=message)
        for pool in self._pools:
            yield from pool.deferred()

    def explain(self, subject: Subject) -> Explanation:
        """Return what the decider of its pool answers about a pod group, a placed pod or a node."""
        answers = (pool.explain(subject) for pool in self._pools)
        return next((one for one in answers if one is not None), Explanation())
