"""Where the pods of a group may go, and which of these nodes is best for the next of them.

    anywhere        all nodes; what the plugins say of nodes is all that counts
    within          the nodes of one domain; nodes close to the group's pods are better (`ProximityScore`)
    faded           all nodes, for pods that do not ask to be close: fuller domains are better

Formulas: Volcano's `network-topology-aware`. Points are thousandths; what is added counts among the scores of
nodes as any other.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from projections.nodes import Node, NodeTable
from projections.plugin_arguments import Topology
from projections.pod_class import PodClass
from scheduling.ranking import NodeRanking
from scheduling.score import FULL
from scheduling.topology.domain_utilization import DomainUtilization
from scheduling.topology.domains import Domain, Domains, Mask
from scheduling.unschedulable import ALL_NODES, CandidateNodes, GangCapacity

Scores = npt.NDArray[np.int64]

_DECAY_TIERS_MAX: Final = 64
"""From so many tiers on a domain counts no less."""


class NodeScope(Protocol):
    """What an attempt asks about nodes."""

    @property
    def candidate_nodes(self) -> CandidateNodes:
        """Which nodes a refusal speaks of."""

    def best(self, ranking: NodeRanking, pod_class: PodClass) -> Node | None:
        """The best node that has room now."""

    def scores(self, ranking: NodeRanking, pod_class: PodClass) -> Scores:
        """The score of each node, slot by slot; -1 where the pod cannot go."""

    def best_later(self, ranking: NodeRanking) -> Node | None:
        """The best node that will have room once leaving pods have left."""

    def admits(self, node: Node) -> bool:
        """Whether the group may use the node at all."""

    def record(self, node: Node) -> None:
        """A pod of the group is tried on a node."""

    def checkpoint(self) -> object:
        """What was noted so far."""

    def rollback(self, kept: object) -> None:
        """Forget what was noted since."""


class AnyNode:
    """Any node of the cluster."""

    candidate_nodes = ALL_NODES

    def best(self, ranking: NodeRanking, pod_class: PodClass) -> Node | None:
        """The node with the best score."""
        return ranking.best()

    def scores(self, ranking: NodeRanking, pod_class: PodClass) -> Scores:
        """The scores as they are."""
        return ranking.scores()

    def best_later(self, ranking: NodeRanking) -> Node | None:
        """The node that will have the best score."""
        return ranking.best_later()

    def admits(self, node: Node) -> bool:
        """Every node will do."""
        return True

    def record(self, node: Node) -> None:
        """It makes no difference."""

    def checkpoint(self) -> object:
        """Nothing is noted."""
        return None

    def rollback(self, kept: object) -> None:
        """Nothing was noted."""


ANY_NODE: Final = AnyNode()


class TierDecay(AnyNode):
    """Any node, better in fuller domains: for each HyperNode it is in, how well the pod would fill that.

    points of a node = sum over its HyperNodes of binpack x fading ^ (tier - 1), the highest made 100
    """

    def __init__(
        self, table: NodeTable, domains: Domains, utilization: DomainUtilization, plugin: Topology
    ) -> None:
        self._table = table
        self._domains = domains
        self._utilization = utilization
        self.plugin = plugin
        fading = max(Fraction(0), min(plugin.fading, Fraction(1)))
        self._factors = np.array(
            [
                int(FULL * fading ** max(0, min(one.tier - 1, _DECAY_TIERS_MAX)))
                for one in domains.all[:-1]
            ],
            dtype=np.int64,
        )

    def best(self, ranking: NodeRanking, pod_class: PodClass) -> Node | None:
        """The node with the best score, its domains counted in."""
        scores = self.scores(ranking, pod_class)
        if not len(scores) or scores[best := int(scores.argmax())] < 0:
            return None
        return self._table.order[best]

    def scores(self, ranking: NodeRanking, pod_class: PodClass) -> Scores:
        """The scores with the domains counted in."""
        scores = ranking.scores()
        can = scores >= 0
        if not can.any():
            return scores
        return np.where(can, scores + self.points(pod_class, can), -1)

    def points(self, pod_class: PodClass, can: Mask) -> Scores:
        """What the domains of each node add to its score, of those that can take the pod."""
        packed = self._utilization.binpack(pod_class.amounts, self.plugin.resources)[:-1]
        values = np.append(packed * self._factors // FULL, (0, 0))
        node_classes = self._domains.node_classes
        raw = np.zeros(len(node_classes.home), dtype=np.int64)
        for layer in node_classes.layers:
            raw += values[layer]
        most = int(raw[node_classes.of_slot[can]].max())
        if most:
            raw = raw * FULL // most * self.plugin.weight
        return raw[node_classes.of_slot]


class ProximityCheckpoint(Struct, frozen=True):
    """Where pods of a group stand, as far as it is noted."""

    used: Domain | None
    there: Scores


class ProximityScore:
    """How close each node is to the pods that a group has; nothing while it has none.

    tier points = 100 x (highest tier - tier of the smallest domain with the node and all its pods)
                  / (highest tier - lowest tier)
    share points, for nodes that are best by tier together with others
                = 100 x pods of the group in the node's own HyperNode / all its pods

    The highest tier is that of the whole cluster.
    """

    def __init__(self, domains: Domains, weight: int, slots: Mapping[int, int], pods: int) -> None:
        self._domains = domains
        self._weight = weight
        self._pods = max(1, pods)
        self._used: Domain | None = None
        self._there = np.zeros(len(domains.all), dtype=np.int64)
        """Pods of the group in each domain."""
        self._tiers: tuple[Domain | None, Scores] = (None, np.zeros(0, dtype=np.int64))
        for slot, count in slots.items():
            self.record(slot, count)

    def checkpoint(self) -> "ProximityCheckpoint":
        """What was noted so far."""
        return ProximityCheckpoint(self._used, self._there.copy())

    def rollback(self, kept: "ProximityCheckpoint") -> None:
        """Forget what was noted since."""
        self._used, self._there = kept.used, kept.there.copy()

    def record(self, slot: int, count: int = 1) -> None:
        """So many more pods of the group stand on this node."""
        there = self._domains.of_slot(slot)
        if self._used is None:
            self._used = there[0]
        self._used = next(one for one in self._used.lineage if one in there)
        for one in there:
            self._there[one.index] += count

    def points(self, slots: npt.NDArray[np.intp], can: Mask) -> Scores:
        """What closeness adds to the scores of these nodes; `can` says which of them can take the pod."""
        if self._used is None or not can.any():
            return np.zeros(len(slots), dtype=np.int64)
        node_classes = self._domains.node_classes
        there = node_classes.of_slot[slots]
        counts = np.bincount(there[can], minlength=len(node_classes.home))
        points = self._by_tier(self._used)
        best = points == points[counts > 0].max()
        if int(counts[best].sum()) > 1:
            shares = self._there[node_classes.home] * FULL // self._pods
            points = points + np.where(
                best & (node_classes.home != self._domains.top.index), shares, 0
            )
        return points[there] * self._weight

    def _by_tier(self, used: Domain) -> Scores:
        """The tier points of each place."""
        known, points = self._tiers
        if known is not used:
            high, low = self._domains.top.tier, self._domains.lowest
            node_classes = self._domains.node_classes
            points = np.zeros(len(node_classes.home), dtype=np.int64)
            for one in reversed([*used.lineage]):
                if high > low:
                    points[node_classes.in_domain(one)] = FULL * (high - one.tier) // (high - low)
            self._tiers = (used, points)
        return points


class DomainScope:
    """The nodes of one domain. `most` says how many pods any domain could take, as `CandidateNodes` has it."""

    def __init__(
        self,
        table: NodeTable,
        domain: Domain,
        proximity: ProximityScore | None,
        most: GangCapacity,
    ) -> None:
        self._table = table
        self.domain = domain
        self._proximity = proximity
        self._inside: Mask = np.zeros(len(table.order), dtype=np.bool_)
        self._inside[domain.slots] = True
        name = domain.text if domain.name else ""
        self.candidate_nodes = CandidateNodes(self._inside, name, most)

    def best(self, ranking: NodeRanking, pod_class: PodClass) -> Node | None:
        """The node of the domain with the best score, closeness counted in."""
        slots = self.domain.slots
        if not len(slots):
            return None
        scores = self._own(ranking)
        best = int(scores.argmax())
        return self._table.order[int(slots[best])] if scores[best] >= 0 else None

    def scores(self, ranking: NodeRanking, pod_class: PodClass) -> Scores:
        """The scores with closeness counted in; -1 outside of the domain."""
        scores = np.full(len(self._table.order), -1, dtype=np.int64)
        scores[self.domain.slots] = self._own(ranking)
        return scores

    def _own(self, ranking: NodeRanking) -> Scores:
        """The scores of the domain's nodes."""
        slots = self.domain.slots
        scores = ranking.scores()[slots]
        if self._proximity is None:
            return scores
        can = scores >= 0
        return np.where(can, scores + self._proximity.points(slots, can), -1)

    def best_later(self, ranking: NodeRanking) -> Node | None:
        """The node of the domain that will have the best score."""
        return ranking.best_later(self.admits)

    def admits(self, node: Node) -> bool:
        """Whether the node is in the domain."""
        return node.facts is not None and bool(self._inside[node.slot])

    def checkpoint(self) -> object:
        """What was noted so far."""
        return None if self._proximity is None else self._proximity.checkpoint()

    def rollback(self, kept: object) -> None:
        """Forget what was noted since."""
        if self._proximity is not None and isinstance(kept, ProximityCheckpoint):
            self._proximity.rollback(kept)

    def record(self, node: Node) -> None:
        """Nodes close to this one are better from now on."""
        if self._proximity is not None:
            self._proximity.record(node.slot)
