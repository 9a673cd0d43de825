"""Classes of preemptors for which the same nodes can be freed (key of `scheduling/failed_preemption_cache.py`)."""

from projections.shares import EQUAL, dominant
from scheduling.plugin import keeps_fair_tree
from scheduling.victim_eligibility import victim_filter_tiers
from scheduling.victims.preemptor import Preemptor


def preemptor_class(preemptor: Preemptor) -> tuple[object, ...] | None:
    """Return a key that is equal for preemptors for which the same nodes can be freed; None if that depends on more.

    None if pod affinity or spread, PodDisruptionBudgets, recently failed evictions, ages or shares of queues
    decide, and once the trial holds evictions. (Quotas: see `PreemptionSearch`.)
    """
    cluster, trial, pod = preemptor.cluster, preemptor.trial, preemptor.pod
    if preemptor.action != "preempt" or preemptor.is_within or trial.placed or trial.evicted:
        return None
    if cluster.budgets.all or cluster.eviction_backoff:
        return None
    if keeps_fair_tree(cluster) or cluster.plugins.quota.keeps_tree:
        return None
    tiers = victim_filter_tiers(cluster, preemptor.action)
    if not all(any(one.prevents_reclaim_back for one in tier) for tier in tiers):
        return None
    if preemptor.session.rankings.pod_topology(pod.pod_class) is not None:
        return None
    group = preemptor.group
    held = tuple(sorted(group.held.items()))
    totals = cluster.cluster_totals.totals
    # With a share of nothing, before or with this pod, ages can decide (`drf`).
    is_tied = bool(held) or dominant(dict(pod.pod_class.request), totals) <= EQUAL
    return pod.pod_class.index, group.queue, group.priority, held, group.key if is_tied else ""
