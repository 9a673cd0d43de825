"""Topology spread constraints: which nodes they exclude, and how they score (Kubernetes' PodTopologySpread).

    skew of a domain = pods there, this one included - pods in the emptiest domain

Domains are counted on nodes that have the labels of all constraints and that the pod may use, as far as the
constraint's node policies say. Terminating pods are not counted.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from projections.nodes import NodeFacts
from projections.pod_class import PodClass
from projections.pod_terms import Spread, selects
from projections.selector import untolerated
from scheduling.node_columns import FULL
from scheduling.pod_topology.counts import PodCounts
from scheduling.pod_topology.index import PodTopologyIndex

Mask = npt.NDArray[np.bool_]

SKEWED: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = "node(s) didn't match pod topology spread constraints (missing required label)"

_HARD: Final = ("NoSchedule", "NoExecute")
_ONE: Final = 1 << 32
"""1 in fixed point."""


class SpreadConstraints:
    """The spread constraints of one class of pods."""

    needs_every_label = True
    """Whether a node counts for soft constraints only with the labels of all of them."""

    def __init__(self, index: PodTopologyIndex, pod_class: PodClass) -> None:
        self._index = index
        self._pod_class = pod_class
        self.hard = tuple(one for one in pod_class.terms.spread if one.is_hard)
        self.soft = tuple(one for one in pod_class.terms.spread if not one.is_hard)
        self._counted: dict[Spread, Mask] = {}
        self._read = (-1, -1)

    def excluded(self) -> tuple[Mask, Mask]:
        """Return the nodes without a required topology label, and the nodes where maxSkew would be exceeded."""
        count = len(self._index.cluster.nodes.order)
        unlabelled: Mask = np.zeros(count, dtype=np.bool_)
        skewed: Mask = np.zeros(count, dtype=np.bool_)
        labels = dict(self._pod_class.terms.labels)
        for one in self.hard:
            domain, counted = self._index.domain(one.topology_key), self._counts_in(one, self.hard)
            unlabelled |= ~domain.inside
            there = np.zeros(len(domain), dtype=np.bool_)
            there[domain.number[counted]] = True
            if not there.any():
                continue
            pod_counts = self._pod_counts(one)
            sums = domain.sums(pod_counts.staying, counted)
            least = int(sums[there].min()) if int(there.sum()) >= one.min_domains else 0
            sums += domain.sums(pod_counts.nominated, counted)
            own = int(selects(one.selector, labels))
            skewed |= domain.inside & (domain.spread_out(sums) + own - least > one.max_skew)
        return unlabelled, skewed & ~unlabelled

    def points(self, can: Mask) -> npt.NDArray[np.int64]:
        """Score 100 points for the node whose domains have the fewest matching pods, and less the more they have.

        A constraint weighs more the more domains it has (by the logarithm), so that zones and nodes weigh alike.
        Nodes without all the labels score 0.
        """
        judged = can.copy()
        for one in self.soft if self.needs_every_label else ():
            judged &= self._index.domain(one.topology_key).inside
        raw = np.zeros(len(can), dtype=np.int64)
        if not judged.any():
            return raw
        for one in self.soft:
            domain, counted = self._index.domain(one.topology_key), self._counts_in(one, self.soft)
            sums = domain.sums(self._staying(one), counted)
            weight = logarithm(_distinct(domain.number[judged & domain.inside]) + 2)
            raw += domain.inside * (domain.spread_out(sums) * weight + (one.max_skew - 1) * 1000)
        least, most = int(raw[judged].min()), int(raw[judged].max())
        if not most:
            return np.where(judged, FULL, 0)
        return np.where(judged, (most + least - raw) * FULL // most, 0)

    def _staying(self, one: Spread) -> npt.NDArray[np.int64]:
        """Return the pods on each node that a soft constraint counts."""
        return self._pod_counts(one).staying

    def _pod_counts(self, one: Spread) -> PodCounts:
        return self._index.matching_selector(self._pod_class.terms.namespace, one.selector)

    def _counts_in(self, one: Spread, alike: tuple[Spread, ...]) -> Mask:
        """Return the nodes on which pods are counted for a constraint."""
        table = self._index.cluster.nodes
        now = (table.layout, len(table.updated_slots))
        if now != self._read:
            self._read, self._counted = now, {}
        found = self._counted.get(one)
        if found is None:
            found = np.fromiter(
                (
                    node.facts is not None and self._includes(one, node.facts)
                    for node in table.order
                ),
                dtype=np.bool_,
                count=len(table.order),
            )
            for other in alike if self.needs_every_label else ():
                found &= self._index.domain(other.topology_key).inside
            self._counted[one] = found
        return found

    def _includes(self, one: Spread, node: NodeFacts) -> bool:
        pod_class = self._pod_class
        if one.honors_affinity and not pod_class.selector.matches(node.name, node.labels):
            return False
        return not (one.honors_taints and untolerated(node.taints, pod_class.tolerations, _HARD))


def _distinct(numbers: npt.NDArray[np.int64]) -> int:
    """Return how many different numbers there are, none negative."""
    return int(np.count_nonzero(np.bincount(numbers)))


def logarithm(number: int) -> int:
    """Return the natural logarithm of a whole number, in thousandths, rounded down."""
    whole = number.bit_length() - 1
    rest, digits = (number << 32) >> whole, 0
    for _ in range(20):
        rest = rest * rest >> 32
        digits <<= 1
        if rest >= 2 * _ONE:
            rest >>= 1
            digits |= 1
    return ((whole << 20) + digits) * 693_147 // (1000 << 20)
