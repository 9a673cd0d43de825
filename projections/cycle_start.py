"""Compute at the start of a cycle what is not updated with every record."""

from projections import unready_nodes
from projections.cluster import Cluster
from projections.inter_pod_affinity_index import classify_again
from projections.job_order import job_order


def open_cycle(cluster: Cluster, at_ns: int) -> None:
    """Update shares and deserved amounts that depend on sums over the whole cluster."""
    cluster.trim_journals()
    classify_again(cluster)
    cluster.pod_groups.settle(cluster)
    unready_nodes.open_cycle(cluster, at_ns)
    cluster_totals = cluster.cluster_totals
    if cluster_totals.totals != cluster.resources.allocatable:
        cluster_totals.totals = dict(sorted(cluster.resources.allocatable.items()))
        if any(one.depends_on_totals for one in cluster.plugins.job_order):
            _reorder(cluster)
    cluster.plugins.quota.cycle_opened(cluster)


def _reorder(cluster: Cluster) -> None:
    """Update the sort key of groups that hold resources, after their shares changed."""
    for key in [key for key, group in cluster.groups.items() if group.held]:
        equivalence_groups = cluster.scheduling_queue.of(cluster.groups[key])
        if equivalence_groups:
            group = cluster.pod_groups.own(cluster, key)
            order = job_order(cluster, group)
            cluster.pod_groups.journal.append(group.key)
            cluster.scheduling_queue.place(
                group,
                order,
                tuple(equivalence_group.key for equivalence_group in equivalence_groups),
            )
            group.fingerprint = (group.fingerprint[0], order, *group.fingerprint[2:])
