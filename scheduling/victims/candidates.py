"""Victim candidates: pods on a node that an action considers, in eviction order.

`preempt` considers pods of the same queue, `reclaim` running pods of other queues that are reclaimable. Never
considered are static pods, and pods whose eviction failed a moment ago; pods of DaemonSets and those that are marked as not preemptable
are by a preemptor that takes protected pods (`scheduling/victims/protection.py`). PodDisruptionBudgets are checked later. For a best-effort preemptor only best-effort pods are
considered.
"""

from collections.abc import Iterable
from typing import TypeAlias

from projections.job_order import job_order
from projections.nodes import Node
from projections.pod_groups import PodGroup
from projections.pods import RUNNING, Pod
from projections.preemption_triggers import EVICTABLE
from scheduling.quota.queue_order import QueueSortKey
from scheduling.quota.reclaiming import shared_ancestors
from scheduling.victims.preemptor import Preemptor

VictimRank: TypeAlias = tuple[int, int, tuple[object, ...]]

AGE_AND_NAMES = 3
"""Number of the last parts of the job order that no plugin defines."""


class VictimCandidates:
    """The pods that one preemptor considers."""

    def __init__(self, preemptor: Preemptor) -> None:
        self._preemptor = preemptor
        self._cluster = preemptor.cluster
        self._backoff = preemptor.cluster.eviction_backoff

    def on_node(self, node: Node) -> list[Pod]:
        """Return the victim candidates on a node, in eviction order."""
        pods, gone = self._cluster.pods, node.trial_victims
        return self._in_eviction_order(
            [pods[uid] for uid in node.pods if uid not in gone and self._is_candidate(pods[uid])]
        )

    def may_be_victim(self, pod: Pod) -> bool:
        """Return True if a pod may be evicted at all, and no eviction of it failed a moment ago."""
        facts = pod.facts
        if facts.uid in self._backoff:
            return False
        return facts.is_evictable or (self._preemptor.takes_protected and facts.is_protected)

    def ranks(self, groups: Iterable[PodGroup]) -> dict[str, VictimRank]:
        """Return group to its rank: by queue (in a tree, the queues with most common ancestors first), then by the
        plugins' job order."""
        cluster, ours = self._cluster, self._preemptor.queue
        found = {group.key: group for group in groups}
        names = dict.fromkeys(group.queue for group in found.values())
        sort_keys = sorted(QueueSortKey(cluster, cluster.queues[name]) for name in names)
        ranks = {sort_key.queue.name: rank for rank, sort_key in enumerate(sort_keys)}
        ancestors_shared = {name: shared_ancestors(ours, cluster.queues[name]) for name in names}
        return {
            key: (
                ancestors_shared[one.queue],
                ranks[one.queue],
                job_order(cluster, one)[:-AGE_AND_NAMES],
            )
            for key, one in found.items()
        }

    def _is_candidate(self, pod: Pod) -> bool:
        preemptor = self._preemptor
        group = self._cluster.groups.get(pod.group_key)
        if group is None or not self.may_be_victim(pod):
            return False
        if preemptor.pod.pod_class.is_best_effort and not pod.pod_class.is_best_effort:
            return False
        if preemptor.is_within:
            is_less = pod.facts.task_priority < preemptor.pod.facts.task_priority
            return group is preemptor.group and pod.status in EVICTABLE and is_less
        if not preemptor.is_reclaiming:
            is_other = group is not preemptor.group
            return is_other and group.queue == preemptor.group.queue and pod.status in EVICTABLE
        if group.queue == preemptor.group.queue or pod.status != RUNNING:
            return False
        facts = self._cluster.queues[group.queue].facts
        return facts is None or facts.is_reclaimable

    def _in_eviction_order(self, pods: list[Pod]) -> list[Pod]:
        """Sort pods in reverse job order: by group, and within a group by pod."""
        groups = self._cluster.groups
        ranks = self.ranks([groups[pod.group_key] for pod in pods])
        return sorted(
            pods,
            key=lambda pod: (ranks[pod.group_key], groups[pod.group_key].task_key(pod)),
            reverse=True,
        )
