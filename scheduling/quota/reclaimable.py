"""What evictions could release for a pod group that asks for admission, if the policy evicts.

A group that is not admitted has no pods, or none that any action considers: nothing could be evicted for it, and
on a full cluster urgent groups would wait until all others end (#569, #3842, #4756 of Volcano). So usage is
counted without what the group may take from others once it is admitted:

    preempt: what groups of lower priority in its queue use, if priorities count
    reclaim: what other queues use beyond what they deserve, if its queue may reclaim at all

Pods beyond minMember of their groups are not counted as usage anyway and do not count twice. The result is an
upper bound: PodDisruptionBudgets, single plugins and nodes are checked later, when the group preempts.
"""

from collections.abc import Iterable, Mapping
from copy import copy

from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.policy.policy import PREEMPTING
from projections.preemption_triggers import never_preempts
from projections.queues import Queue, add
from projections.state import State
from scheduling.quota.reclaiming import Reclaiming
from scheduling.victim_eligibility import eviction_limits

_CLUSTER = ""
"""Name for the sum over all queues."""


class ReclaimableResources:
    """What others could release, for one State."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._cluster: Cluster = state.cluster
        self._as_of: tuple[int, ...] = ()
        self._beyond: dict[str, Amounts] = {}
        """Queue to what it and its descendants could lose to others."""
        self.yielding: tuple[PodGroup, ...] = ()
        """Groups whose reservations do not count, because they would yield."""

    def without(self, yielding: tuple[PodGroup, ...]) -> "ReclaimableResources":
        """Return the same for a vote in which the reservations of these groups do not count."""
        twin = copy(self)
        twin.yielding = yielding
        return twin

    @property
    def yielded(self) -> Mapping[str, Amounts]:
        """Return what these groups reserve in each queue, ancestors included."""
        total: dict[str, Amounts] = {}
        for one in self.yielding:
            for queue in self._cluster.queues[one.queue].lineage:
                add(total.setdefault(queue.name, {}), one.reservation.inqueue, 1)
        return total

    def of_queue(self, group: PodGroup, least: Amounts) -> dict[str, Amounts]:
        """Return, for each queue whose limits bind the group, what could be released, by charge name."""
        if never_preempts(self._cluster, group):
            return {}
        queue = self._cluster.queues[group.queue]
        own: Amounts = {}
        for offered, _ in self._of_lower_priority(group):
            for name, amount in offered.items():
                own[name] = own.get(name, 0) + amount
        own = {name: max(0, amount - queue.elastic.get(name, 0)) for name, amount in own.items()}
        found = {queue.name: own}
        for above in queue.lineage[1:]:
            found[above.name] = _sum(own, self._reclaimable_from_others(queue, above.name, least))
        return found

    def may_release_any(self, group: PodGroup) -> bool:
        """Return True if anything could be released for the group; False means that nothing could."""
        if never_preempts(self._cluster, group):
            return False
        return self._may_release(group.priority, (self._cluster.queues[group.queue],))

    def may_release_for(self, priority: int) -> bool:
        """Return True if anything could be released for any group of a priority."""
        return self._may_release(priority, self._cluster.queues.values())

    def _may_release(self, priority: int, queues: Iterable[Queue]) -> bool:
        policy, quota = self._cluster.policy, self._cluster.plugins.quota
        if policy.reclaims and quota.counts_reclaimable:
            return True
        return policy.preempts and any(
            lower < priority for queue in queues for lower in queue.evictable
        )

    def of_cluster(self, group: PodGroup, least: Amounts) -> Amounts:
        """Return what could be released in the whole cluster, by resource."""
        if never_preempts(self._cluster, group):
            return {}
        own: Amounts = {}
        for _, requests in self._of_lower_priority(group):
            own = _sum(own, requests)
        queue = self._cluster.queues[group.queue]
        return _sum(own, self._reclaimable_from_others(queue, _CLUSTER, least))

    def _of_lower_priority(self, group: PodGroup) -> list[tuple[Amounts, Amounts]]:
        """Return what pods of groups of lower priority in its queue are charged, and what they request."""
        cluster = self._cluster
        if all(
            limits.needs_surplus or limits.margin is None
            for limits in [
                eviction_limits(cluster, one) for one in cluster.policy.actions if one in PREEMPTING
            ]
        ):
            return []
        offered = self._cluster.queues[group.queue].evictable
        return [sums for priority, sums in offered.items() if priority < group.priority]

    def _reclaimable_from_others(self, queue: Queue, above: str, least: Amounts) -> Amounts:
        """Return what the queues below `above` could lose to this one."""
        cluster = self._cluster
        if not cluster.policy.reclaims or not cluster.plugins.quota.counts_reclaimable:
            return {}
        if not Reclaiming(cluster).may_reclaim(queue, tuple(least.items()), {}):
            return {}
        all_of_them, own = self._of_others(above), self._of_others(queue.name)
        return {name: amount - own.get(name, 0) for name, amount in all_of_them.items()}

    def _of_others(self, name: str) -> Amounts:
        """Return what a queue could lose; recomputed at most once a cycle unless pods changed."""
        table = self._cluster.nodes
        as_of = (self._state.cycle, table.layout, len(table.changed_slots))
        if as_of != self._as_of:
            self._as_of, self._beyond = as_of, {}
            can_donate = Reclaiming(self._cluster).can_donate
            for _, queue in sorted(self._cluster.queues.items()):
                if not queue.children and can_donate(queue):
                    self._add(queue)
        return self._beyond.get(name, {})

    def _add(self, queue: Queue) -> None:
        deserved = self._cluster.plugins.quota.deserved(self._cluster, queue)
        beyond = {
            name: amount - deserved.get(name, 0)
            for name, amount in queue.allocated.items()
            if amount > deserved.get(name, 0)
        }
        for name in (*(one.name for one in queue.lineage), _CLUSTER):
            self._beyond[name] = _sum(self._beyond.get(name, {}), beyond)


def _sum(left: Amounts, right: Amounts) -> Amounts:
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, 0) + amount
    return total
