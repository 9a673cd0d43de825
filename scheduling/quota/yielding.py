"""Which reservations yield to a pod group that is refused for want of quota.

A reservation is that of an admitted group none of whose pods has a node. It yields to a group of higher priority in the
same queue, if priorities count; and to any group once its own pods did not come in time (`projections/pod_waits.py`).
Nothing yields to a group that lost its own reservation so, nor to one that has too few pods and no controller that
would make them once it is admitted.
"""

from collections.abc import Callable

from projections import quota_charging
from projections.cluster import Cluster
from projections.idle_reservations import IdleReservations
from projections.job_order import job_order
from projections.pod_groups import PodGroup
from projections.pod_waits import lacks_pods, takes_no_reservation
from scheduling.shortage import amount_text

PRUNED_MAX = 64
"""Up to so many reservations it is tried which of them need not yield."""


class YieldingReservations:
    """The reservations of admitted groups none of whose pods has a node."""

    def __init__(self, cluster: Cluster, *, are_shared: bool) -> None:
        self._cluster = cluster
        self._are_shared = are_shared
        """Whether a limit of the whole cluster counts the reservations of all queues."""
        self._idle = cluster.indexes.of(IdleReservations)

    def yielding_to(self, group: PodGroup) -> list[PodGroup]:
        """Return the groups whose reservations may yield to a group, those that yield first at the beginning: whose pods did
        not come in time, of lower priority, later in the job order."""
        cluster, idle = self._cluster, self._idle
        if cluster.pod_waits.comes_last(group.key) or takes_no_reservation(group):
            return []
        found = [
            one
            for key in cluster.pod_waits.of
            if key in idle.places
            and cluster.pod_waits.yields_to_all(key)
            and self._shares_limits(one := cluster.groups[key], group)
        ]
        known = {one.key for one in found}
        if cluster.plugins.orders_by_priority:
            for priority, keys in idle.by_queue.get(group.queue, {}).items():
                if priority < group.priority:
                    found += [cluster.groups[key] for key in keys if key not in known]
        wanted = self._names(group)
        found = [one for one in found if not wanted.isdisjoint(self._names(one))]
        found.sort(key=lambda one: job_order(cluster, one), reverse=True)
        found.sort(key=lambda one: (not cluster.pod_waits.yields_to_all(one.key), one.priority))
        return found

    def holder_text(self, group: PodGroup, name: str) -> str:
        """Return which admitted group without its pods reserves some of a resource that a group is short of; "" if none
        does."""
        cluster, idle = self._cluster, self._idle
        if not cluster.pod_waits.of:
            return ""
        names = {name, *quota_charging.cards_of_charge(cluster, name)}
        for key in cluster.pod_waits.of:
            one = cluster.groups[key]
            if key not in idle.places or not lacks_pods(one) or not self._shares_limits(one, group):
                continue
            if cluster.pod_waits.of[key].since_ns == cluster.now_ns:
                continue  # Admitted in this cycle: its controller has had no time to make pods.
            stated = {} if one.observed.facts is None else one.observed.facts.min_resources or {}
            for held, amount in (*one.reservation.inqueue, *stated.items()):
                if amount and not names.isdisjoint(
                    (held, *quota_charging.cards_of_charge(cluster, held))
                ):
                    have = f"{one.counts.valid} of its {max(1, one.observed.min_available)} pods"
                    what = f"{held} <{amount_text(held, amount)}> is reserved for pod group {key}"
                    return f"; {what}, which has {have}"
        return ""

    def _shares_limits(self, one: PodGroup, other: PodGroup) -> bool:
        """Return whether a limit counts what both groups reserve: of a queue, or of the whole cluster."""
        if one.queue == other.queue or self._are_shared:
            return True
        theirs = {queue.name for queue in self._cluster.queues[one.queue].lineage}
        return any(queue.name in theirs for queue in self._cluster.queues[other.queue].lineage)

    def _names(self, group: PodGroup) -> set[str]:
        """Return the resources and cards of a group's minimum."""
        stated = {} if group.observed.facts is None else group.observed.facts.min_resources or {}
        charged = quota_charging.min_request(self._cluster, group) or {}
        return {
            card
            for name in charged
            for card in (name, *quota_charging.cards_of_charge(self._cluster, name))
        }.union(stated)


def needed(
    candidates: list[PodGroup], is_enough: Callable[[tuple[PodGroup, ...]], bool]
) -> tuple[PodGroup, ...]:
    """Return a smallest part of the candidates, from the beginning, that is enough if it yields; empty if not even all
    of them are."""
    if not candidates or not is_enough(tuple(candidates)):
        return ()
    low, high = 1, len(candidates)
    while low < high:
        middle = (low + high) // 2
        if is_enough(tuple(candidates[:middle])):
            high = middle
        else:
            low = middle + 1
    chosen = tuple(candidates[:low])
    for one in chosen[:-1] if low <= PRUNED_MAX else ():
        without = tuple([other for other in chosen if other is not one])
        if is_enough(without):
            chosen = without
    return chosen


def named(group: PodGroup) -> str:
    """Return how messages name a group: a pod of its own by the pod."""
    pod = next(iter(group.pods.values()), None)
    is_single = group.observed.facts is None and pod is not None and len(group.pods) == 1
    return f"pod {pod.key}" if is_single and pod is not None else f"pod group {group.key}"


def waiting_text(other: PodGroup, group: PodGroup) -> str:
    """Return for which group of higher priority a group waits that lost its reservation to it."""
    return (
        f"it waits for {named(other)}, which has a higher priority ({other.priority}, not {group.priority}) and"
        " took its reservation, since none of its pods had a node"
    )
