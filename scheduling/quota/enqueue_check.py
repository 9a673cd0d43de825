"""Admission of a pod group to its queue: votes of the plugins, tier by tier (Volcano's enqueueable functions).

A plugin permits, rejects or abstains. The first rejection refuses the group; after a permit in a tier later tiers
are not asked; if all abstain the group is admitted. A group without minResources is permitted by all plugins that
enforce a limit.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from events.requeue import CLUSTER_QUOTA
from projections import quota_charging
from projections.cluster import Cluster
from projections.overcommit import min_resources_of
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.sla import is_overdue
from scheduling.quota.quota_check import Shortage, amount_text, may_enqueue
from scheduling.quota.reclaimable import ReclaimableResources

Vote: TypeAlias = Shortage | Literal["permit", "abstain"]


def why_not_admitted(
    cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup
) -> Shortage | None:
    """Return why the group is not admitted to its queue now, or None."""
    for tier in cluster.policy.tiers:
        is_permitted = False
        for plugin in tier:
            if plugin.name not in _VOTES or not plugin.takes_part("enableJobEnqueued"):
                continue
            vote = _VOTES[plugin.name](cluster, reclaimable, group)
            if isinstance(vote, Shortage):
                return vote
            is_permitted |= vote == "permit"
        if is_permitted:
            return None
    return None


def may_hold_partial_reservation(cluster: Cluster, group: PodGroup) -> bool:
    """Return True if a gang may hold the room found for only some of its pods, because it waited longer than its
    SLA.

    `gang` rejects that, so `sla` must be in a tier before it (Volcano's pipelined functions).
    """
    for tier in cluster.policy.tiers:
        names = [one.name for one in tier if one.takes_part("enableJobPipelined")]
        if "gang" in names:
            return False
        if "sla" in names:
            return is_overdue(cluster, group)
    return False


def _by_quota(cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup) -> Vote:
    least = quota_charging.min_request(cluster, group)
    if least is None:
        return "permit"
    queue = cluster.queues[group.queue]
    short = may_enqueue(cluster, queue, least)
    if short is not None and cluster.policy.evicting:
        short = may_enqueue(cluster, queue, least, reclaimable.of_queue(group, least))
    return short or "permit"


def _by_overcommit(cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup) -> Vote:
    """Vote by the room of the whole cluster: its allocatable resources times a factor."""
    least = min_resources_of(cluster, group)
    vote = _within_factor(cluster, least or {}, {})
    if vote != "permit" and cluster.policy.evicting:
        vote = _within_factor(cluster, least or {}, reclaimable.of_cluster(group, least or {}))
    return vote


def _within_factor(cluster: Cluster, least: Amounts, spare: Amounts) -> Vote:
    rules, cluster_totals = cluster.policy.overcommit, cluster.cluster_totals
    assert rules is not None
    over: list[str] = []
    numbers: list[str] = []
    for name, amount in least.items():
        used = cluster_totals.used.get(name, 0) - spare.get(name, 0)
        total = used + cluster_totals.backlog.get(name, 0) + amount
        most = cluster.totals.get(name, 0) * rules.of(name)
        if total > most:
            over.append(name)
            numbers.append(_numbers(name, amount, total, most))
    if not over:
        return "permit"
    names = ", ".join(f"overused {name}" for name in sorted(over))
    message = f"resource in cluster is overused: {names}: {'; '.join(numbers)}"
    return Shortage("ResourceOverused", over[0], message, requeue_on=(CLUSTER_QUOTA + over[0],))


def _numbers(name: str, amount: int, total: int, most: Fraction) -> str:
    requested, would_be, limit = (amount_text(name, one) for one in (amount, total, int(most)))
    return f"{name} requested <{requested}>, total would be <{would_be}>, but at most <{limit}>"


def _by_sla(cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup) -> Vote:
    return "permit" if is_overdue(cluster, group) else "abstain"


_VOTES: Final[dict[str, Callable[[Cluster, ReclaimableResources, PodGroup], Vote]]] = {
    "capacity": _by_quota,
    "capacity-card": _by_quota,
    "proportion": _by_quota,
    "overcommit": _by_overcommit,
    "sla": _by_sla,
}
