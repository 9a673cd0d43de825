"""Requeue: whether a cycle is due, a pure function of State and time.

A refused group is not evaluated again until an event that could change the answer: its refusal names these
(`events/requeue.py`). So no cycle is opened in which nothing could change, and a replay detects a missed cycle.
"""

from collections.abc import Callable, Iterable

from events import requeue
from events.decisions.search_deferred import SearchDeferred
from projections.cluster import Cluster
from projections.internal_error import OnError, ignore, report
from projections.nodes import Request
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.policy.policy import RECLAIMING
from projections.quota_charging import cards_of_charge
from projections.rejected_pods import RejectedPods
from projections.scheduling_queue import EquivalenceGroup
from projections.state import State
from projections.wakeup_events import ALL_RESOURCES, ALL_VOLUMES, Names, WakeupEvents
from scheduling.pod_topology.wakeup import is_affected_by_pods
from scheduling.preemptible_capacity import VictimIndex
from scheduling.quota.enqueue_check import ClusterQuota
from scheduling.quota.real_capability import RealCapability
from scheduling.quota.reclaimable import ReclaimableResources
from scheduling.victim_eligibility import eviction_limits
from scheduling.work_budget import has_too_many_classes

FREED_MAX = 64
"""If more nodes than this were freed, classes are requeued without checking which node could serve them."""


def is_cycle_due(
    state: State,
    at_ns: int,
    candidates: Callable[[WakeupEvents], Iterable[EquivalenceGroup]] | None = None,
    donors: VictimIndex | None = None,
) -> bool:
    """Return True if a cycle at this moment could decide anything.

    `candidates` returns the classes that events could requeue; without it, all classes are checked.
    """
    if not state.is_synced:
        return False
    if not state.deferred_work.is_empty:
        return True
    deadline = state.next_deadline_ns
    if deadline is not None and deadline <= at_ns:
        return True
    events = state.cluster.wakeup_events
    if (
        events.groups
        or events.faulty_groups
        or state.cluster.indexes.of(RejectedPods).due(state.cluster)
        or state.cluster.queues_with_unreported_errors
        or state.cluster.config_errors.unreported
        or RealCapability(state.cluster).are_guarantees_due()
    ):
        return True
    if events.is_empty:
        return False
    donors = donors or VictimIndex(state.cluster)
    waiting = state.cluster.scheduling_queue.all() if candidates is None else candidates(events)
    check = RequeueCheck(state.cluster, events, donors)
    return any(check.is_requeued(one) for one in waiting)


