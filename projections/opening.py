"""What is settled as a cycle opens, rather than with every record."""

from projections.cluster import Cluster
from projections.standing import job_order


def open_cycle(cluster: Cluster) -> None:
    """Bring what follows from sums over the whole cluster in line with them."""
    commons = cluster.commons
    if commons.totals == cluster.totals:
        return
    commons.totals = dict(cluster.totals)
    if "drf" in cluster.policy.job_order:
        _reorder(cluster)


def _reorder(cluster: Cluster) -> None:
    """Shares have changed: put who holds something into its place."""
    for group in cluster.groups.values():
        lines = cluster.lines.of(group) if group.held else []
        if lines:
            order = job_order(cluster, group)
            cluster.lines.place(group, order, tuple(line.key for line in lines))
            group.mark = (group.mark[0], order, *group.mark[2:])
