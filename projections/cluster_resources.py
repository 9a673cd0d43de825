"""Keep what the present nodes have, and what the pods on them request."""

from typing import TYPE_CHECKING, ClassVar

from projections.deltas import NodeChanged, PodChanged
from projections.index import Index
from projections.pod_class import Amounts
from projections.pods import NodeShare
from projections.queues import add

if TYPE_CHECKING:
    from projections.cluster import Cluster


class ClusterResources(Index):
    """Sums over all present nodes, by resource, without zero amounts."""

    name = "cluster resources"
    COMPARED: ClassVar[tuple[str, ...]] = ("allocatable", "used")

    def __init__(self) -> None:
        self.allocatable: Amounts = {}
        """What all present nodes have."""
        self.used: Amounts = {}
        """Requests of the pods on all present nodes."""

    def rebuilt(self, cluster: "Cluster", /) -> "ClusterResources":
        """Sum up all present nodes and the pods on them again."""
        twin = ClusterResources()
        for node in cluster.nodes.nodes.values():
            if node.facts is not None:
                add(twin.allocatable, tuple(node.facts.allocatable.items()), 1)
                add(twin.used, tuple(node.occupied.items()), 1)
        return twin

    def on_node(self, cluster: "Cluster", delta: NodeChanged) -> None:
        """Add or remove the resources of a node, and the requests of the pods there."""
        facts = delta.old or delta.new
        assert facts is not None
        node = cluster.nodes.nodes.get(facts.name)
        occupied = () if node is None else tuple(node.occupied.items())
        for one, sign in ((delta.old, -1), (delta.new, 1)):
            if one is not None:
                add(self.allocatable, tuple(one.allocatable.items()), sign)
                add(self.used, occupied, sign)

    def on_pod(self, cluster: "Cluster", delta: PodChanged) -> None:
        """Add or remove the request of a pod."""
        if delta.left != delta.entered:
            self._use(cluster, delta.left, -1)
            self._use(cluster, delta.entered, 1)

    def _use(self, cluster: "Cluster", share: NodeShare | None, sign: int) -> None:
        node = None if share is None else cluster.nodes.nodes.get(share[0])
        if share is not None and node is not None and node.facts is not None:
            add(self.used, share[2], sign)
