"""Preferences of a pod among nodes: preferred affinity, PreferNoSchedule taints.

Preferred affinity and taints are normalized over the feasible nodes (the highest becomes 100 points), as in
Kubernetes: for a pod with either, every feasible node is scored again each time.
"""

import numpy as np
import numpy.typing as npt

from projections.nodes import NodeFacts, NodeTable
from projections.pod_class import PodClass
from projections.selector import untolerated
from scheduling.node_columns import FULL
from scheduling.score_formulas import ScoreWeights


class Preferences:
    """The preferences of one equivalence class of pods under one policy."""

    def __init__(self, weights: ScoreWeights, pod_class: PodClass) -> None:
        self._pod_class = pod_class
        self._affinity = weights.node_affinity if pod_class.preferences else 0
        self._taints = weights.taint_toleration
        self._layout: tuple[int, int] = (-1, -1)
        self._affinity_points: npt.NDArray[np.int64] | None = None
        self._taint_points: npt.NDArray[np.int64] | None = None
        self.is_relative = bool(self._affinity or self._taints)
        """True if some preference depends on which nodes are feasible."""

    def adds_anything(self, *, soft_taints: bool) -> bool:
        """Return whether the preferences may change scores; `soft_taints` if any node has a PreferNoSchedule taint."""
        return bool(self._affinity or (self._taints and soft_taints))

    def add(
        self, scores: npt.NDArray[np.int64], table: NodeTable, *, soft_taints: bool
    ) -> npt.NDArray[np.int64]:
        """Add to the scores what is normalized over the feasible nodes."""
        if not self._affinity and not soft_taints:
            return scores
        self._look(table)
        if self._affinity_points is None and self._taint_points is None:
            return scores
        can = scores >= 0
        if not can.any():
            return scores
        total = scores
        if self._affinity_points is not None:
            most = int(self._affinity_points[can].max())
            if most:
                total = total + self._affinity_points * FULL // most * self._affinity
        if self._taint_points is not None:
            most = int(self._taint_points[can].max())
            if most:
                total = total + (most - self._taint_points) * FULL // most * self._taints
        return np.where(can, total, -1)

    def _look(self, table: NodeTable) -> None:
        layout = (table.layout, len(table.updated_slots))
        if layout == self._layout:
            return
        self._layout = layout
        facts = [node.facts for node in table.order if node.facts is not None]
        self._affinity_points = self._taint_points = None
        if self._affinity:
            self._affinity_points = np.fromiter(map(self._affine, facts), dtype=np.int64)
        if self._taints and any(
            one.effect == "PreferNoSchedule" for f in facts for one in f.taints
        ):
            self._taint_points = np.fromiter(map(self._avoided, facts), dtype=np.int64)

    def _affine(self, node: NodeFacts) -> int:
        return sum(
            one.weight
            for one in self._pod_class.preferences
            if one.term.matches(node.name, node.labels)
        )

    def _avoided(self, node: NodeFacts) -> int:
        return untolerated(node.taints, self._pod_class.tolerations, ("PreferNoSchedule",))
