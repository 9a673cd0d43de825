"""Keep the ledgers of queues: what they are charged for the pods of their groups, and what these reserve.

A pod is counted in its group and charged to the queue of the group; a change first removes the old version, then adds the
new one.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from msgspec import structs

from projections import quota_charging
from projections.deltas import NodeChanged, PodChanged, PolicyChanged
from projections.group_rows import NO_RESERVATION, GroupReservation
from projections.index import Index
from projections.nodes import NodeFacts, card_layout_of
from projections.pod_groups import PodGroup
from projections.pods import ALLOCATED, PENDING, Charge, Pod, has_same_demand

if TYPE_CHECKING:
    from projections.cluster import Cluster


class QuotaLedgers(Index):
    """What pods and pod groups are charged. The sums are kept by each queue and each group, and the audit compares them
    there."""

    name = "ledgers"
    COMPARED: ClassVar[tuple[str, ...]] = ("requested",)

    def __init__(self) -> None:
        self.requested: dict[str, Charge] = {}
        """UID of a pending pod to the charge that is counted for it in `pending` of its queue, unless its group is denied."""
        self.are_queues_charged = True
        """False while only pods are counted in their groups: the ledgers of queues are summed up later (`rebuild`)."""
        self._cards_version = 0
        """Version of the known cards at the last change of a node."""

    def rebuilt(self, cluster: "Cluster", /) -> "QuotaLedgers":
        """Find again what pending pods request: each queue and each pod group counts its own again."""
        twin = QuotaLedgers()
        twin.requested = {
            pod.facts.uid: quota_charging.requested(cluster, pod.pod_class)
            for group in cluster.groups.values()
            for pod in group.pending
        }
        return twin

    def rebuild(self, cluster: "Cluster") -> None:
        """Sum up what all pods and pod groups are charged; pods that have a node keep their charge."""
        self._cards_version = cluster.cards.version
        self.requested = self.rebuilt(cluster).requested
        for key, group in list(cluster.groups.items()):
            reservation = quota_charging.reservation(cluster, group)
            if group.reservation != reservation:
                cluster.pod_groups.own(cluster, key).reservation = reservation
        for queue in cluster.queues.values():
            queue.clear_ledgers()
            queue.sum_up([cluster.groups[key] for key in queue.groups], self.requested)
        cluster.queue_tree.rebuild(cluster)

    def on_pods(self, cluster: "Cluster", changes: Sequence[PodChanged]) -> None:
        """Count pods in their groups, and charge them."""
        if (bound := _bound_pods(cluster, changes)) is not None:
            cluster.position = changes[-1].position
            self._count_bound(cluster, *bound)
            return
        for one in changes:
            cluster.position = one.position
            pod = one.new or one.old
            assert pod is not None
            group = cluster.groups.get(pod.group_key)
            if group is None:
                continue
            if one.stays and one.new is not None and one.old is not None:
                if group.key in cluster.internal_errors.groups:
                    cluster.internal_errors.resume(group.key)
                group.replace_placed(one.old, one.new)
            else:
                self._count_pod(cluster, group, one)

    def fix_charges(self, cluster: "Cluster", changes: list[PodChanged]) -> None:
        """Charge pods that got a node, or whose request changed there: a row with its charge takes its place in the change.
        Any other keeps its charge."""
        for index, one in enumerate(changes):
            new = one.new
            if new is None or one.is_same_charge or not new.group_key:
                continue
            before, charge = one.old, new.charge
            is_resized = before is not None and before.pod_class.request != new.pod_class.request
            if is_resized or (charge is None and new.status in ALLOCATED):
                group = cluster.groups[new.group_key]
                if is_resized and not (group.denied is not None and not charge):
                    charge = quota_charging.resized_charge(cluster, new)
                if charge is None and new.status in ALLOCATED:
                    charge = _charge_of(cluster, group, new)
                if charge != new.charge:
                    row = cluster.pods[new.facts.uid] = new.decided_as(charge=charge)
                    changes[index] = structs.replace(one, new=row)

    def _count_pod(self, cluster: "Cluster", group: PodGroup, delta: PodChanged) -> None:
        old, new = delta.old, delta.new
        pod = new or old
        assert pod is not None
        uid = pod.facts.uid
        if uid in group.decided.nominations and (new is None or new.status != PENDING):
            cluster.pod_groups.remove_nominations(cluster, group)
        if group.key in cluster.internal_errors.groups and not has_same_demand(old, new):
            cluster.internal_errors.resume(group.key)
        known = old if uid in group.pods else None
        if not delta.is_same_charge:
            if known is not None:
                self._charge_pod(cluster, group, known, -1)
            if new is not None and new.status == PENDING:
                self.requested[uid] = quota_charging.requested(cluster, new.pod_class)
            else:
                self.requested.pop(uid, None)
        group.replace_pod(known, new)
        if new is not None and not delta.is_same_charge:
            self._charge_pod(cluster, group, new, 1)

    def _count_bound(
        self, cluster: "Cluster", group: PodGroup, pods: list[tuple[Pod, Pod]]
    ) -> None:
        """Count pods of a group that got nodes, and charge them: those that are charged alike at once."""
        if group.key in cluster.internal_errors.groups:
            cluster.internal_errors.resume(group.key)
        if not self.are_queues_charged:
            group.bind_pods(pods)
            for old, new in pods:
                self.requested.pop(old.facts.uid)
                group.add_charge(new.charge or (), 1)
            return
        queue = cluster.queues[group.queue]
        waiting: dict[Charge, int] = {}
        alike: dict[tuple[Charge, bool, bool], list[Pod]] = {}
        for old, new in pods:
            assert new.charge is not None
            asked = self.requested.pop(old.facts.uid)
            waiting[asked] = waiting.get(asked, 0) + 1
            key = new.charge, new.facts.is_evictable, new.facts.is_protected
            alike.setdefault(key, []).append(new)
        for charge, count in waiting.items() if group.denied is None else ():
            queue.add_pending(charge, -count)
        group.bind_pods(pods)
        for (charge, _, _), bound in alike.items():
            queue.add_charge("allocated", charge, len(bound))
            queue.add_held(bound[0], group.priority, len(bound))
            group.add_charge(charge, len(bound))
        cluster.changed_rows.queues[queue.name] = cluster.changed_queues[queue.name] = None

    def on_node(self, cluster: "Cluster", delta: NodeChanged) -> None:
        """Charge pods again if a node has other cards: all pods if the known cards changed, and those on the node whose
        charge named a choice of cards."""
        version, self._cards_version = self._cards_version, cluster.cards.version
        if _layout(delta.old) == _layout(delta.new):
            return
        if version != self._cards_version:
            self.recharge(cluster)
        node = None if delta.new is None else cluster.nodes.nodes[delta.new.name]
        for pod in [] if node is None else [cluster.pods[uid] for uid in node.pods]:
            is_charged = pod.group_key and pod.status in ALLOCATED
            if is_charged and quota_charging.is_unresolved(cluster, pod):
                group = cluster.pod_groups.own(cluster, pod.group_key)
                self._charge_pod(cluster, group, pod, -1)
                charged = self._recharged(cluster, group, pod, keeps_charge=False)
                self._charge_pod(cluster, group, charged, 1)
                cluster.pod_groups.mark(group.key, cluster.position)

    def on_policy(self, cluster: "Cluster", delta: PolicyChanged) -> None:
        """Charge all pods by the rules of the new policy."""
        self.recharge(cluster)

    def recharge(self, cluster: "Cluster") -> None:
        """Charge all pods again after the rules or the known cards changed."""
        cluster.charges.clear()
        keeps_charge = not cluster.wakeup_events.everything
        for key in list(cluster.groups):
            group = cluster.pod_groups.own(cluster, key)
            for pod in group.pods.values():
                self._charge_pod(cluster, group, pod, -1)
            for pod in list(group.pods.values()):
                charged = self._recharged(cluster, group, pod, keeps_charge=keeps_charge)
                self._charge_pod(cluster, group, charged, 1)
            cluster.pod_groups.mark(group.key, cluster.position)

    def charge_group(self, cluster: "Cluster", group: PodGroup, sign: int) -> None:
        """Charge the queue of a group for its pods and its reservation, or (-1) remove these charges."""
        if sign < 0:
            self.reserve(cluster, group, NO_RESERVATION)
        for pod in group.pods.values():
            self._charge_pod(cluster, group, pod, sign)
        if sign > 0:
            self.update_reservation(cluster, group)

    def update_reservation(self, cluster: "Cluster", group: PodGroup) -> None:
        """Recompute what a group reserves in its queue."""
        self.reserve(cluster, group, quota_charging.reservation(cluster, group))

    def release(self, cluster: "Cluster", group: PodGroup) -> None:
        """Remove the reservation of a group."""
        self.reserve(cluster, group, NO_RESERVATION)

    def set_denial(
        self, cluster: "Cluster", group: PodGroup, denied: tuple[str, str] | None
    ) -> None:
        """Set why the namespace of a group may not use its queue or pool; None if it may. Its waiting pods are then in no
        request of the queue; what was placed while it was denied is charged as soon as it is permitted."""
        before, group.denied = group.denied, denied
        if (before is None) == (denied is None):
            return
        queue = cluster.queues[group.queue]
        for pod in group.pending if self.are_queues_charged else ():
            queue.add_pending(self.requested[pod.facts.uid], -1 if before is None else 1)
        for pod in list(group.pods.values()) if denied is None else ():
            if pod.status in ALLOCATED and not pod.charge:
                self._charge_pod(cluster, group, pod, -1)
                charged = self._recharged(cluster, group, pod, keeps_charge=False)
                self._charge_pod(cluster, group, charged, 1)
        cluster.changed_rows.queues[queue.name] = cluster.changed_queues[queue.name] = None

    def reserve(self, cluster: "Cluster", group: PodGroup, reservation: GroupReservation) -> None:
        """Set what a group adds to `inqueue` and `elastic` of its queue."""
        before = group.reservation
        if before == reservation:
            return
        group.reservation = reservation
        if not self.are_queues_charged:
            return
        queue = cluster.queues[group.queue]
        for one, sign in ((before, -1), (reservation, 1)):
            if one.inqueue:
                queue.add_charge("inqueue", one.inqueue, sign)
            if one.elastic:
                queue.add_charge("elastic", one.elastic, sign)
        cluster.changed_rows.queues[queue.name] = cluster.changed_queues[queue.name] = None

    def _recharged(
        self, cluster: "Cluster", group: PodGroup, pod: Pod, *, keeps_charge: bool
    ) -> Pod:
        """Return the row of the pod with what it is charged now; if that changed, another one that has taken its place."""
        is_pending, is_allocated = pod.status == PENDING, pod.status in ALLOCATED
        if is_pending:
            asked = quota_charging.requested(cluster, pod.pod_class)
            self.requested[pod.facts.uid] = asked
        charge = pod.charge
        if not keeps_charge and not (group.denied is not None and charge == ()):
            charge = quota_charging.charge(cluster, pod) if is_allocated else None
        if charge is None and is_allocated:
            charge = _charge_of(cluster, group, pod)
        if charge == pod.charge:
            return pod
        charged = pod.decided_as(charge=charge)
        cluster.exchange_pod(charged)
        return charged

    def _charge_pod(self, cluster: "Cluster", group: PodGroup, pod: Pod, sign: int) -> None:
        """Add a pod to the ledger of its queue or remove it, according to its status."""
        status = pod.status
        if status in ALLOCATED:
            assert pod.charge is not None
            group.add_charge(pod.charge, sign)
        if not self.are_queues_charged:
            return
        queue = cluster.queues[group.queue]
        if status in ALLOCATED:
            assert pod.charge is not None
            queue.add_charge("allocated", pod.charge, sign)
            queue.add_held(pod, group.priority, sign)
        elif status == PENDING and group.denied is None:
            queue.add_pending(self.requested[pod.facts.uid], sign)
        cluster.changed_rows.queues[queue.name] = cluster.changed_queues[queue.name] = None


def _bound_pods(
    cluster: "Cluster", changes: Sequence[PodChanged]
) -> tuple[PodGroup, list[tuple[Pod, Pod]]] | None:
    """Return the group and the pods if the changes are those of pods of one group that got nodes, as by a decision; None
    if any is another change."""
    found: list[tuple[Pod, Pod]] = []
    group: PodGroup | None = None
    for one in changes:
        old, new = one.old, one.new
        if old is None or new is None or one.is_same_charge or old.status != PENDING:
            return None
        if group is None:
            group = cluster.groups.get(new.group_key)
        if (
            group is None
            or group.key != new.group_key
            or new.facts.uid in group.decided.nominations
            or group.pods.get(new.facts.uid) is not old
            or not group.can_bind(old, new)
        ):
            return None
        found.append((old, new))
    return None if group is None else (group, found)


def _layout(facts: NodeFacts | None) -> str:
    return "" if facts is None else card_layout_of(facts)


def _charge_of(cluster: "Cluster", group: PodGroup, pod: Pod) -> Charge:
    """Return what a pod is charged that has just got its node: nothing if its group may not use the queue."""
    return quota_charging.charge(cluster, pod) if group.denied is None else ()
