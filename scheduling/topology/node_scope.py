"""Scopes: the nodes that pods of a group may use, and the best of them for the next pod.

    AnyNode      all nodes; only the scores of plugins count
    DomainScope  the nodes of one domain; nodes close to the group's pods score higher (`ProximityScore`)
    TierDecay    all nodes, for pods without a topology constraint: fuller domains score higher, nodes outside of all most

Formulas: Volcano's `network-topology-aware`. Points are thousandths and are added to the other scores of a node.
"""

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from projections.nodes import Node, NodeTable
from projections.pod_class import PodClass
from scheduling.node_columns import FULL
from scheduling.node_ranking import NodeRanking
from scheduling.topology.domain_utilization import DomainUtilization
from scheduling.topology.domains import Domain, Domains, Mask
from scheduling.topology.network_topology import NetworkTopology
from scheduling.trial import Trial
from scheduling.unschedulable import ALL_NODES, CandidateNodes, GangCapacity

Scores = npt.NDArray[np.int64]

_DECAY_TIERS_MAX: Final = 64
"""From this tier on the decay is constant."""
_TIERS_MAX: Final = 1_000_000
"""Tiers that count; sums stay within 64 bits."""


class NodeScope(Protocol):
    """What a placement attempt asks about nodes."""

    is_planned: bool
    """Whether the nodes of all pods were chosen together: all pods are placed then, not only as many as the gang needs, and
    nothing is reserved for a part of them."""

    @property
    def candidate_nodes(self) -> CandidateNodes:
        """Return the nodes that a refusal counts."""

    def best(self, ranking: NodeRanking, pod_class: PodClass) -> Node | None:
        """Return the best node that has room now."""

    def scores(self, ranking: NodeRanking, pod_class: PodClass) -> Scores:
        """Return the score of each node, slot by slot; -1 for an infeasible node."""

    def best_later(self, ranking: NodeRanking) -> Node | None:
        """Return the best node that has room once terminating pods are gone."""

    def admits(self, node: Node) -> bool:
        """Return True if the group may use the node at all."""

    def record(self, node: Node, trial: Trial) -> None:
        """Record a tentative placement of a pod of the group on a node, until the trial restores it."""


class AnyNode:
    """All nodes of the cluster."""

    is_planned = False
    candidate_nodes = ALL_NODES

    def best(self, ranking: NodeRanking, pod_class: PodClass) -> Node | None:
        """Return the node with the highest score."""
        return ranking.best()

    def scores(self, ranking: NodeRanking, pod_class: PodClass) -> Scores:
        """Return the scores unchanged."""
        return ranking.scores()

    def best_later(self, ranking: NodeRanking) -> Node | None:
        """Return the node that will have the highest score."""
        return ranking.best_later()

    def admits(self, node: Node) -> bool:
        """Return True."""
        return True

    def record(self, node: Node, trial: Trial) -> None:
        """Do nothing: placements do not change the scores."""


ANY_NODE: Final = AnyNode()


class TierDecay(AnyNode):
    """All nodes; a node scores higher the better the pod fills each HyperNode that contains it, and highest outside of all.

        points of a node = sum over all tiers of score(tier) x fading ^ (tier - 1), over the sum of fading ^ (tier - 1)
        score(tier)      = binpack of its HyperNode of that tier; 100 without one

    The whole cluster is a tier above the highest.
    """

    def __init__(
        self,
        table: NodeTable,
        domains: Domains,
        utilization: DomainUtilization,
        plugin: NetworkTopology,
    ) -> None:
        self._table = table
        self._domains = domains
        self._utilization = utilization
        self.plugin = plugin
        fading = max(Fraction(0), min(plugin.tier_decay, Fraction(1)))
        exponents = [max(0, min(one.tier - 1, _DECAY_TIERS_MAX)) for one in domains.all]
        self._factors = np.array([int(FULL * fading**one) for one in exponents], dtype=np.int64)
        self._factors_sum = _sum_of_factors(fading, domains.lowest, domains.top.tier)

    def best(self, ranking: NodeRanking, pod_class: PodClass) -> Node | None:
        """Return the node with the highest score, points of its domains included."""
        scores = self.scores(ranking, pod_class)
        if not len(scores) or scores[best := int(scores.argmax())] < 0:
            return None
        return self._table.order[best]

    def scores(self, ranking: NodeRanking, pod_class: PodClass) -> Scores:
        """Return the scores with the points of the domains."""
        scores = ranking.scores()
        can = scores >= 0
        if not can.any():
            return scores
        return np.where(can, scores + self.points(pod_class), -1)

    def points(self, pod_class: PodClass) -> Scores:
        """Return what the domains of each node add to its score."""
        node_classes = self._domains.node_classes
        if not self._factors_sum:
            return np.zeros(len(node_classes.of_slot), dtype=np.int64)
        packed = self._utilization.binpack(pod_class.amounts, self.plugin.resources)
        lacking = np.append((FULL - packed) * self._factors, 0)
        raw = np.full(len(node_classes.home), FULL * self._factors_sum - lacking[-2])
        for layer in node_classes.layers:
            raw -= lacking[layer]
        points: Scores = np.maximum(raw, 0) // self._factors_sum * self.plugin.weight
        return points[node_classes.of_slot]


