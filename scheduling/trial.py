"""Trying a placement: try, then commit or discard, and nothing in between.

A trial takes room on the nodes it tries, so that the next pod of the gang sees it gone, and gives it all
back before anything is decided: only a decision in the log changes what is true.
"""

from events.decision import Placement
from projections import accounts
from projections.cluster import Cluster
from projections.nodes import Node, Request
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Pod


class Trial:
    """The nodes tried for pods of one group."""

    def __init__(self, cluster: Cluster, group: PodGroup) -> None:
        self.cluster = cluster
        self.group = group
        self.now: list[tuple[Pod, Node]] = []
        """Pods with a node that has room now."""
        self.later: list[tuple[Pod, Node]] = []
        """Pods with a node that will have room once leaving pods have left."""
        self.extra: Amounts = {}
        """What these pods would be charged."""
        self.roles: dict[str, int] = {}
        """Role to pods placed now."""
        self._held: list[tuple[Node, str, Request]] = []
        self._lift(-1)

    def place(self, pod: Pod, node: Node, *, later: bool, is_last: bool = False) -> None:
        """Take room for a pod. For the last one it need not be taken: nobody looks any more."""
        (self.later if later else self.now).append((pod, node))
        if is_last:
            return
        kind = "promised" if later else "occupied"
        self._held.append((node, kind, pod.pod_class.request))
        self.cluster.nodes.shift(node, kind, pod.pod_class.request, 1)
        for name, amount in accounts.charge_on(self.cluster, pod.pod_class, node.name):
            self.extra[name] = self.extra.get(name, 0) + amount
        if not later and pod.facts.role:
            self.roles[pod.facts.role] = self.roles.get(pod.facts.role, 0) + 1

    def discard(self) -> None:
        """Give everything back."""
        for node, kind, request in reversed(self._held):
            self.cluster.nodes.shift(node, kind, request, -1)
        self._lift(1)

    def _lift(self, sign: int) -> None:
        """What the group is promised already does not stand in its own way."""
        for held in self.group.promise.values():
            node = self.cluster.nodes.node(held.node)
            self.cluster.nodes.shift(node, "promised", held.request, sign)
            for name, amount in held.charge:
                self.extra[name] = self.extra.get(name, 0) + sign * amount


def placements(cluster: Cluster, placed: list[tuple[Pod, Node]]) -> tuple[Placement, ...]:
    """Placed pods as a decision states them."""
    return tuple(
        Placement(
            pod=pod.key,
            uid=pod.facts.uid,
            node=node.name,
            cards={
                name: amount
                for name, amount in accounts.charge_on(cluster, pod.pod_class, node.name)
                if name in cluster.cards.resource
            },
        )
        for pod, node in placed
    )
