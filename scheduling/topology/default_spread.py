"""Spread the pods of one owner over hosts and zones: Kubernetes' default constraints, which `nodeorder` of Volcano applies.

    topologyKey kubernetes.io/hostname, maxSkew 3; topology.kubernetes.io/zone, maxSkew 5; whenUnsatisfiable: ScheduleAnyway

They are for pods without constraints of their own whose owner's selector is theirs alone: a ReplicaSet, a StatefulSet or a
ReplicationController. Such pods have one pod group, and what is counted are the pods of that owner.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from projections.nodes import Node
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from projections.pod_terms import Spread
from scheduling.node_ranking import NodeRanking
from scheduling.pod_topology.index import PodTopologyIndex
from scheduling.pod_topology.spread import Mask, SpreadConstraints
from scheduling.topology.node_scope import AnyNode, Scores
from scheduling.trial import Trial

SPREADS_MAX: Final = 256
"""Maximum number of classes of pods whose constraints are kept; beyond it all are dropped."""

HOSTS: Final = Spread("kubernetes.io/hostname", 3, None, is_hard=False)
ZONES: Final = Spread("topology.kubernetes.io/zone", 5, None, is_hard=False)


def is_spread(group: PodGroup) -> bool:
    """Return whether a group is that of an owner whose pods are spread."""
    return group.owned_count > 0


class DefaultSpread(AnyNode):
    """All nodes; a node scores higher the fewer pods of the owner its host and zone have.

    The pods of the group are counted when a node is first asked for, and then each that is placed tentatively.
    """

    def __init__(
        self,
        base: AnyNode,
        spreads: "OwnerSpreads",
        group: PodGroup,
        weight: int,
        placed: Iterable[Node] = (),
    ) -> None:
        self._base = base
        self._spreads = spreads
        self._group = group
        self._weight = weight
        self._staying: Scores | None = None
        self._placed: list[int] = [one.slot for one in placed]

    def best(self, ranking: NodeRanking, pod_class: PodClass) -> Node | None:
        """Return the node with the highest score, spread included."""
        if not self._changes(pod_class):
            return self._base.best(ranking, pod_class)
        scores = self.scores(ranking, pod_class)
        if not len(scores) or scores[best := int(scores.argmax())] < 0:
            return None
        return self._spreads.index.cluster.nodes.order[best]

    def scores(self, ranking: NodeRanking, pod_class: PodClass) -> Scores:
        """Return the scores with the points for spread."""
        scores = self._base.scores(ranking, pod_class)
        if not self._changes(pod_class):
            return scores
        can = scores >= 0
        if not can.any():
            return scores
        points = self._spreads.of(pod_class).points_for(self._counts(), can) * self._weight
        return np.where(can, scores + points, -1)

    def record(self, node: Node, trial: Trial) -> None:
        """Count a pod that is placed tentatively."""
        self._placed.append(node.slot)
        if self._staying is not None:
            self._staying[node.slot] += 1
        trial.on_restore(self._drop_last)

    def _drop_last(self) -> None:
        """Count the pod recorded last no more."""
        slot = self._placed.pop()
        if self._staying is not None:
            self._staying[slot] -= 1

    def _changes(self, pod_class: PodClass) -> bool:
        """Return whether the points of two nodes can differ."""
        if pod_class.terms.spread:
            return False
        if self._group.pods_by_node or self._placed:
            return True
        inside = [self._spreads.index.domain(one.topology_key).inside for one in (HOSTS, ZONES)]
        return any(one.any() and not one.all() for one in inside)

    def _counts(self) -> Scores:
        """Return the pods of the group on each node that do not terminate."""
        if self._staying is None:
            nodes = self._spreads.index.cluster.nodes
            staying = [0] * len(nodes.order)
            known = nodes.nodes
            for (_, name), count in (self._group.pods_by_node or {}).items():
                if (node := known.get(name)) is not None and node.facts is not None:
                    staying[node.slot] += count
            for slot in self._placed:
                staying[slot] += 1
            self._staying = np.array(staying, dtype=np.int64)
        return self._staying


class OwnerSpreads:
    """The default constraints of the classes of pods that were placed; they only save time."""

    def __init__(self, index: PodTopologyIndex) -> None:
        self.index = index
        self._known: dict[int, _OwnerSpread] = {}

    def of(self, pod_class: PodClass) -> "_OwnerSpread":
        """Return the default constraints of a class of pods."""
        found = self._known.get(pod_class.index)
        if found is None or found.pod_class is not pod_class:
            if len(self._known) >= SPREADS_MAX:
                self._known.clear()
            found = self._known[pod_class.index] = _OwnerSpread(self.index, pod_class)
        return found


class _OwnerSpread(SpreadConstraints):
    """The default constraints for a class of pods. A node needs not have the labels of both."""

    needs_every_label = False

    def __init__(self, index: PodTopologyIndex, pod_class: PodClass) -> None:
        super().__init__(index, pod_class)
        self.pod_class = pod_class
        self.soft = (HOSTS, ZONES)
        self._counted_pods: Scores = np.zeros(0, dtype=np.int64)

    def points_for(self, staying: Scores, can: Mask) -> Scores:
        """Return the points of the nodes with so many pods on each."""
        self._counted_pods = staying
        return self.points(can)

    def _staying(self, one: Spread) -> Scores:
        return self._counted_pods
