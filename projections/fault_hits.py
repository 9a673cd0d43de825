"""Which pods a fault of a node hits."""

from typing import TYPE_CHECKING

from projections.faulty_pods import FaultyPods
from projections.node_faults import CARD_UNHEALTHY, NODE_UNHEALTHY, SUB_HEALTH, NodeFault

if TYPE_CHECKING:
    from projections.cluster import Cluster


def is_hit(fault: NodeFault, kind: str, device: str, source: str) -> bool:
    """Return whether a fault of its node makes a pod faulty whose fault has this kind, device and source.

    A pod has one fault, the worst. Of several faults of a whole node each hits all its pods.
    """
    if fault.effect == NODE_UNHEALTHY:
        return kind == NODE_UNHEALTHY
    if fault.effect not in (CARD_UNHEALTHY, SUB_HEALTH):
        return False
    return (kind, device, source) == (fault.effect, fault.device, fault.source)


def pods_hit(cluster: "Cluster", node: str, fault: NodeFault) -> list[str]:
    """Return the UIDs of the pods that a fault of a node makes faulty now."""
    of_node, index = cluster.nodes.nodes.get(node), cluster.indexes.of(FaultyPods)
    if of_node is None:
        return []
    found = [(uid, index.pods.get(uid)) for uid in of_node.pods]
    return [
        uid
        for uid, one in found
        if one is not None and is_hit(fault, one.kind, one.device, one.source)
    ]
