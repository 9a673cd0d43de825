"""The SuperPoD of each node, in the view `topology_node`."""

from features.super_pods.index import SuperPods
from projections.cluster import Cluster
from projections.views.feature_rows import NodePlace


class SuperPodPlace(NodePlace):
    """The number of the SuperPoD of a node."""

    def columns(self, cluster: Cluster, node: str) -> dict[str, str]:
        """Return the SuperPoD of a node; nothing if it is in none."""
        number = cluster.indexes.of(SuperPods).of.get(node)
        return {} if number is None else {"superpod": str(number)}
