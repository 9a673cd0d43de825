"""What `muster topology` says of SuperPoDs."""

from collections.abc import Mapping

from features.super_pods.index import SuperPods
from projections.cluster import Cluster
from projections.feature_documents import NodeEntry, TopologySection


class SuperPodTopology(TopologySection):
    """The SuperPoDs with their nodes."""

    name = "super_pods"

    def places(self, cluster: Cluster) -> Mapping[str, object]:
        """Return the nodes in SuperPoDs."""
        index = cluster.indexes.find(SuperPods)
        return {} if index is None else index.of

    def parts(self, cluster: Cluster, entry: NodeEntry) -> list[dict[str, object]]:
        """Return the SuperPoDs by number."""
        index = cluster.indexes.find(SuperPods)
        names: dict[int, list[str]] = {}
        for name, number in [] if index is None else sorted(index.of.items()):
            names.setdefault(number, []).append(name)
        return [
            {"super_pod": number, "nodes": [entry(one) for one in names[number]]}
            for number in sorted(names)
        ]
