"""One domain as the place for pods of a group."""

from projections.pod_groups import PodGroup
from scheduling.topology.candidates import Candidates
from scheduling.topology.domains import Domain
from scheduling.topology.network import PLUGIN, Network
from scheduling.topology.where import Nearness, Within


def inside(network: Network, group: PodGroup, domain: Domain, candidates: Candidates) -> Within:
    """The nodes of a domain; those close to the group's pods are better, where the policy has it."""
    policy, nearness = network.rankings.cluster.policy, None
    if policy.topology is not None and policy.has(PLUGIN, "enableNodeOrder"):
        slots = candidates.wanted.slots
        weight = policy.topology.weight
        nearness = Nearness(network.domains, weight, slots, len(group.pods))
    return Within(network.rankings.cluster.nodes, domain, nearness, candidates.most)
