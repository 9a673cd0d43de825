"""Topology spread: which nodes it closes, and how it scores (Kubernetes' PodTopologySpread).

    skew of a domain = pods there, this one included - pods in the emptiest domain

Domains are counted on nodes that have the labels of all constraints and that the pod may use as far as the
constraint says. Pods that leave are not counted.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from projections.nodes import NodeFacts
from projections.pod_class import PodClass
from projections.pod_terms import Spread, selects
from projections.selector import untolerated
from scheduling.pod_topology.counts import Tally
from scheduling.pod_topology.index import Neighbourhood
from scheduling.score import FULL

Mask = npt.NDArray[np.bool_]

SKEWED: Final = "node(s) didn't match pod topology spread constraints"
NO_LABEL: Final = "node(s) didn't match pod topology spread constraints (missing required label)"

_HARD: Final = ("NoSchedule", "NoExecute")
_ONE: Final = 1 << 32
"""One, in fixed point."""


class Spreading:
    """The spread constraints of one class of pods."""

    def __init__(self, around: Neighbourhood, pod_class: PodClass) -> None:
        self._around = around
        self._pod_class = pod_class
        self.hard = tuple(one for one in pod_class.terms.spread if one.is_hard)
        self.soft = tuple(one for one in pod_class.terms.spread if not one.is_hard)
        self._counted: dict[Spread, Mask] = {}
        self._looked = (-1, -1)

    def closed(self) -> tuple[Mask, Mask]:
        """Nodes without a label that is asked for, and nodes where the skew would be too high."""
        count = len(self._around.cluster.nodes.order)
        unlabelled: Mask = np.zeros(count, dtype=np.bool_)
        skewed: Mask = np.zeros(count, dtype=np.bool_)
        labels = dict(self._pod_class.terms.labels)
        for one in self.hard:
            domain, counted = self._around.domain(one.topology_key), self._counts_in(one, self.hard)
            unlabelled |= ~domain.inside
            there = np.zeros(len(domain), dtype=np.bool_)
            there[domain.number[counted]] = True
            if not there.any():
                continue
            tally = self._tally(one)
            sums = domain.sums(tally.staying, counted)
            least = int(sums[there].min()) if int(there.sum()) >= one.min_domains else 0
            sums += domain.sums(tally.expected, counted)
            own = int(selects(one.selector, labels))
            skewed |= domain.inside & (domain.spread_out(sums) + own - least > one.max_skew)
        return unlabelled, skewed & ~unlabelled

    def points(self, can: Mask) -> npt.NDArray[np.int64]:
        """100 points for the node among most alike domains with the fewest pods, fewer the more there are.

        Domains count the more the more of them there are (by the logarithm), so that zones and nodes weigh
        alike. Nodes without all the labels get nothing.
        """
        judged = can.copy()
        for one in self.soft:
            judged &= self._around.domain(one.topology_key).inside
        raw = np.zeros(len(can), dtype=np.int64)
        if not judged.any():
            return raw
        for one in self.soft:
            domain, counted = self._around.domain(one.topology_key), self._counts_in(one, self.soft)
            sums = domain.sums(self._tally(one).staying, counted)
            weight = logarithm(len(np.unique(domain.number[judged])) + 2)
            raw += domain.spread_out(sums) * weight + (one.max_skew - 1) * 1000
        least, most = int(raw[judged].min()), int(raw[judged].max())
        if not most:
            return np.where(judged, FULL, 0)
        return np.where(judged, (most + least - raw) * FULL // most, 0)

    def _tally(self, one: Spread) -> Tally:
        return self._around.selected(self._pod_class.terms.namespace, one.selector)

    def _counts_in(self, one: Spread, alike: tuple[Spread, ...]) -> Mask:
        """The nodes on which pods are counted for a constraint."""
        table = self._around.cluster.nodes
        now = (table.layout, len(table.updated_slots))
        if now != self._looked:
            self._looked, self._counted = now, {}
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
            for other in alike:
                found &= self._around.domain(other.topology_key).inside
            self._counted[one] = found
        return found

    def _includes(self, one: Spread, node: NodeFacts) -> bool:
        pod_class = self._pod_class
        if one.honors_affinity and not pod_class.selector.matches(node.name, node.labels):
            return False
        return not (one.honors_taints and untolerated(node.taints, pod_class.tolerations, _HARD))


def logarithm(number: int) -> int:
    """The natural logarithm of a whole number, in thousandths, rounded down."""
    whole = number.bit_length() - 1
    rest, digits = (number << 32) >> whole, 0
    for _ in range(20):
        rest = rest * rest >> 32
        digits <<= 1
        if rest >= 2 * _ONE:
            rest >>= 1
            digits |= 1
    return ((whole << 20) + digits) * 693_147 // (1000 << 20)
