"""Placement strategies: how a whole gang goes onto nodes. Each is one class; `scheduling/gang_placement.py` lists those that
features do not bring."""

from abc import abstractmethod

from projections.pod_groups import PodGroup
from projections.policy.placement_rules import NamedStrategy
from scheduling.gang_attempt import GangAttempt
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable


class PlacementStrategy(NamedStrategy):
    """Hook: how pod groups of one kind are placed."""

    @abstractmethod
    def is_for(self, session: Session, group: PodGroup) -> bool:
        """Return True if it places this group."""

    @abstractmethod
    def problem(self, session: Session, group: PodGroup) -> Unschedulable | None:
        """Return why the group cannot be placed whatever is free, or None."""

    def walk(self, session: Session, group: PodGroup) -> tuple[str, ...]:
        """Return the steps by which it chooses the nodes of the whole group; none if it chooses node by node."""
        return ()

    @abstractmethod
    def place(self, session: Session, group: PodGroup) -> GangAttempt:
        """Return the best attempt to place the group: a success, or one whose refusal says why not."""
