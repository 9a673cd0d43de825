"""Classes of preemptors for which the same nodes can be freed (key of `scheduling/failed_preemption_cache.py`)."""

from scheduling.victim_eligibility import victim_plugin_tiers
from scheduling.victims.preemptor import Preemptor


def preemptor_class(preemptor: Preemptor) -> tuple[object, ...] | None:
    """Return a key that is equal for preemptors for which the same nodes can be freed; None if that depends on more.

    None if pod affinity or spread, PodDisruptionBudgets, recently failed evictions, ages or shares of queues
    decide, and once the overlay holds evictions. (Quotas: see `PreemptionSearch`.)
    """
    cluster, policy, overlay, pod = (
        preemptor.cluster,
        preemptor.policy,
        preemptor.overlay,
        preemptor.pod,
    )
    if preemptor.action != "preempt" or preemptor.is_within or overlay.placed or overlay.evicted:
        return None
    if cluster.budgets.all or cluster.eviction_backoff:
        return None
    if policy.has_fair_tree or policy.has_queue_tree:
        return None
    tiers = victim_plugin_tiers(policy, preemptor.action)
    if not all(any(one.name in ("priority", "drf") for one in tier) for tier in tiers):
        return None
    if preemptor.session.rankings.pod_topology(pod.pod_class) is not None:
        return None
    group = preemptor.group
    held = tuple(sorted(group.held.items()))
    return pod.pod_class.index, group.queue, group.priority, held, group.key if held else ""
