"""The domain that a decision chose for a pod, recomputed from its placements."""

from collections import Counter
from collections.abc import Iterable

from events.decision import Placement
from projections.nodes import Node
from projections.pod_groups import PodGroup
from projections.sub_groups import SubGroupKey
from scheduling.topology.network import Network
from scheduling.topology.network_topology import network_topology
from scheduling.topology.node_scope import DomainScope, NodeScope, ProximityScore


def placement_domain_of(
    network: Network, group: PodGroup, placements: Iterable[Placement], uid: str
) -> tuple[NodeScope, str]:
    """Return the scope in which a pod of the group could be placed, with the pods placed before it recorded, and its
    name.

    It is the smallest domain that contains all pods that had to be as close as this one.
    """
    cluster = network.rankings.cluster
    part, has_topology_constraint = _closest(group, uid)
    if not has_topology_constraint or cluster.nodes.hyper_tree.problem:
        placed: list[Node] = []
        for one in placements:
            if one.uid == uid:
                break
            node = cluster.nodes.nodes.get(one.node)
            if node is not None and node.facts is not None:
                placed.append(node)
        return network.scope_of(group, placed), ""
    by_part = network.slots_by_part(group)
    standing = network.slots_of(group) if part is None else by_part.get(part, {})
    before, held = Counter(standing), dict(standing)
    is_before = True
    for one in placements:
        node = cluster.nodes.nodes.get(one.node)
        if node is None or node.facts is None:
            continue
        if part is None or _part_of(group, one.uid) == part:
            is_before = is_before and one.uid != uid
            held[node.slot] = 1
            before.update([node.slot] if is_before else [])
    domain = network.domains.holding(held)
    plugin, proximity = network_topology(cluster), None
    if plugin is not None and plugin.scores_nodes:
        proximity = ProximityScore(network.domains, plugin.weight, before, len(group.pods))
    place = DomainScope(cluster.nodes, domain, proximity, lambda room: int(room.sum()))
    return place, place.candidate_nodes.name


def _closest(group: PodGroup, uid: str) -> tuple[SubGroupKey | None, bool]:
    """Return the sub-group that a pod must be close to, or None for the whole group; and whether it must be close."""
    part = _part_of(group, uid)
    rules = () if group.sub_groups is None else group.sub_groups.rules
    if part is not None and rules[part[0]].topology_constraint is not None:
        return part, True
    return None, group.topology_constraint is not None


def _part_of(group: PodGroup, uid: str) -> SubGroupKey | None:
    pod = group.pods.get(uid)
    return (
        None
        if group.sub_groups is None or pod is None
        else group.sub_groups.key_of(pod.facts.labels)
    )
