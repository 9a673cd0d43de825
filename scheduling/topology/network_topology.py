"""Hook of plugins that order HyperNodes and score nodes by their place in the network."""

from fractions import Fraction

from projections.cluster import Cluster
from projections.plugin import Plugin


class NetworkTopology(Plugin):
    """Hook: the order of HyperNodes, and scores of nodes by their place in the network."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = ()
    """Name and weight of resources that count for the utilization of a domain."""
    is_for_normal_pods: bool = True
    """Whether pods without a network topology constraint are scored, too."""
    tier_decay: Fraction = Fraction(4, 5)
    """Factor of the weight of a domain with each higher tier, for such pods."""

    @property
    def orders_hyper_nodes(self) -> bool:
        """Return whether HyperNodes of equal preference are ordered."""
        return self.takes_part("enabledHyperNodeOrder")

    @property
    def scores_nodes(self) -> bool:
        """Return whether nodes are scored."""
        return self.takes_part("enableNodeOrder")


def network_topology(cluster: Cluster) -> NetworkTopology | None:
    """Return the plugin for network topology, if the policy names one."""
    return next(iter(cluster.plugins.of(NetworkTopology)), None)
