"""`network-topology-aware`: fuller HyperNodes come first, and nodes close to the group's pods score higher (Volcano's
plugin of this name; formulas in `scheduling/topology/`)."""

from fractions import Fraction

from msgspec import Struct

from projections.policy.plugin_config import PluginConfig, warn_unknown
from projections.policy.policy_values import (
    JsonObject,
    Warn,
    fraction_at,
    resource_weights,
    truth_at,
    whole_at,
)
from scheduling.topology.network_topology import NetworkTopology

_NORMAL = "hypernode.binpack.normal-pod"


class TopologyArguments(Struct, frozen=True):
    """Arguments of `network-topology-aware`."""

    weight: int = 1
    resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    """Name and weight of resources that count for the utilization of a domain (`hypernode.binpack...`)."""
    is_for_normal_pods: bool = True
    """Whether pods without a network topology constraint are scored, too."""
    tier_decay: Fraction = Fraction(4, 5)
    """Factor of the weight of a domain with each higher tier, for such pods."""


class NetworkTopologyAware(NetworkTopology):
    """Prefers HyperNodes by their utilization."""

    name = "network-topology-aware"
    Arguments = TopologyArguments

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        given = config.arguments
        assert isinstance(given, TopologyArguments)
        self.weight, self.resources = given.weight, given.resources
        self.is_for_normal_pods, self.tier_decay = given.is_for_normal_pods, given.tier_decay

    @classmethod
    def read_arguments(cls, given: JsonObject, path: str, warn: Warn) -> Struct:
        """Return the weights."""
        weights, rest = resource_weights(given, "hypernode.binpack.", path)
        known = ("weight", f"{_NORMAL}.enable", f"{_NORMAL}.fading")
        for key in rest:
            if key not in known:
                warn_unknown(cls.name, key, path, warn)
        return TopologyArguments(
            weight=whole_at(given.get("weight", 1), f"{path}.weight"),
            resources=weights,
            is_for_normal_pods=truth_at(given.get(known[1], True), f"{path}.{known[1]}"),
            tier_decay=fraction_at(given.get(known[2], "0.8"), f"{path}.{known[2]}"),
        )
