"""Place a pod group by the first strategy of the policy that is for it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from projections.feature import Features
from projections.pod_groups import PodGroup
from projections.policy.placement_rules import NODE_BY_NODE
from scheduling.gang_attempt import GangAttempt
from scheduling.hyper_node_placement import HyperNodePlacement
from scheduling.node_by_node import NodeByNode
from scheduling.placement_strategy import PlacementStrategy
from scheduling.session import Session
from scheduling.trial import Trial
from scheduling.unschedulable import Unschedulable

_OWN: Final[tuple[PlacementStrategy, ...]] = (HyperNodePlacement(), NodeByNode())


@lru_cache(maxsize=8)
def strategies_with(features: Features) -> Mapping[str, PlacementStrategy]:
    """Return name to strategy, with those that features bring."""
    return {one.name: one for one in (*features.of(PlacementStrategy), *_OWN)}


def strategy_of(session: Session, group: PodGroup) -> PlacementStrategy | None:
    """Return the first strategy of the policy that is for the group."""
    strategies = strategies_with(session.cluster.features)
    for name in session.strategies_of(group.queue):
        # The policy need not name the feature of a strategy.
        strategy = strategies.get(name)
        if strategy is not None and strategy.is_for(session, group):
            return strategy
    return None


def placement_problem(session: Session, group: PodGroup) -> Unschedulable | None:
    """Return why the group cannot be placed whatever is free, or None."""
    strategy = strategy_of(session, group)
    return (
        strategy_problem(session, group) if strategy is None else strategy.problem(session, group)
    )


def strategy_problem(session: Session, group: PodGroup) -> Unschedulable | None:
    """Return a refusal if no strategy of the policy is for the group, or None."""
    if strategy_of(session, group) is not None:
        return None
    named = ", ".join(dict.fromkeys(session.strategies_of(group.queue))) or "none"
    text = f"the policy names no placement strategy that is for it; those of queue {group.queue}: {named}"
    return Unschedulable("NoPlacementStrategy", "", text)


def place_gang(session: Session, group: PodGroup) -> GangAttempt:
    """Return the best attempt to place a group for which `placement_problem` has none. What is reserved for its pods that are
    replaced does not count against it."""
    strategy = strategy_of(session, group)
    assert strategy is not None
    cluster = session.cluster
    restart = cluster.reschedulings.restarts.get(group.key) if cluster.policy.reschedules else None
    if restart is None or not restart.reservations:
        return strategy.place(session, group)
    with Trial(cluster) as trial:
        for one in restart.reservations.values():
            trial.lift_reservation(one.node, one.request)
        return strategy.place(session, group)


def is_placed_node_by_node(session: Session, group: PodGroup) -> bool:
    """Return whether no strategy but `node-by-node` is for the group, so that its nodes can be chosen otherwise."""
    strategy = strategy_of(session, group)
    return strategy is None or strategy.name == NODE_BY_NODE


def placement_walk(session: Session, group: PodGroup) -> tuple[str, ...]:
    """Return the steps by which the nodes of the whole group are chosen; none if they are chosen one by one."""
    strategy = strategy_of(session, group)
    return () if strategy is None else strategy.walk(session, group)
