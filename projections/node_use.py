"""Keep what pods use of nodes: requests, releasing resources, and nominations of other schedulers."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from projections.deltas import PodChanged
from projections.index import Index
from projections.nodes import Node
from projections.nominations import update_nomination
from projections.pods import NodeShare, Pod, node_share
from projections.queues import add

if TYPE_CHECKING:
    from projections.cluster import Cluster


class NodeUse(Index):
    """What pods use of nodes. The sums are kept by each node, and the audit compares them there."""

    name = "use of nodes"
    COMPARED: ClassVar[tuple[str, ...]] = ()
    follows_status = False
    can_be_left_out = True

    def rebuilt(self, _cluster: "Cluster", /) -> "NodeUse":
        """Return the same: each node sums up its pods again."""
        return NodeUse()

    def rebuild(self, cluster: "Cluster") -> None:
        """Put all pods on their nodes, and nominate them again."""
        nodes = cluster.nodes
        for node in nodes.nodes.values():
            node.pods, node.nominated_pods = {}, {}
            node.occupied, node.releasing, node.nominated = {}, {}, {}
        nodes.leaving = {}
        for uid, pod in cluster.pods.items():
            if (share := node_share(pod)) is not None:
                node = nodes.ensure_node(share[0])
                node.pods[uid] = None
                add(node.occupied, share[2], 1)
                if share[1] == "releasing":
                    add(node.releasing, share[2], 1)
                    nodes.leaving[node.name] = None
            update_nomination(cluster, None, pod)
        for group in cluster.groups.values():
            for uid, held in group.decided.nominations.items():
                nodes.nominate(held.node, uid, held.request, 1, held.devices)
        for name, requests in cluster.reschedulings.reservations_on().items():
            for request in requests:
                nodes.shift(nodes.ensure_node(name), "nominated", request, 1)
        for node in nodes.nodes.values():
            node.update_all_free()

    def on_pods(self, cluster: "Cluster", changes: Sequence[PodChanged]) -> None:
        """Move pods between nodes; record which nodes they free, and which nominations no longer fit."""
        for one in changes:
            old, new = one.old, one.new
            cluster.position = one.position
            if (old and old.facts.nominated_node) or (new and new.facts.nominated_node):
                update_nomination(cluster, old, new)
            if one.left != one.entered:
                self._move(cluster, one)

    def _move(self, cluster: "Cluster", change: PodChanged) -> None:
        left, entered = change.left, change.entered
        self._shift(cluster, left, change.old, -1)
        self._shift(cluster, entered, change.new, 1)
        if left and (not entered or entered[1] == "releasing" or _is_smaller(left, entered)):
            cluster.mark_node_freed(left[0])
        if entered and (node := cluster.nodes.nodes[entered[0]]).nominated_pods:
            self._wake_nominated(cluster, node)

    def _shift(
        self, cluster: "Cluster", share: NodeShare | None, pod: Pod | None, sign: int
    ) -> None:
        if share is None or pod is None:
            return
        name, kind, request = share
        nodes = cluster.nodes
        node = nodes.ensure_node(name)
        if sign > 0:
            node.pods[pod.facts.uid] = None
        else:
            node.pods.pop(pod.facts.uid, None)
        nodes.shift(node, "occupied", request, sign)
        if kind == "releasing":
            nodes.shift(node, "releasing", request, sign)
        cluster.changed_rows.nodes[name] = None
        nodes.forget(node)

    def _wake_nominated(self, cluster: "Cluster", node: Node) -> None:
        """Wake the groups with nominations on a node if these do not fit any more: another scheduler bound a pod
        there."""
        if all(node.future(name) >= 0 for name, amount in node.nominated.items() if amount):
            return
        for uid in node.nominated_pods:
            pod = cluster.pods.get(uid)
            if pod is not None and pod.group_key in cluster.groups:
                cluster.wakeup_events.groups[pod.group_key] = None


def _is_smaller(left: NodeShare, entered: NodeShare) -> bool:
    """Return whether a pod uses less of anything on its node than before: it was resized in place."""
    uses = dict(entered[2])
    return left[0] != entered[0] or any(uses.get(name, 0) < amount for name, amount in left[2])