def _sum_of_factors(fading: Fraction, lowest: int, highest: int) -> int:
    """Return the sum of the factors of all tiers of a range, those without a HyperNode included."""
    last = min(highest, lowest + _TIERS_MAX)
    changing = range(lowest, min(last, _DECAY_TIERS_MAX) + 1)
    total = sum(int(FULL * fading ** max(0, tier - 1)) for tier in changing)
    rest = last - max(lowest, _DECAY_TIERS_MAX + 1) + 1
    return total + max(0, rest) * int(FULL * fading**_DECAY_TIERS_MAX)


class ProximityScore:
    """Proximity of each node to the placed pods of a group; 0 while no pod is placed.

        tier points = 100 x (highest tier - tier of the smallest domain with the node and all its pods)
                      / (highest tier - lowest tier)
        share points, for nodes that share the best tier with others
                    = 100 x pods of the group in the node's own HyperNode / all its pods

    The highest tier is that of the whole cluster.
    """

    def __init__(self, domains: Domains, weight: int, slots: Mapping[int, int], pods: int) -> None:
        self._domains = domains
        self._weight = weight
        self._pods = max(1, pods)
        self._used: Domain | None = None
        self._there = np.zeros(len(domains.all), dtype=np.int64)
        """Number of pods of the group in each domain."""
        self._tiers: tuple[Domain | None, Scores] = (None, np.zeros(0, dtype=np.int64))
        for slot, count in slots.items():
            self.record(slot, count)

    def record(self, slot: int, count: int = 1) -> Callable[[], None]:
        """Record `count` more pods of the group on this node. Return what restores the records as they were before."""
        there, before = self._domains.of_slot(slot), self._used
        if self._used is None:
            self._used = there[0]
        self._used = next(one for one in self._used.lineage if one in there)
        for one in there:
            self._there[one.index] += count
        return lambda: self._drop(there, count, before)

    def _drop(self, there: Iterable[Domain], count: int, before: Domain | None) -> None:
        self._used = before
        for one in there:
            self._there[one.index] -= count

    def points(self, slots: npt.NDArray[np.intp], can: Mask) -> Scores:
        """Return what proximity adds to the scores of these nodes; `can` marks the feasible ones."""
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
        """Return the tier points of each class of nodes."""
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
    """The nodes of one domain. `most` is the `GangCapacity` of `CandidateNodes`."""

    is_planned = False

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
        """Return the node of the domain with the highest score, proximity included."""
        slots = self.domain.slots
        if not len(slots):
            return None
        scores = self._own(ranking)
        best = int(scores.argmax())
        return self._table.order[int(slots[best])] if scores[best] >= 0 else None

    def scores(self, ranking: NodeRanking, pod_class: PodClass) -> Scores:
        """Return the scores with proximity; -1 outside of the domain."""
        scores = np.full(len(self._table.order), -1, dtype=np.int64)
        scores[self.domain.slots] = self._own(ranking)
        return scores

    def _own(self, ranking: NodeRanking) -> Scores:
        """Return the scores of the domain's nodes."""
        slots = self.domain.slots
        scores = ranking.scores()[slots]
        if self._proximity is None:
            return scores
        can = scores >= 0
        return np.where(can, scores + self._proximity.points(slots, can), -1)

    def best_later(self, ranking: NodeRanking) -> Node | None:
        """Return the node of the domain that will have the highest score."""
        return ranking.best_later(self.admits)

    def admits(self, node: Node) -> bool:
        """Return True if the node is in the domain."""
        return node.facts is not None and bool(self._inside[node.slot])

    def record(self, node: Node, trial: Trial) -> None:
        """Record a placement: nodes close to this one score higher from now on."""
        if self._proximity is not None:
            trial.on_restore(self._proximity.record(node.slot))
