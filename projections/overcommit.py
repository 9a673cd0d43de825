"""Keep the sums that Volcano's `overcommit` compares.

    backlog + minimum + used  <=  total x factor

The backlog of an admitted group is its whole minimum, unless its pods can never fit, and what is missing of the
minimum once the group runs. Sums are kept only under a policy with this plugin.
"""

from typing import Protocol

from projections import quota_charging
from projections.blocked import is_blocked
from projections.pod_class import Amounts
from projections.pod_groups import INQUEUE, RUNS, PodGroup
from projections.pods import Charge
from projections.queues import add
from projections.quota_charging import QuotaState


class OvercommitState(QuotaState, Protocol):
    """The part of the cluster in which these sums are kept."""

    def mark_quota_released(self, queue: str, resource: str = ...) -> None:
        """Record that a queue may now admit pod groups that it did not admit before."""


def min_resources_of(cluster: QuotaState, group: PodGroup) -> Amounts | None:
    """Return the minimum request of a group, by resource; None if it is not stated and not checked."""
    if group.facts is not None:
        stated = group.facts.min_resources
        if stated is None:
            return None
        return {name: one for name, one in stated.items() if one > 0 and name != "pods"}
    total: Amounts = {}
    for pod_class, count in quota_charging.min_member_classes(group):
        for name, amount in pod_class.request:
            if name != "pods":
                total[name] = total.get(name, 0) + amount * count
    return total


def backlog_of(cluster: QuotaState, group: PodGroup) -> Charge:
    """Return what an admitted group still needs for its minimum."""
    if cluster.policy.overcommit is None or group.phase not in (INQUEUE, RUNS) or group.is_foreign:
        return ()
    if is_blocked(cluster, group):
        return ()
    least = min_resources_of(cluster, group) or {}
    if group.phase == INQUEUE:
        return () if group.never_fits else tuple(least.items())
    if group.allocated_count < group.min_available:
        return ()
    missing = {name: amount - group.held.get(name, 0) for name, amount in least.items()}
    return tuple((name, amount) for name, amount in missing.items() if amount > 0)


def update_backlog(cluster: QuotaState, group: PodGroup, *, is_gone: bool = False) -> None:
    """Update the backlog of a group."""
    cluster_totals = cluster.cluster_totals
    if cluster.policy.overcommit is None and not cluster_totals.backlogs:
        return
    before = cluster_totals.backlogs.get(group.key, ())
    after = () if is_gone else backlog_of(cluster, group)
    if before == after:
        return
    add(cluster_totals.backlog, before, -1)
    add(cluster_totals.backlog, after, 1)
    record_demand(cluster, before, -1)
    record_demand(cluster, after, 1)
    if after:
        cluster_totals.backlogs[group.key] = after
    else:
        del cluster_totals.backlogs[group.key]


def record_used(cluster: QuotaState, request: Charge, sign: int) -> None:
    """Add the request of a pod on a present node, or remove it; also when the node is added or removed."""
    add(cluster.cluster_totals.used, request, sign)
    record_demand(cluster, request, sign)


def record_demand(cluster: QuotaState, amounts: Charge, sign: int) -> None:
    """Record a change of used resources or backlog by the current record."""
    rules = cluster.policy.overcommit
    if rules is not None:
        for name, amount in amounts:
            add(
                cluster.cluster_totals.overcommit_change,
                ((name, amount),),
                sign * rules.of(name).denominator,
            )


def record_capacity(cluster: QuotaState, allocatable: Amounts, sign: int) -> None:
    """Record that a node with these allocatable resources is added or removed."""
    rules = cluster.policy.overcommit
    if rules is not None:
        for name, amount in allocatable.items():
            add(
                cluster.cluster_totals.overcommit_change,
                ((name, amount),),
                -sign * rules.of(name).numerator,
            )


def release_overcommit(cluster: OvercommitState) -> None:
    """At the end of a record, wake groups for resources whose demand decreased relative to capacity."""
    pressure = cluster.cluster_totals.overcommit_change
    if not pressure:
        return
    for name in [name for name, change in pressure.items() if change < 0]:
        cluster.mark_quota_released("", name)
    pressure.clear()
