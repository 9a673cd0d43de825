"""Keep what the present nodes have, and what the pods on them request.

Nodes that have been unready for longer than the policy states count in neither sum (`projections/unready_nodes.py`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from projections.deltas import NodeChanged, PodChanged
from projections.index import Index
from projections.nodes import NodeFacts
from projections.pod_class import Amounts
from projections.pods import NodeShare
from projections.queues import add

if TYPE_CHECKING:
    from projections.cluster import Cluster


class ClusterResources(Index):
    """Sums over all present nodes that count, by resource, without zero amounts."""

    name = "cluster resources"
    COMPARED: ClassVar[tuple[str, ...]] = ("allocatable", "used")
    follows_status = False
    can_be_left_out = True

    def __init__(self) -> None:
        self.allocatable: Amounts = {}
        """What these nodes have."""
        self.used: Amounts = {}
        """Requests of the pods on these nodes."""

    def rebuilt(self, cluster: "Cluster", /) -> "ClusterResources":
        """Sum up all present nodes and the pods on them again."""
        twin = ClusterResources()
        for node in cluster.nodes.nodes.values():
            if node.facts is not None and cluster.unready_nodes.counts(node.name):
                add(twin.allocatable, tuple(node.facts.allocatable.items()), 1)
                add(twin.used, tuple(node.occupied.items()), 1)
        return twin

    def on_node(self, cluster: "Cluster", delta: NodeChanged) -> None:
        """Add or remove the resources of a node, and the requests of the pods there."""
        facts = delta.old or delta.new
        assert facts is not None
        if not cluster.unready_nodes.counts(facts.name):
            return
        for one, sign in ((delta.old, -1), (delta.new, 1)):
            if one is not None:
                self.add_node(cluster, one, sign)

    def add_node(self, cluster: "Cluster", facts: NodeFacts, sign: int) -> None:
        """Add `sign` times a node, and the requests of the pods there."""
        node = cluster.nodes.nodes.get(facts.name)
        add(self.allocatable, tuple(facts.allocatable.items()), sign)
        add(self.used, () if node is None else tuple(node.occupied.items()), sign)

    def on_pods(self, cluster: "Cluster", changes: Sequence[PodChanged]) -> None:
        """Add or remove the requests of pods."""
        for one in changes:
            cluster.position = one.position
            if one.left != one.entered:
                self._use(cluster, one.left, -1)
                self._use(cluster, one.entered, 1)

    def _use(self, cluster: "Cluster", share: NodeShare | None, sign: int) -> None:
        if share is None or not cluster.unready_nodes.counts(share[0]):
            return
        node = cluster.nodes.nodes.get(share[0])
        if node is not None and node.facts is not None:
            add(self.used, share[2], sign)
