"""One domain as the scope for pods of a group."""

from projections.pod_groups import PodGroup
from scheduling.topology.candidates import CandidateDomains
from scheduling.topology.domains import Domain
from scheduling.topology.network import Network
from scheduling.topology.network_topology import network_topology
from scheduling.topology.node_scope import DomainScope, ProximityScore
from scheduling.unschedulable import GangCapacity


def domain_scope(
    network: Network,
    group: PodGroup,
    domain: Domain,
    candidates: CandidateDomains,
    most: GangCapacity | None = None,
) -> DomainScope:
    """Return a scope of the nodes of a domain; nodes close to the group's pods score higher if the policy says so.

    `most` returns how many pods of the gang fit together, if not all of them must be in the domain.
    """
    plugin, proximity = network_topology(network.rankings.cluster), None
    if plugin is not None and plugin.scores_nodes:
        slots = candidates.wanted.slots
        proximity = ProximityScore(network.domains, plugin.weight, slots, len(group.pods))
    return DomainScope(network.rankings.cluster.nodes, domain, proximity, most or candidates.most)
