"""The current network: its domains and their utilization, rebuilt when nodes or HyperNodes change."""

from collections.abc import Iterable
from typing import TypeAlias

from projections.nodes import Node
from projections.plugin import PluginSet
from projections.pod_groups import PodGroup
from projections.sub_groups import SubGroupKey, TopologyConstraint
from scheduling.node_ranking import NodeRankings
from scheduling.score_formulas import NodeOrder, score_weights
from scheduling.topology.default_spread import DefaultSpread, OwnerSpreads, is_spread
from scheduling.topology.domain_utilization import DomainUtilization
from scheduling.topology.domains import Domains
from scheduling.topology.network_topology import network_topology
from scheduling.topology.node_scope import ANY_NODE, AnyNode, NodeScope, TierDecay

Slots: TypeAlias = dict[int, int]
"""Node slot to number of pods."""


class Network:
    """The domains of one State."""

    def __init__(self, rankings: NodeRankings) -> None:
        self.rankings = rankings
        self._cluster = rankings.cluster
        self._made = (-1, -1)
        self._domains: Domains | None = None
        self._utilization: DomainUtilization | None = None
        self._tier_decay: TierDecay | None = None
        self._weighed: PluginSet | None = None
        self._weight = 0
        self._owner_spreads = OwnerSpreads(rankings.topology_index)

    @property
    def domains(self) -> Domains:
        """Return the domains. Requires a ready tree."""
        self._keep_up()
        if self._domains is None:
            self._domains = Domains(self._cluster.nodes)
        return self._domains

    @property
    def utilization(self) -> DomainUtilization:
        """Return the utilization of the domains."""
        domains = self.domains
        if self._utilization is None:
            self._utilization = DomainUtilization(domains, self._cluster.nodes)
        return self._utilization

    def limit_of(self, closeness: TopologyConstraint) -> int | None:
        """Return the highest allowed tier of a domain for such pods; None if there is no limit."""
        if not closeness.is_hard:
            return None
        bounds = [] if closeness.tier is None else [closeness.tier]
        if closeness.tier_name:
            named = self._cluster.nodes.hyper_tree.tier_named(closeness.tier_name)
            assert named is not None, f"tier {closeness.tier_name} is not known"
            bounds.append(named)
        return min(bounds, default=None)

    def slots_of(self, group: PodGroup) -> Slots:
        """Return node slot to number of pods of a group that are placed or nominated there."""
        found: Slots = {}
        for slots in self.slots_by_part(group).values():
            for slot, count in slots.items():
                found[slot] = found.get(slot, 0) + count
        return found

    def slots_by_part(self, group: PodGroup) -> dict[SubGroupKey | None, Slots]:
        """Return the same by sub-group; pods of no sub-group are under None."""
        found: dict[SubGroupKey | None, Slots] = {}
        for (key, name), count in (group.pods_by_node or {}).items():
            node = self._cluster.nodes.nodes.get(name)
            if node is not None and node.facts is not None:
                found.setdefault(key, {})[node.slot] = count
        return found

    @property
    def unconstrained(self) -> AnyNode:
        """Return the scope of all nodes, for a group without a topology constraint."""
        cluster = self._cluster
        plugin, tree = network_topology(cluster), cluster.nodes.hyper_tree
        if plugin is None or not tree.facts or tree.problem or not plugin.scores_nodes:
            return ANY_NODE
        if not plugin.is_for_normal_pods or plugin.weight <= 0:
            return ANY_NODE
        utilization = self.utilization
        if self._tier_decay is None or self._tier_decay.plugin is not plugin:
            self._tier_decay = TierDecay(cluster.nodes, self.domains, utilization, plugin)
        return self._tier_decay

    def scope_of(self, group: PodGroup, placed: Iterable[Node] = ()) -> NodeScope:
        """Return the scope of all nodes for a group without a topology constraint; pods of one owner are spread, those on the
        nodes of `placed` included."""
        base, weight = self.unconstrained, self.spread_weight
        if not weight or not is_spread(group):
            return base
        return DefaultSpread(base, self._owner_spreads, group, weight, placed)

    @property
    def spread_weight(self) -> int:
        """Return the weight of spreading the pods of an owner."""
        plugins = self._cluster.plugins
        if self._weighed is not plugins:
            self._weighed = plugins
            self._weight = score_weights(plugins.of(NodeOrder)).topology_spread
        return self._weight

    def _keep_up(self) -> None:
        table = self._cluster.nodes
        made = (table.hyper_tree.version, table.layout)
        if self._made != made:
            self._made, self._domains, self._utilization, self._tier_decay = made, None, None, None