class RequeueCheck:
    """Whether some events could change the answers that equivalence classes got.

    A group that awaits a resource of the cluster is requeued by any release of it; with `reclaimable`, only if so much
    as it needs can be reserved.
    """

    def __init__(
        self,
        cluster: Cluster,
        events: WakeupEvents,
        donors: VictimIndex,
        reclaimable: ReclaimableResources | None = None,
    ) -> None:
        self._cluster = cluster
        self._events = events
        self._donors = donors
        self._reclaimable = reclaimable

    def is_requeued(self, equivalence_group: EquivalenceGroup, on_error: OnError = ignore) -> bool:
        """Return True if any event could change the answer of this class, and also if the check raises."""
        try:
            return self._is_requeued(equivalence_group)
        except Exception as error:  # any bug
            report(
                error, f"PodGroup/{equivalence_group.head.key}", equivalence_group.action, on_error
            )
            return True

    def is_search_outdated(
        self, equivalence_group: EquivalenceGroup, so_far: SearchDeferred
    ) -> bool:
        """Return True if any event since then could change what a search of the class found so far."""
        if self._events.everything or (
            self._events.hyper_nodes_changed_at and equivalence_group.head.has_topology_constraint
        ):
            return True
        return any(self._happened(equivalence_group, one) for one in so_far.requeue_on)

    def _is_requeued(self, equivalence_group: EquivalenceGroup) -> bool:
        if self._events.everything:
            return True
        head = equivalence_group.head
        refusal = head.decided.refusals.get(equivalence_group.action)
        if refusal is None:
            if self._events.hyper_nodes_changed_at and head.has_topology_constraint:
                return True
            return not head.decided.nominations or self._could_place_nominated(equivalence_group)
        if head.decided.nominations and equivalence_group.action == "allocate":
            return True  # Decider versions before 4 kept the nominations of a refused group.
        return any(self._happened(equivalence_group, one) for one in refusal.requeue_on)

    def _happened(self, equivalence_group: EquivalenceGroup, awaited: str) -> bool:
        """Return True if an awaited event (`events/requeue.py`) happened."""
        head, queue = equivalence_group.head, equivalence_group.queue
        match awaited:
            case requeue.NODE_FREED:
                return self._has_room_on_freed_nodes(head.pending)
            case requeue.NODE_UPDATED:
                return self._could_fit_when_empty(head.pending)
            case requeue.ANY_NODE:
                return bool(self._events.nodes_freed)
            case requeue.PODS_CHANGED:
                return self._affected_by_pods(head)
            case requeue.ANY_QUOTA:
                return bool(self._events.quota_released.get(queue))
            case requeue.QUEUE_UPDATED:
                return self._is_quota_released(queue, ())
            case requeue.VICTIMS_OF_QUEUE:
                return self._could_evict(equivalence_group)
            case requeue.VICTIMS_OF_OTHERS:
                return self._donors.has_other_than(queue) and (
                    bool(self._events.quota_released.get(queue))
                    or self._could_evict(equivalence_group)
                    or self._affected_by_pods(head)
                )
            case requeue.ADMISSION_BY_QUEUE:
                lowest = self._events.victims_added.get(queue)
                return lowest is not None and lowest < head.priority
            case requeue.ADMISSION_BY_OTHERS:
                others = any(name != queue for name in self._events.victims_added)
                return others or ALL_RESOURCES in self._events.quota_released.get(queue, ())
            case requeue.HYPER_NODES:
                return bool(self._events.hyper_nodes_changed_at)
            case requeue.CLASS_BUDGET:
                return not has_too_many_classes(self._cluster, head)
            case _ if awaited.startswith(requeue.VOLUMES):
                changed = self._events.volumes_changed
                one = awaited.removeprefix(requeue.VOLUMES)
                return bool(changed) and (
                    one == ALL_VOLUMES or one in changed or ALL_VOLUMES in changed
                )
            case _ if awaited.startswith(requeue.CLUSTER_QUOTA):
                limit = awaited.removeprefix(requeue.CLUSTER_QUOTA)
                released = self._events.quota_released.get("", {})
                if not self._releases_any(released, (limit,)):
                    return False
                if self._reclaimable is None or ALL_RESOURCES in released:
                    return True
                return self._can_reserve(self._reclaimable, head, limit)
            case _:
                limit = awaited.removeprefix(requeue.QUOTA)
                return self._is_quota_released(queue, (limit,))

    def _can_reserve(self, reclaimable: ReclaimableResources, group: PodGroup, name: str) -> bool:
        """Return True if the cluster could reserve so much of a resource as a group needs, or if victims of the group could
        release some."""
        return reclaimable.may_release_any(group) or all(
            one.awaited(group, name) <= one.available(self._cluster, name)
            for one in self._cluster.plugins.of(ClusterQuota)
        )

    def _affected_by_pods(self, group: PodGroup) -> bool:
        """Return True if an added or removed pod matters to the affinity or spread of a pending pod."""
        if not self._events.changed_pod_kinds:
            return False
        labels_of = self._cluster.inter_pod_affinity.labels_of
        unlike = {(pod.pod_class.index, pod.facts.labels): pod for pod in group.pending}
        return any(
            is_affected_by_pods(one, self._events.changed_pod_kinds, labels_of)
            for one in unlike.values()
        )

    def _could_place_nominated(self, equivalence_group: EquivalenceGroup) -> bool:
        """Return True if an event could let a nominated pod be bound, or invalidate its nomination."""
        if self._events.quota_released.get(equivalence_group.queue):
            return True
        if any(
            nomination.node in self._events.nodes_freed
            for nomination in equivalence_group.head.decided.nominations.values()
        ):
            return True
        return self._has_room_on_freed_nodes(
            equivalence_group.head.pending
        ) or self._affected_by_pods(equivalence_group.head)

    def _could_evict(self, equivalence_group: EquivalenceGroup) -> bool:
        """Return True if possible victims were added, or if less than before is lacking."""
        if self._could_free_node(equivalence_group):
            return True
        if equivalence_group.action in RECLAIMING:
            return any(
                name != equivalence_group.queue and name in self._donors.names
                for name in self._events.victims_added
            )
        lowest = self._events.victims_added.get(equivalence_group.queue)
        if lowest is None:
            return False
        bound = eviction_limits(self._cluster, equivalence_group.action).bound(
            equivalence_group.head.priority
        )
        return bound is None or lowest < bound or bool(equivalence_group.head.counts.allocated)

    def _could_free_node(self, equivalence_group: EquivalenceGroup) -> bool:
        """Return True if changed nodes could be freed for a pod of the class."""
        if len(self._events.nodes_freed) > FREED_MAX:
            return True
        head = equivalence_group.head
        asked: dict[tuple[Request, tuple[str, ...]], None] | None = None
        for name in self._events.nodes_freed:
            node = self._cluster.nodes.nodes.get(name)
            if node is None or node.facts is None:
                continue
            if head.counts.allocated:
                return True
            if asked is None:
                classes = [pod.pod_class for pod in head.pending]
                asked = dict.fromkeys((one.request, one.cards) for one in classes)
            is_freed = self._donors.can_free(node, equivalence_group.action, head)
            has_card, there = self._cluster.plugins.quota.has_named_card, node.facts.cards.values()
            if any(has_card(there, cards) and is_freed(request) for request, cards in asked):
                return True
        return False

    def _is_quota_released(self, queue: str, limits: tuple[str, ...]) -> bool:
        """Return True if the queue was released any of these limits."""
        found = self._cluster.queues.get(queue)
        above = (queue,) if found is None else tuple(one.name for one in found.lineage)
        if ALL_RESOURCES in self._events.quota_released.get("", ()):
            return True
        return any(
            self._releases_any(self._events.quota_released.get(name), limits) for name in above
        )

    def _releases_any(self, eased: Names | None, limits: tuple[str, ...]) -> bool:
        if not eased:
            return False
        if ALL_RESOURCES in eased:
            return True
        return any(
            one in eased or any(card in eased for card in cards_of_charge(self._cluster, one))
            for one in limits
        )

    def _could_fit_when_empty(self, pending: list[Pod]) -> bool:
        """Return True if an added or changed node could hold a pod if it were empty: the group may fit again."""
        requests = dict.fromkeys(pod.pod_class.request for pod in pending)
        nodes = [self._cluster.nodes.nodes.get(name) for name in self._events.nodes_updated]
        return any(
            all(node.allocatable(one) >= most for one, most in request)
            for node in nodes
            for request in requests
            if node is not None
        )

    def _has_room_on_freed_nodes(self, pending: list[Pod]) -> bool:
        if not self._events.nodes_freed:
            return False
        if len(self._events.nodes_freed) > FREED_MAX:
            return True
        classes = {pod.pod_class.index: pod.pod_class for pod in pending}
        has_named_card = self._cluster.plugins.quota.has_named_card
        for name in self._events.nodes_freed:
            node = self._cluster.nodes.nodes.get(name)
            if node is None or node.facts is None:
                continue
            is_leaving = name in self._cluster.nodes.leaving
            for one in classes.values():
                if not has_named_card(node.facts.cards.values(), one.cards):
                    continue
                if node.fits(one.request) or (is_leaving and node.fits_later(one.request)):
                    return True
        return False
