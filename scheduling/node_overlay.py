"""Tentative placements: apply them to the node table, then commit by a decision or discard.

An overlay takes resources on the nodes so that the next pod of the gang sees them used, and returns all of them
before anything is decided: only a decision in the log changes State.
"""

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Self

from events.decision import Placement
from projections import quota_charging
from projections.cluster import Cluster
from projections.kept_quota import kept_charge
from projections.nodes import Node, NodeTrial, Request
from projections.pod_class import Amounts
from projections.pod_groups import Nomination, PodGroup
from projections.pod_terms import Labels
from projections.pods import Charge, Pod
from projections.queues import add
from projections.sub_groups import SubGroupKey
from projections.volumes.claim_users import ClaimUsers

NO_DEVICES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
NO_NETWORK: Final[Mapping[str, Labels]] = MappingProxyType({})


class NodeOverlay:
    """Tentative placements and evictions for one pod group."""

    def __init__(self, cluster: Cluster, group: PodGroup) -> None:
        self.cluster = cluster
        self.group = group
        self.now: list[tuple[Pod, Node]] = []
        """Pods placed on a node that has room now."""
        self.later: list[tuple[Pod, Node]] = []
        """Pods placed on a node that has room once terminating pods are gone."""
        self.extra: Amounts = {name: -amount for name, amount in kept_charge(cluster, group.key)}
        """What these pods would be charged to the queue of the group, less what is kept there for them."""
        self.devices: dict[str, tuple[str, ...]] = {}
        """UID of a placed pod to the devices picked for it, if they have names."""
        self.network: dict[str, Labels] = {}
        """UID of a placed pod to the annotations that say where in the network it is, if its gang is placed by that."""
        self.roles: dict[str, int] = {}
        """Role to number of pods placed now."""
        self.nodes_of: dict[SubGroupKey, list[Node]] = {}
        """Sub-group to the nodes of its pods that are placed now or later."""
        self.evicted: list[Pod] = []
        """Victims, in the order in which they were chosen."""
        self.evicted_by_group: dict[str, list[Pod]] = {}
        """Victims by pod group."""
        self.released_above: dict[str, Amounts] = {}
        """Ancestor queue to the charges that victims of other queues would release."""
        self.lost_by_lineage: dict[str, Amounts] = {}
        """Queue to the charges of the victims in it and in its descendants."""
        self.moved: list[str] = []
        """Keys of the groups with a pod evicted or restored, one entry for each call."""
        self._released_by_queue: dict[str, Amounts] = {}
        self._held: list[tuple[Node, str, Request]] = []
        self._lifted_nominations: dict[str, Nomination] = {}
        self._trial = NodeTrial(cluster.nodes)
        self._claims = cluster.indexes.of(ClaimUsers)
        self._kept_claims: list[str] = []

    def __enter__(self) -> Self:
        """Begin: lift the nominations of the group from their nodes, as the overlay places its pods."""
        try:
            self._unmark_nominated()
        except BaseException:
            self._trial.undo()
            raise
        return self

    def __exit__(self, *_raised: object) -> None:
        """Restore every value of the node table, also after an exception. The placements can still be read."""
        for pod, _ in self.placed:
            if pod.pod_class.claims:
                self._claims.leave_out(pod)
        for claim in self._kept_claims:
            self._claims.stop_keeping(claim)
        self._trial.undo()

    @property
    def placed(self) -> list[tuple[Pod, Node]]:
        """Return all placed pods, those with room now first."""
        return [*self.now, *self.later]

    @property
    def count(self) -> int:
        """Return how many pods are placed."""
        return len(self.now) + len(self.later)

    def lift_nomination(self, pod: Pod) -> Nomination | None:
        """Release the nomination of the pod, so that it does not count against the pod itself. Return it, if any."""
        nomination = self.group.nominations.get(pod.facts.uid)
        if nomination is not None and pod.facts.uid not in self._lifted_nominations:
            self._lifted_nominations[pod.facts.uid] = nomination
            self._shift_nomination(nomination, -1)
        return nomination

    def place_nominated(self) -> None:
        """Place the nominated pods of the group on the nodes to which they are nominated."""
        for pod in self.group.pending:
            nomination = self.group.nominations.get(pod.facts.uid)
            if nomination is None:
                continue
            if (node := self.cluster.nodes.nodes.get(nomination.node)) is not None:
                self.place(pod, node, nomination.devices, later=True)

    def place(
        self,
        pod: Pod,
        node: Node,
        devices: tuple[str, ...],
        *,
        later: bool,
        is_last: bool = False,
    ) -> None:
        """Take room and devices for a pod. The last pod of a gang need not take any: no other pod reads the overlay
        after it."""
        self.lift_nomination(pod)
        (self.later if later else self.now).append((pod, node))
        if devices:
            self.devices[pod.facts.uid] = devices
        self._record_sub_group(pod, node)
        if is_last:
            return
        kind = "nominated" if later else "occupied"
        self._held.append((node, kind, pod.pod_class.request))
        if pod.pod_class.claims:
            self._claims.try_pod(pod, node.name)
        self._trial.shift(node, kind, pod.pod_class.request, 1)
        node.overlay_added[pod.facts.uid] = devices
        self._charge(quota_charging.charge_on(self.cluster, pod.pod_class, node.name), 1)
        if not later:
            self.roles[pod.facts.role] = self.roles.get(pod.facts.role, 0) + 1

    def keep_claim(self, claim: str, node: Node) -> None:
        """Keep a claim that one node at a time can use for a node, before the pods that share it are placed there."""
        self._kept_claims.append(claim)
        self._claims.keep(claim, node.name)

    def undo_to(self, left: int) -> None:
        """Undo the latest placements until `left` pods are placed. None of them may be the last pod of a gang."""
        while len(self._held) > left:
            node, kind, request = self._held.pop()
            self._trial.shift(node, kind, request, -1)
            pod, _ = (self.later if kind == "nominated" else self.now).pop()
            if pod.pod_class.claims:
                self._claims.leave_out(pod)
            del node.overlay_added[pod.facts.uid]
            self.devices.pop(pod.facts.uid, None)
            self._record_sub_group(pod, None)
            self._charge(quota_charging.charge_on(self.cluster, pod.pod_class, node.name), -1)
            if kind != "nominated":
                self.roles[pod.facts.role] -= 1

    @property
    def parts(self) -> dict[SubGroupKey, int]:
        """Return sub-group to number of pods placed now or later."""
        return {key: len(nodes) for key, nodes in self.nodes_of.items()}

    @property
    def parts_now(self) -> dict[SubGroupKey, int]:
        """Return sub-group to number of pods placed now."""
        if not self.later or not self.nodes_of:
            return self.parts
        parts = self.group.sub_groups
        keys = [] if parts is None else [parts.key_of(pod.facts.labels) for pod, _ in self.now]
        return dict(Counter(key for key in keys if key is not None))

    def _record_sub_group(self, pod: Pod, node: Node | None) -> None:
        """Record the node of a pod of a sub-group; None removes the latest entry."""
        key = (
            None
            if self.group.sub_groups is None
            else self.group.sub_groups.key_of(pod.facts.labels)
        )
        if key is None:
            return
        if node is not None:
            self.nodes_of.setdefault(key, []).append(node)
        else:
            self.nodes_of[key].pop()

    def evict(self, pod: Pod) -> None:
        """Evict a pod: its resources become releasing, and its queue is no longer charged for it."""
        self.evicted.append(pod)
        self.evicted_by_group.setdefault(pod.group_key, []).append(pod)
        self._add_released(pod, 1)
        self._shift_evicted(pod, 1)

    def restore(self, pod: Pod) -> None:
        """Undo the eviction of a pod."""
        self.evicted.remove(pod)
        self.evicted_by_group[pod.group_key].remove(pod)
        self._add_released(pod, -1)
        self._shift_evicted(pod, -1)

    def released_by_queue(self, queue: str) -> Amounts:
        """Return the charges that a queue would release for its own victims. Do not modify the result."""
        return self._released_by_queue.get(queue, {})

    def _add_released(self, pod: Pod, sign: int) -> None:
        """Update the sums over victims, so that reading them does not visit each victim."""
        self.moved.append(pod.group_key)
        queue = self.cluster.queues[self.cluster.groups[pod.group_key].queue]
        add(self._released_by_queue.setdefault(queue.name, {}), pod.charge or (), sign)
        for one in queue.lineage:
            add(self.lost_by_lineage.setdefault(one.name, {}), pod.charge or (), sign)

    def _shift_evicted(self, pod: Pod, sign: int) -> None:
        node = self.cluster.nodes.nodes[pod.node]
        self._trial.shift(node, "releasing", pod.pod_class.request, sign)
        if sign > 0:
            node.overlay_removed[pod.facts.uid] = None
        else:
            del node.overlay_removed[pod.facts.uid]
        theirs = self.cluster.groups[pod.group_key].queue
        if theirs == self.group.queue:
            self._charge(pod.charge or (), -sign)
            return
        for above in self.cluster.queues[theirs].lineage[1:]:
            add(self.released_above.setdefault(above.name, {}), pod.charge or (), sign)

    def _unmark_nominated(self) -> None:
        """Remove the marks of the nominated pods of the group from their nodes."""
        for uid, nomination in self.group.nominations.items():
            node = self.cluster.nodes.nodes[nomination.node]
            self._trial.save(node)
            node.nominated_pods.pop(uid, None)
            self.cluster.nodes.invalidate(nomination.node)

    def _shift_nomination(self, nomination: Nomination, sign: int) -> None:
        node = self.cluster.nodes.nodes[nomination.node]
        self._trial.shift(node, "nominated", nomination.request, sign)
        self._charge(nomination.charge, sign)

    def _charge(self, charge: Charge, sign: int) -> None:
        for name, amount in charge:
            self.extra[name] = self.extra.get(name, 0) + sign * amount


def placements(
    cluster: Cluster,
    placed: list[tuple[Pod, Node]],
    devices: Mapping[str, tuple[str, ...]] = NO_DEVICES,
    network: Mapping[str, Labels] = NO_NETWORK,
) -> tuple[Placement, ...]:
    """Return placed pods as a decision records them, with the devices and the annotations of each by UID."""
    return tuple(
        Placement(
            pod=pod.key,
            uid=pod.facts.uid,
            node=node.name,
            cards={
                name: amount
                for name, amount in quota_charging.charge_on(cluster, pod.pod_class, node.name)
                if name in cluster.cards.resource
            },
            devices=devices.get(pod.facts.uid, ()),
            network=network.get(pod.facts.uid, ()),
        )
        for pod, node in placed
    )
