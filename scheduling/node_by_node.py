"""Place a gang pod by pod, each on its best node, wherever that is."""

from projections.pod_groups import PodGroup
from projections.policy.placement_rules import NODE_BY_NODE
from scheduling.gang_attempt import GangAttempt
from scheduling.placement_strategy import PlacementStrategy
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable


class NodeByNode(PlacementStrategy):
    """Places groups without any constraint on where their pods are to one another."""

    name = NODE_BY_NODE

    def is_for(self, session: Session, group: PodGroup) -> bool:
        """Return True: every group can be placed in this way."""
        return True

    def problem(self, session: Session, group: PodGroup) -> Unschedulable | None:
        """Return None: nothing but nodes is needed."""
        return None

    def place(self, session: Session, group: PodGroup) -> GangAttempt:
        """Attempt to place the group on all nodes."""
        return GangAttempt(session, group, session.network.scope_of(group))
