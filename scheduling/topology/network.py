"""The network as it is now: its domains and how full they are, made anew when nodes or HyperNodes change."""

from typing import Final, TypeAlias

from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.sub_groups import Closeness, PartKey
from scheduling.ranking import Rankings
from scheduling.topology.domain_utilization import Loads
from scheduling.topology.domains import Domains
from scheduling.topology.placement_domain import ANYWHERE, Faded, Where

Slots: TypeAlias = dict[int, int]
"""Node, by its slot, to a number of pods."""

PLUGIN: Final = "network-topology-aware"


class Network:
    """The domains of one State."""

    def __init__(self, rankings: Rankings) -> None:
        self.rankings = rankings
        self._cluster = rankings.cluster
        self._made = (-1, -1)
        self._domains: Domains | None = None
        self._loads: Loads | None = None
        self._faded: Faded | None = None

    @property
    def domains(self) -> Domains:
        """The domains there are. The tree must be ready."""
        self._keep_up()
        if self._domains is None:
            self._domains = Domains(self._cluster.nodes)
        return self._domains

    @property
    def loads(self) -> Loads:
        """How full they are."""
        domains = self.domains
        if self._loads is None:
            self._loads = Loads(domains, self._cluster.nodes)
        return self._loads

    @property
    def anywhere(self) -> Where:
        """All nodes, for a group that need not be close."""
        cluster = self._cluster
        plugin, tree = cluster.policy.topology, cluster.nodes.hyper
        is_on = plugin is not None and plugin.is_for_normal_pods and plugin.weight > 0
        if plugin is None or not is_on or not tree.facts or tree.problem:
            return ANYWHERE
        if not cluster.policy.has(PLUGIN, "enableNodeOrder"):
            return ANYWHERE
        loads = self.loads
        if self._faded is None or self._faded.plugin is not plugin:
            self._faded = Faded(cluster.nodes, self.domains, loads, plugin)
        return self._faded

    def _keep_up(self) -> None:
        table = self._cluster.nodes
        made = (table.hyper.version, table.layout)
        if self._made != made:
            self._made, self._domains, self._loads, self._faded = made, None, None, None


def limit_of(cluster: Cluster, closeness: Closeness) -> int | None:
    """The highest tier of a domain for such pods; None where there is no such bound."""
    if not closeness.is_hard:
        return None
    bounds = [] if closeness.tier is None else [closeness.tier]
    if closeness.tier_name:
        named = cluster.nodes.hyper.tier_named(closeness.tier_name)
        assert named is not None, f"tier {closeness.tier_name} is not known"
        bounds.append(named)
    return min(bounds, default=None)


def slots_of(cluster: Cluster, group: PodGroup) -> Slots:
    """Where the pods of a group stand or are on their way to: node to how many."""
    found: Slots = {}
    for slots in slots_by_part(cluster, group).values():
        for slot, count in slots.items():
            found[slot] = found.get(slot, 0) + count
    return found


def slots_by_part(cluster: Cluster, group: PodGroup) -> dict[PartKey | None, Slots]:
    """The same by sub-group; pods of none stand under None."""
    found: dict[PartKey | None, Slots] = {}
    for (key, name), count in (group.standing or {}).items():
        node = cluster.nodes.nodes.get(name)
        if node is not None and node.facts is not None:
            found.setdefault(key, {})[node.slot] = count
    return found
