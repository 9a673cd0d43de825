"""Compute at the start of a cycle what is not updated with every record."""

from projections.cluster import Cluster
from projections.deserved import real_capability
from projections.inter_pod_affinity_index import classify_again
from projections.job_order import job_order
from projections.pod_class import Amounts
from projections.proportion import WHOLE, QueueDemand, compute_deserved
from projections.queues import Queue


def open_cycle(cluster: Cluster) -> None:
    """Update shares and deserved amounts that depend on sums over the whole cluster."""
    cluster.trim_changed_groups()
    classify_again(cluster)
    cluster_totals = cluster.cluster_totals
    if cluster_totals.totals != cluster.totals:
        cluster_totals.totals = dict(sorted(cluster.totals.items()))
        if "drf" in cluster.policy.job_order:
            _reorder(cluster)
    if cluster.policy.quota == "proportion":
        _compute_proportion(cluster)


def _reorder(cluster: Cluster) -> None:
    """Update the sort key of groups that hold resources, after their shares changed."""
    for group in cluster.groups.values():
        equivalence_groups = cluster.scheduling_queue.of(group) if group.held else []
        if equivalence_groups:
            order = job_order(cluster, group)
            cluster.scheduling_queue.place(
                group,
                order,
                tuple(equivalence_group.key for equivalence_group in equivalence_groups),
            )
            group.fingerprint = (group.fingerprint[0], order, *group.fingerprint[2:])


def _compute_proportion(cluster: Cluster) -> None:
    """Compute what queues deserve, if anything that it depends on has changed."""
    total = {name: amount for name, amount in cluster.totals.items() if name != "pods"}
    asking = [
        _asking(cluster, queue, list(total))
        for _, queue in sorted(cluster.queues.items())
        if queue.groups
    ]
    cluster_totals = cluster.cluster_totals
    if (total, asking) != cluster_totals.proportion_input:
        cluster_totals.proportion_input = (total, asking)
        cluster_totals.deserved = compute_deserved(total, asking)


def _asking(cluster: Cluster, queue: Queue, names: list[str]) -> QueueDemand:
    facts = queue.facts
    most = {name: real_capability(cluster, queue, name) for name in names if facts is not None}
    return QueueDemand(
        name=queue.name,
        weight=1 if facts is None else max(1, facts.weight),
        request=_millionths(queue.request),
        most=_millionths({name: one for name, one in most.items() if one is not None}),
        least={} if facts is None else _millionths(facts.guarantee),
    )


def _millionths(amounts: Amounts) -> Amounts:
    return {name: amount * WHOLE for name, amount in amounts.items()}
