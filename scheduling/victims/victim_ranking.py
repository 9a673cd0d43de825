"""Loss: which of several nodes that could be freed is freed, by who would leave it.

The node where the most urgent who would leave is least urgent; then where all of them together are; then
where fewest leave; then where the most urgent have run the shortest time. Budgets are never broken, so they do
not count. (The order in which Kubernetes chooses a node to preempt on.)
"""

from typing import TypeAlias

from projections.cluster import Cluster
from projections.pods import Pod

EvictionCost: TypeAlias = tuple[tuple[tuple[int, int], ...], int, int, int]
"""Smaller is less to lose."""


def eviction_cost(cluster: Cluster, gone: list[Pod]) -> EvictionCost:
    """What is lost when these leave."""
    if not gone:
        return (), 0, 0, 0
    urgency = [(cluster.groups[pod.group_key].priority, pod.facts.task_priority) for pod in gone]
    most = max(urgency)
    since = min(pod.bound_at for pod, one in zip(gone, urgency, strict=True) if one == most)
    return (most,), sum(one for one, _ in urgency), len(gone), -since
