"""Which pods on a node terminate and are expected to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from projections.index import Index

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.deltas import PodChanged
    from projections.pods import Pod


class TerminatingPods(Index):
    """Pods that still use their nodes and are leaving them (`Pod.is_leaving`)."""

    name = "terminating pods"
    COMPARED: ClassVar[tuple[str, ...]] = ("by_node",)
    follows_status = False

    def __init__(self) -> None:
        self.by_node: dict[str, dict[str, None]] = {}
        """Node to the UIDs of these pods."""

    def rebuilt(self, cluster: Cluster, /) -> TerminatingPods:
        """Look at all pods again."""
        twin = TerminatingPods()
        for pod in cluster.pods.values():
            if _is_terminating(pod):
                twin.by_node.setdefault(pod.node, {})[pod.facts.uid] = None
        return twin

    def on_pods(self, cluster: Cluster, changes: Sequence[PodChanged]) -> None:
        """Add or remove pods."""
        for one in changes:
            if one.old is not None and _is_terminating(one.old):
                there = self.by_node[one.old.node]
                del there[one.old.facts.uid]
                if not there:
                    del self.by_node[one.old.node]
            if one.new is not None and _is_terminating(one.new):
                self.by_node.setdefault(one.new.node, {})[one.new.facts.uid] = None

    def on(self, node: str) -> list[str]:
        """Return the UIDs of such pods on a node, sorted."""
        return sorted(self.by_node.get(node, ()))


def _is_terminating(pod: Pod) -> bool:
    return pod.is_leaving and pod.occupies
