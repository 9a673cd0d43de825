"""Filters and scores of a class of pods that depend on other pods, as enabled by the policy."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from projections.nodes import Node
from projections.plugin import PluginSet
from projections.pod_class import PodClass
from projections.pod_terms import selects
from projections.pods import Pod
from scheduling.node_predicates import NodePredicate
from scheduling.pod_topology.affinity import (
    AFFINITY_MISMATCH,
    ANTI_AFFINITY_MISMATCH,
    EXISTING_ANTI_AFFINITY,
    affinity_points,
    excluded_by_affinity,
    excluded_by_anti_affinity,
    excluded_by_existing_anti_affinity,
)
from scheduling.pod_topology.index import PodTopologyIndex, Stamp
from scheduling.pod_topology.plugin_columns import PluginColumns
from scheduling.pod_topology.spread import NO_LABEL, SKEWED, SpreadConstraints
from scheduling.score_formulas import NodeOrder, score_weights
from scheduling.volumes.volume_filter import VOLUME_REASONS, VolumeFilter, VolumeMasks

Mask = npt.NDArray[np.bool_]

NO_PORTS: Final = "node(s) didn't have free ports for the requested pod ports"

POD_TOPOLOGY_REASONS: Final = (
    NO_LABEL,
    SKEWED,
    AFFINITY_MISMATCH,
    ANTI_AFFINITY_MISMATCH,
    EXISTING_ANTI_AFFINITY,
)
"""The reasons in the order in which Kubernetes evaluates them."""

LIMITS: Final = {
    NO_PORTS: "hostPort",
    NO_LABEL: "topologySpreadConstraints",
    SKEWED: "topologySpreadConstraints",
    AFFINITY_MISMATCH: "podAffinity",
    ANTI_AFFINITY_MISMATCH: "podAntiAffinity",
    EXISTING_ANTI_AFFINITY: "podAntiAffinity",
    **dict.fromkeys(VOLUME_REASONS, "persistentVolumeClaim"),
}
"""Reason to the field of the pod that causes it."""


NODE_TEXTS: Final = {
    NO_PORTS: "a hostPort of the pod is in use",
    NO_LABEL: "missing the topologyKey label of a topology spread constraint",
    SKEWED: "maxSkew of a topology spread constraint would be exceeded",
    AFFINITY_MISMATCH: "no pod in its topology domain matches the pod affinity",
    ANTI_AFFINITY_MISMATCH: "pod anti-affinity excludes this node: a matching pod is in its topology domain",
    EXISTING_ANTI_AFFINITY: "pod anti-affinity of an existing pod in its topology domain excludes this node",
}
"""Reason to the message about a single node."""


class PodTopologyFilters:
    """The filters and scores of one class of pods under one policy that depend on more than single nodes and what is free
    there: on other pods, on volumes, and on plugins beside muster."""

    def __init__(
        self,
        index: PodTopologyIndex,
        plugins: PluginSet,
        pod_class: PodClass,
        masks: VolumeMasks,
    ) -> None:
        predicates, weights = (
            plugins.of(NodePredicate),
            score_weights(plugins.of(NodeOrder)),
        )
        terms, seen = pod_class.terms, pod_class.selected_as
        self._index = index
        self._pod_class = pod_class
        self._spread = SpreadConstraints(index, pod_class)
        self._keeps_ports = bool(terms.ports) and any(one.checks_ports for one in predicates)
        self._spreads = bool(self._spread.hard) and any(one.checks_spread for one in predicates)
        checks_affinity = any(one.checks_pod_affinity for one in predicates)
        self._has_affinity = checks_affinity and bool(terms.required_affinity)
        self._has_anti_affinity = checks_affinity and bool(terms.required_anti_affinity)
        self._has_existing_anti_affinity = checks_affinity and seen is not None and seen.is_barred
        has_preferences = bool(terms.preferred) or (seen is not None and seen.is_weighed)
        self._affinity_weight = weights.pod_affinity if has_preferences else 0
        self._spread_weight = weights.topology_spread if self._spread.soft else 0
        self._excluded: dict[bool, tuple[Stamp, dict[str, Mask]]] = {}
        self._plugins = PluginColumns(index.cluster, pod_class)
        self.volumes = VolumeFilter(masks, pod_class)

    @property
    def is_enabled(self) -> bool:
        """Return True if any of them is enabled for the class."""
        filters = (
            self._keeps_ports
            or self._spreads
            or self._has_affinity
            or self._has_anti_affinity
            or self._has_existing_anti_affinity
            or self.volumes.is_enabled
        )
        scores = self._affinity_weight or self._spread_weight or self._plugins.has_scores
        return bool(filters or self._plugins.has_filters or scores)

    def excluded(self, *, later: bool = False) -> dict[str, Mask]:
        """Return reason to the nodes that it excludes, in the order of evaluation.

        `later` means once terminating pods are gone.
        """
        known = self._excluded.get(later)
        if known is None or known[0] != self._index.stamp:
            known = self._excluded[later] = (
                self._index.stamp,
                dict(self._excluded_by_reason(later=later)),
            )
        if not self._plugins.has_filters and not self.volumes.is_enabled:
            return known[1]
        volumes = self.volumes.excluded()
        return {**volumes, **known[1], **self._plugins.excluded(later=later)}

    def admitted(self, *, later: bool = False) -> Mask:
        """Return the nodes that no filter excludes."""
        found: Mask = np.ones(len(self._index.cluster.nodes.order), dtype=np.bool_)
        for one in self.excluded(later=later).values():
            found &= ~one
        return found

    def obstacle(self, slot: int) -> str:
        """Return the message of the first filter that excludes a node; empty if none does."""
        if text := self.volumes.obstacle(slot):
            return text
        found = (
            NODE_TEXTS.get(reason, reason.removeprefix("node(s) "))
            for reason, mask in self.excluded().items()
            if mask[slot]
        )
        return next(found, "")

    def add(self, scores: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Add the preferences to the scores, normalized over the feasible nodes."""
        can = scores >= 0
        is_scored = self._affinity_weight or self._spread_weight or self._plugins.has_scores
        if not is_scored or not can.any():
            return scores
        if self._plugins.has_scores:
            scores = scores + self._plugins.points()
        if self._affinity_weight:
            points = affinity_points(self._index, self._pod_class, can)
            if points is not None:
                scores = scores + points * self._affinity_weight
        if self._spread_weight:
            scores = scores + self._spread.points(can) * self._spread_weight
        return np.where(can, scores, -1)

    def may_be_excluded_by(self, pod: Pod) -> bool:
        """Return True if this pod may be the reason why nodes are excluded for such pods."""
        if self._plugins.has_filters:
            return True
        terms, theirs = self._pod_class.terms, pod.pod_class.terms
        labels, labels_of = (
            dict(pod.facts.labels),
            self._index.cluster.inter_pod_affinity.labels_of,
        )
        namespace = pod.facts.namespace
        if self._keeps_ports and any(a.collides(b) for a in terms.ports for b in theirs.ports):
            return True
        is_alike = self._spreads and namespace == terms.namespace
        if is_alike and any(selects(one.selector, labels) for one in self._spread.hard):
            return True
        if self._has_anti_affinity and any(
            one.matches(namespace, labels, labels_of) for one in terms.required_anti_affinity
        ):
            return True
        seen = self._pod_class.selected_as
        if not self._has_existing_anti_affinity or seen is None:
            return False
        own = dict(seen.labels)
        return any(
            one.matches(seen.namespace, own, labels_of) for one in theirs.required_anti_affinity
        )

    def plugin_points(self, node: Node) -> dict[str, int]:
        """Return the points of plugins beside muster for a node, by plugin, in thousandths."""
        return self._plugins.points_by_plugin(node)

    def _excluded_by_reason(self, *, later: bool) -> Iterator[tuple[str, Mask]]:
        index, pod_class = self._index, self._pod_class
        if self._keeps_ports:
            yield NO_PORTS, index.using_ports(pod_class.terms.ports).possible(later=later) > 0
        if self._spreads:
            unlabelled, skewed = self._spread.excluded()
            yield NO_LABEL, unlabelled
            yield SKEWED, skewed
        affinity: tuple[tuple[bool, str, Callable[..., Mask]], ...] = (
            (self._has_affinity, AFFINITY_MISMATCH, excluded_by_affinity),
            (self._has_anti_affinity, ANTI_AFFINITY_MISMATCH, excluded_by_anti_affinity),
            (
                self._has_existing_anti_affinity,
                EXISTING_ANTI_AFFINITY,
                excluded_by_existing_anti_affinity,
            ),
        )
        for is_on, reason, close in affinity:
            if is_on:
                yield reason, close(index, pod_class, later=later)
