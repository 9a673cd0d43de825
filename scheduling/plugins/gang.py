"""`gang`: a pod group starts with minMember pods or not at all, and loses only pods beyond that number."""

from collections.abc import Mapping
from typing import ClassVar

from projections.cluster import Cluster
from projections.plugin import JobOrder, JobStarving
from projections.pod_groups import UNSURE, PodGroup
from projections.pods import Pod
from scheduling.quota.enqueue_check import JobPipelined
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.victim_plugins import VictimFilter


class Gang(JobOrder, JobStarving, JobPipelined, VictimFilter):
    """Orders groups without their minimum first, of these gangs that have lost pods, and protects the minimum of running
    groups."""

    name = "gang"
    NO_EFFECT: ClassVar[Mapping[str, str]] = {"enableJobReady": "a gang is always whole"}
    actions = ("preempt", "reclaim")
    compares_groups = True
    follows_shape = True
    takes_surplus_only = True
    counts_min_member = True

    def job_order(self, cluster: Cluster, group: PodGroup) -> object:
        """Return 0 for a gang that has lost pods and runs below its minimum, 1 for another one without its minimum, 2 with
        minMember pods, of whatever roles.

        Volcano does not tell the first two apart. Then `drf` gives the room for the lost pod to a group that holds
        nothing, and the devices of the others stand still.
        """
        if group.counts.ready >= group.observed.min_available:
            return 2
        return 0 if group.decided.phase == UNSURE and group.counts.running else 1

    def is_starving(self, group: PodGroup, have: int) -> bool:
        """Return whether fewer pods than minMember have a node."""
        return have < group.observed.min_available

    def may_hold_part(self, cluster: Cluster, group: PodGroup) -> bool:
        """Return False: a gang holds room for its minimum or none."""
        return False

    def victims(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Accept pods beyond minMember of their gangs."""
        spare: dict[str, int] = {}
        chosen: list[Pod] = []
        for pod in candidates:
            key = pod.group_key
            if key not in spare:
                group = preemptor.cluster.groups[key]
                evicted = len(preemptor.trial.evicted_of(key))
                have = group.counts.ready - group.counts.best_effort - evicted
                spare[key] = have - group.observed.min_available
            if spare[key] > 0:
                spare[key] -= 1
                chosen.append(pod)
        return chosen
