"""What evictions could give back to a group that asks to be let in, where the policy evicts.

A group that is not let in has no pods, or none that anybody looks at: nobody could be evicted for it, and on
a full cluster the urgent would wait for the end of all others (#569, #3842, #4756 of Volcano). So what is used
counts without what the group may take from others once it is let in:

    preempt: what groups of lower priority of its queue use, where priorities count
    reclaim: what other queues use beyond what they deserve, where its queue may reclaim at all

Of pods beyond the minimum of their groups, which are left out of account anyhow, nothing counts twice. It is
the most that could be: what budgets, single plugins and nodes forbid is found out when it comes to that.
"""

from projections.cluster import Cluster
from projections.deserved import deserved_of
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.policy import PREEMPTING
from projections.queues import Queue
from projections.state import State
from scheduling.quota.reclaiming import can_donate, may_reclaim
from scheduling.victim_eligibility import needs_surplus, priority_bound

_CLUSTER = ""
"""Stands for the queue above all others."""


class ReclaimableResources:
    """What others could give up, for one State."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._cluster: Cluster = state.cluster
        self._as_of: tuple[int, ...] = ()
        self._beyond: dict[str, Amounts] = {}
        """Queue to what it, or all below it, could lose to others."""

    def of_queue(self, group: PodGroup, least: Amounts) -> dict[str, Amounts]:
        """By the queues whose limits bind the group: what their ledgers could be less, by charge name."""
        queue = self._cluster.queue(group.queue)
        own: Amounts = {}
        for offered, _ in self._of_lower_priority(group):
            for name, amount in offered.items():
                own[name] = own.get(name, 0) + amount
        own = {name: max(0, amount - queue.elastic.get(name, 0)) for name, amount in own.items()}
        found = {queue.name: own}
        for above in queue.lineage[1:]:
            found[above.name] = _sum(own, self._reclaimable_from_others(queue, above.name, least))
        return found

    def of_cluster(self, group: PodGroup, least: Amounts) -> Amounts:
        """What pods could occupy less of the whole cluster, by resource."""
        own: Amounts = {}
        for _, requests in self._of_lower_priority(group):
            own = _sum(own, requests)
        queue = self._cluster.queue(group.queue)
        return _sum(own, self._reclaimable_from_others(queue, _CLUSTER, least))

    def _of_lower_priority(self, group: PodGroup) -> list[tuple[Amounts, Amounts]]:
        """What pods of groups of lower priority in its queue are charged, and what they request."""
        policy = self._cluster.policy
        if all(
            needs_surplus(policy, one) or priority_bound(policy, one, group.priority) is None
            for one in policy.actions
            if one in PREEMPTING
        ):
            return []
        offered = self._cluster.queue(group.queue).evictable
        return [sums for priority, sums in offered.items() if priority < group.priority]

    def _reclaimable_from_others(self, queue: Queue, above: str, least: Amounts) -> Amounts:
        """What queues below another could lose to this one."""
        cluster = self._cluster
        if not cluster.policy.reclaims or not cluster.policy.charges_resources:
            return {}
        if not may_reclaim(cluster, queue, tuple(least.items()), {}):
            return {}
        all_of_them, own = self._of_others(above), self._of_others(queue.name)
        return {name: amount - own.get(name, 0) for name, amount in all_of_them.items()}

    def _of_others(self, name: str) -> Amounts:
        """Counted anew at most once a cycle, unless pods came or went."""
        table = self._cluster.nodes
        as_of = (self._state.cycle, table.layout, len(table.changed_slots))
        if as_of != self._as_of:
            self._as_of, self._beyond = as_of, {}
            for _, queue in sorted(self._cluster.queues.items()):
                if not queue.children and can_donate(self._cluster, queue):
                    self._add(queue)
        return self._beyond.get(name, {})

    def _add(self, queue: Queue) -> None:
        deserved = deserved_of(self._cluster, queue)
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
