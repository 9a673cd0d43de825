"""`priority`: pod groups of higher priority come first, and may preempt those of lower priority."""

from collections.abc import Mapping
from typing import ClassVar

from projections.cluster import Cluster
from projections.plugin import JobOrder, JobStarving
from projections.pod_groups import PodGroup
from projections.pods import Pod
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.victim_plugins import VictimFilter


class Priority(JobOrder, JobStarving, VictimFilter):
    """Orders by the priority of the pod group; within a group, by that of its pods."""

    name = "priority"
    NO_EFFECT: ClassVar[Mapping[str, str]] = {
        "enableTaskOrder": "pods of a group always go by priority"
    }
    actions = ("preempt", "gangpreempt")
    compares_groups = True
    follows_shape = True
    by_priority = True
    prevents_reclaim_back = True
    takes_lower_priority_only = True

    def job_order(self, cluster: Cluster, group: PodGroup) -> object:
        """Return the negative priority: the highest is first."""
        return -group.priority

    def is_starving(self, group: PodGroup, have: int) -> bool:
        """Return whether fewer pods have a node than exist."""
        return have < len(group.pods)

    def victims(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Accept pods of groups of lower priority; within the group, pods of lower priority."""
        if preemptor.is_within:
            ours = preemptor.pod.facts.task_priority
            return [pod for pod in candidates if pod.facts.task_priority < ours]
        groups, priority = preemptor.cluster.groups, preemptor.group.priority
        return [pod for pod in candidates if groups[pod.group_key].priority < priority]
