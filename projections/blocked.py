"""Find standing reasons: why a pod group cannot be scheduled however many resources are free.

Its PodGroup does not exist or cannot be read, its queue does not accept pod groups, or the HyperNodes do not allow
its network topology. Until then nothing is reserved for the group, neither quota nor resources of nodes.
"""

from typing import TYPE_CHECKING

from projections.hyper_tree import HyperTree
from projections.pod_groups import PodGroup
from projections.sub_groups import TopologyConstraint

if TYPE_CHECKING:
    from projections.cluster import Cluster


def is_blocked(cluster: "Cluster", group: PodGroup) -> bool:
    """Return whether a standing reason keeps the group from being scheduled."""
    if group.problem is not None:
        return True
    queue = cluster.queues.get(group.queue)
    if queue is not None and queue.closed_reason is not None:
        return True
    return (
        group.has_topology_constraint
        and topology_reason(cluster.nodes.hyper_tree, group) is not None
    )


def topology_reason(tree: HyperTree, group: PodGroup) -> tuple[str, str] | None:
    """Return code and message of why the network topology constraints of the group or its sub-groups cannot be
    satisfied; None if they can."""
    rules = () if group.sub_groups is None else group.sub_groups.rules
    for closeness in (group.topology_constraint, *(rule.topology_constraint for rule in rules)):
        reason = None if closeness is None else constraint_reason(tree, closeness)
        if reason is not None:
            return reason
    return None


def constraint_reason(tree: HyperTree, closeness: TopologyConstraint) -> tuple[str, str] | None:
    """Return code and message of why a network topology constraint cannot be satisfied; None if it can."""
    if tree.problem:
        return "TopologyNotReady", f"the tree of HyperNodes is not ready: {tree.problem}"
    if not closeness.is_hard:
        return None
    if closeness.tier_name and tree.tier_named(closeness.tier_name) is None:
        return "UnknownTier", f"no HyperNode is of tier {closeness.tier_name}"
    if not tree.facts and closeness.is_bound:
        return "TopologyNotReady", f"there is no HyperNode, and the pods must be {closeness.text}"
    return None
