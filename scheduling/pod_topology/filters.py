"""What surrounds a pod: all that its class asks about others, and others of it, as the policy has it."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from projections.pod_class import PodClass
from projections.pod_terms import selects
from projections.pods import Pod
from projections.policy import Policy
from scheduling.pod_topology.affinity import (
    NOT_APART,
    NOT_BORNE,
    NOT_NEAR,
    affinity_points,
    closed_by_affinity,
    closed_by_anti_affinity,
    closed_by_others,
)
from scheduling.pod_topology.index import Neighbourhood, Stamp
from scheduling.pod_topology.spread import NO_LABEL, SKEWED, Spreading

Mask = npt.NDArray[np.bool_]

NO_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"

AROUND: Final = (NO_LABEL, SKEWED, NOT_NEAR, NOT_APART, NOT_BORNE)
"""Reasons to do with who stands where, in the order in which Kubernetes asks about them."""

LIMITS: Final = {
    NO_PORTS: "hostPort",
    NO_LABEL: "topologySpreadConstraints",
    SKEWED: "topologySpreadConstraints",
    NOT_NEAR: "podAffinity",
    NOT_APART: "podAntiAffinity",
    NOT_BORNE: "podAntiAffinity",
}
"""Reason to what of the pod limits it."""


OBSTACLES: Final = {
    NO_PORTS: "a port of it that the pod asks for is taken",
    NO_LABEL: "it has no label that the pod is to be spread over",
    SKEWED: "its domain has more of such pods than the spread allows",
    NOT_NEAR: "nobody whom the pod must be near is in its domain",
    NOT_APART: "somebody whom the pod does not bear is in its domain",
    NOT_BORNE: "somebody who does not bear the pod is in its domain",
}
"""Reason to what it says of one node."""


class Surroundings:
    """What surrounds pods of one class under one policy."""

    def __init__(self, around: Neighbourhood, policy: Policy, pod_class: PodClass) -> None:
        rules, order = policy.predicates, policy.node_order
        if not policy.has("nodeorder", "enableNodeOrder"):
            order = None
        terms, seen = pod_class.terms, pod_class.selected_as
        self._around = around
        self._pod_class = pod_class
        self._spread = Spreading(around, pod_class)
        self._keeps_ports = bool(rules and rules.node_ports and terms.ports)
        self._spreads = bool(rules and rules.spread and self._spread.hard)
        heeds = bool(rules and rules.pod_affinity)
        self._near = heeds and bool(terms.required_affinity)
        self._apart = heeds and bool(terms.required_anti_affinity)
        self._borne = heeds and seen is not None and seen.is_barred
        is_wished = bool(terms.preferred) or (seen is not None and seen.is_weighed)
        self._wish_weight = order.podaffinity_weight if order and is_wished else 0
        self._spread_weight = order.podtopologyspread_weight if order and self._spread.soft else 0
        self._kept: dict[bool, tuple[Stamp, dict[str, Mask]]] = {}

    @property
    def matters(self) -> bool:
        """Whether any of it counts under this policy."""
        filters = self._keeps_ports or self._spreads or self._near or self._apart or self._borne
        return bool(filters or self._wish_weight or self._spread_weight)

    def closed(self, *, later: bool = False) -> dict[str, Mask]:
        """Reason to the nodes that it closes, in the order in which they are asked about.

        `later` is once leaving pods have left.
        """
        kept = self._kept.get(later)
        if kept is None or kept[0] != self._around.stamp:
            kept = self._kept[later] = (self._around.stamp, dict(self._closings(later=later)))
        return kept[1]

    def open(self, *, later: bool = False) -> Mask:
        """The nodes that none of it closes."""
        found: Mask = np.ones(len(self._around.cluster.nodes.order), dtype=np.bool_)
        for one in self.closed(later=later).values():
            found &= ~one
        return found

    def obstacle(self, slot: int) -> str:
        """What of it closes a node; empty where nothing does."""
        found = (OBSTACLES[reason] for reason, mask in self.closed().items() if mask[slot])
        return next(found, "")

    def add(self, scores: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The scores with what is preferred, normalized over the nodes that can take the pod."""
        can = scores >= 0
        if not (self._wish_weight or self._spread_weight) or not can.any():
            return scores
        if self._wish_weight:
            points = affinity_points(self._around, self._pod_class, can)
            if points is not None:
                scores = scores + points * self._wish_weight
        if self._spread_weight:
            scores = scores + self._spread.points(can) * self._spread_weight
        return np.where(can, scores, -1)

    def is_obstructed_by(self, pod: Pod) -> bool:
        """Whether nodes may be closed to such pods because this one is there."""
        terms, theirs = self._pod_class.terms, pod.pod_class.terms
        labels, labels_of = (
            dict(pod.facts.labels),
            self._around.cluster.inter_pod_affinity.labels_of,
        )
        namespace = pod.facts.namespace
        if self._keeps_ports and any(a.collides(b) for a in terms.ports for b in theirs.ports):
            return True
        is_alike = self._spreads and namespace == terms.namespace
        if is_alike and any(selects(one.selector, labels) for one in self._spread.hard):
            return True
        if self._apart and any(
            one.matches(namespace, labels, labels_of) for one in terms.required_anti_affinity
        ):
            return True
        seen = self._pod_class.selected_as
        if not self._borne or seen is None:
            return False
        own = dict(seen.labels)
        return any(
            one.matches(seen.namespace, own, labels_of) for one in theirs.required_anti_affinity
        )

    def _closings(self, *, later: bool) -> Iterator[tuple[str, Mask]]:
        around, pod_class = self._around, self._pod_class
        if self._keeps_ports:
            yield NO_PORTS, around.listening(pod_class.terms.ports).possible(later=later) > 0
        if self._spreads:
            unlabelled, skewed = self._spread.closed()
            yield NO_LABEL, unlabelled
            yield SKEWED, skewed
        affinity: tuple[tuple[bool, str, Callable[..., Mask]], ...] = (
            (self._near, NOT_NEAR, closed_by_affinity),
            (self._apart, NOT_APART, closed_by_anti_affinity),
            (self._borne, NOT_BORNE, closed_by_others),
        )
        for is_on, reason, close in affinity:
            if is_on:
                yield reason, close(around, pod_class, later=later)
