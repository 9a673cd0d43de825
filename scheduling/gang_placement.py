"""Place a pod group by the first strategy that is for it."""

from typing import Final

from projections.pod_groups import PodGroup
from scheduling.gang_attempt import GangAttempt
from scheduling.hyper_node_placement import HyperNodePlacement
from scheduling.leaf_switches.placement import LeafSwitchPlacement
from scheduling.node_by_node import NodeByNode
from scheduling.placement_strategy import PlacementStrategy
from scheduling.session import Session
from scheduling.super_pods.placement import SuperPodPlacement
from scheduling.unschedulable import Unschedulable

STRATEGIES: Final[tuple[PlacementStrategy, ...]] = (
    SuperPodPlacement(),
    LeafSwitchPlacement(),
    HyperNodePlacement(),
    NodeByNode(),
)
"""All strategies; the last one is for every group."""


def placement_problem(session: Session, group: PodGroup) -> Unschedulable | None:
    """Return why the group cannot be placed whatever is free, or None."""
    return _strategy_for(session, group).problem(session, group)


def place_gang(session: Session, group: PodGroup) -> GangAttempt:
    """Return the best attempt to place the group."""
    return _strategy_for(session, group).place(session, group)


def placement_walk(session: Session, group: PodGroup) -> tuple[str, ...]:
    """Return the steps by which the nodes of the whole group are chosen; none if they are chosen one by one."""
    return _strategy_for(session, group).walk(session, group)


def _strategy_for(session: Session, group: PodGroup) -> PlacementStrategy:
    return next(one for one in STRATEGIES if one.is_for(session, group))
