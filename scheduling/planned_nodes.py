"""Placement of a gang on nodes that were chosen for its pods beforehand, all of them together."""

from collections import deque
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from projections.nodes import Node
from projections.pod_class import PodClass
from projections.pod_groups import PodGroup
from projections.pod_ranks import pod_ranks, stated_rank
from projections.pods import Pod
from projections.previous_nodes import ranks_before
from scheduling.node_ranking import NodeRanking
from scheduling.session import Session
from scheduling.topology.node_scope import AnyNode


class PlannedNodes(AnyNode):
    """The node that was chosen for each pod with devices; any node for others."""

    is_planned = True

    def __init__(self, pods: list[Pod], chosen: Mapping[str, Node]) -> None:
        self._left: dict[int, deque[Node]] = {pod.pod_class.index: deque() for pod in pods}
        """Class to the nodes of its pods, in the order in which these are placed."""
        for pod in pods:
            if pod.facts.uid in chosen:
                self._left[pod.pod_class.index].append(chosen[pod.facts.uid])

    def best(self, ranking: NodeRanking, pod_class: PodClass) -> Node | None:
        """Return the node that was chosen for the next pod of this class, if it has room."""
        left = self._left.get(pod_class.index)
        if left is None:
            return super().best(ranking, pod_class)
        if not left:
            return None
        node = left.popleft()
        return node if ranking.has_room(node) else None

    def best_later(self, ranking: NodeRanking) -> Node | None:
        """Return None: such jobs do not wait for pods that are terminating."""
        return None

    def admits(self, node: Node) -> bool:
        """Return False: nominations of the group do not count."""
        return False


def pods_with_devices(group: PodGroup) -> list[Pod]:
    """Return the pending pods that ask for devices by name, in the order in which they are placed."""
    return [pod for pod in group.pending if pod.pod_class.asked_devices]


def device_options(group: PodGroup) -> list[dict[str, str]]:
    """Return, for each class of its pods that ask for devices by name, the annotations and labels that say which."""
    stated = dict(() if group.observed.facts is None else group.observed.facts.device_options)
    asking = sorted(index for index, one in group.classes.items() if one.asked_devices)
    return [{**stated, **dict(group.classes[index].device_options)} for index in asking]


class JobNodes:
    """The nodes for the pods of one job that are chosen together."""

    def __init__(self, session: Session, group: PodGroup) -> None:
        self._session = session
        self._group = group

    def by_rank(self, pods: list[Pod]) -> list[Pod]:
        """Return pods in the order of the ranks that they will have; those without a rank come last, in their order."""
        cluster, decided = self._session.cluster, self._session.state.assignments.ranks
        before = ranks_before(cluster, self._group)
        ranks = pod_ranks(cluster, decided, [one.facts.uid for one in pods], before)

        def key(pod: Pod) -> tuple[bool, int]:
            rank = ranks.get(pod.facts.uid, stated_rank(pod))
            return rank < 0, rank

        return sorted(pods, key=key)

    def with_room(self, pods: list[Pod]) -> npt.NDArray[np.bool_]:
        """Return which nodes, slot by slot, have room for any one of these pods."""
        can = np.ones(len(self._session.cluster.nodes.order), dtype=np.bool_)
        for pod_class in {pod.pod_class.index: pod.pod_class for pod in pods}.values():
            can &= self.ranking_of(pod_class).scores() >= 0
        return can

    def ranking_of(self, pod_class: PodClass) -> NodeRanking:
        """Return the ranking of nodes for pods of a class, with the cards that they name."""
        rankings, cluster = self._session.rankings, self._session.cluster
        cards = cluster.plugins.quota.named_cards(cluster, pod_class)
        return rankings.of(pod_class, cards, rankings.job_of(self._group))
