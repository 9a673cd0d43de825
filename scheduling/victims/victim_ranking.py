"""Eviction cost: which of several freeable nodes is chosen, by its victims.

The node whose most urgent victim is least urgent; then the smallest sum of priorities; then the fewest victims;
then the node whose most urgent victims have run the shortest time. PodDisruptionBudgets are never violated, so
they do not count. (The order in which Kubernetes chooses a node for preemption.)
"""

from typing import TypeAlias

from projections.cluster import Cluster
from projections.pods import Pod

EvictionCost: TypeAlias = tuple[tuple[tuple[int, int], ...], int, int, int]
"""Smaller is cheaper."""


def eviction_cost(cluster: Cluster, gone: list[Pod]) -> EvictionCost:
    """Return the cost of evicting these pods."""
    if not gone:
        return (), 0, 0, 0
    urgency = [(cluster.groups[pod.group_key].priority, pod.facts.task_priority) for pod in gone]
    most = max(urgency)
    since = min(pod.decided.bound_at for pod, one in zip(gone, urgency, strict=True) if one == most)
    return (most,), sum(one for one, _ in urgency), len(gone), -since
