"""One domain as the place for pods of a group."""

from projections.pod_groups import PodGroup
from scheduling.topology.candidates import Candidates
from scheduling.topology.domains import Domain
from scheduling.topology.network import PLUGIN, Network
from scheduling.topology.placement_domain import Nearness, Within
from scheduling.unschedulable import GangCapacity


def inside(
    network: Network,
    group: PodGroup,
    domain: Domain,
    candidates: Candidates,
    most: GangCapacity | None = None,
) -> Within:
    """The nodes of a domain; those close to the group's pods are better, where the policy has it.

    `most` says how many pods of the gang can be had together, where not all of them must be in the domain.
    """
    policy, nearness = network.rankings.cluster.policy, None
    if policy.topology is not None and policy.has(PLUGIN, "enableNodeOrder"):
        slots = candidates.wanted.slots
        weight = policy.topology.weight
        nearness = Nearness(network.domains, weight, slots, len(group.pods))
    return Within(network.rankings.cluster.nodes, domain, nearness, most or candidates.most)
