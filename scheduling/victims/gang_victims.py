"""Victim bundles: pods that are evicted together, so that no gang loses some pods and keeps the rest without use.

A pod beyond minMember of its gang is a bundle of its own (*safe*); all pods of a gang are another (*whole*). Safe
bundles come first; then those of groups of the lowest priority, of whichever queue; then those of groups last in job order;
then those that free more of what is needed. A pod
that may not be evicted (PodDisruptionBudget, victim plugins, annotation) protects its whole bundle. Where protected pods may be
evicted, bundles with any come last.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from msgspec import Struct

from projections.nodes import Node
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import ALLOCATED, RUNNING, Pod
from projections.preemption_triggers import EVICTABLE
from projections.queues import add
from scheduling.quota.reclaiming import DonorQueues
from scheduling.topology.node_scope import NodeScope
from scheduling.victims.candidates import VictimCandidates
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.protection import VictimProtection


class VictimBundle(Struct, frozen=True):
    """Pods of one group that are evicted together, or not at all."""

    group: PodGroup
    pods: tuple[Pod, ...]
    is_safe: bool


class GangVictims:
    """The bundles that one preemptor may evict for its gang."""

    def __init__(self, preemptor: Preemptor, donors: DonorQueues) -> None:
        self._preemptor = preemptor
        self._cluster = preemptor.cluster
        self._donors = donors
        self._candidates = VictimCandidates(preemptor)
        self._protection = VictimProtection(preemptor)
        arguments = preemptor.cluster.policy.action_arguments
        self._evicts_whole_gangs = arguments.of_gangs(preemptor.action).evicts_whole_gangs

    def groups(self) -> Iterator[PodGroup]:
        """Yield the groups with possible victims: of lower priority in the queue, or of other queues."""
        cluster = self._cluster
        for name in self._queues():
            for key in cluster.queues[name].groups:
                if self._is_donor(cluster.groups[key]):
                    yield cluster.groups[key]

    def groups_on(self, nodes: Iterable[Node]) -> Iterator[PodGroup]:
        """Yield those of them with pods on some nodes."""
        cluster, names = self._cluster, dict.fromkeys(self._queues())
        keys = dict.fromkeys(cluster.pods[uid].group_key for node in nodes for uid in node.pods)
        for key in keys:
            group = cluster.groups.get(key)
            if group is not None and group.queue in names and self._is_donor(group):
                yield group

    def bundles(
        self, where: NodeScope, need: Amounts, groups: Iterable[PodGroup]
    ) -> list[VictimBundle]:
        """Return the bundles of these groups that free anything needed on the nodes of a domain, in eviction order."""
        found: list[tuple[Fraction, VictimBundle]] = []
        for group in groups:
            for one in self._bundles_of(group, where):
                worth = self._contribution(one, where, need)
                if worth:
                    found.append((worth, one))
        place = self._candidates.ranks([one.group for _, one in found])
        # Sort by the least significant key first: pods of a group, groups with the same rank, groups, kinds.
        found.sort(key=lambda one: one[1].group.task_key(one[1].pods[0]), reverse=True)
        rank: dict[tuple[str, bool], tuple[Fraction, int, str, str]] = {}
        for worth, one in found:
            key = (one.group.key, one.is_safe)
            most, _, node, _ = rank.get(key, (-worth, 0, one.pods[0].node, ""))
            # Groups of one age are ordered by node, so that whole nodes are freed.
            rank[key] = (min(most, -worth), -one.group.observed.created_ns, node, one.group.key)
        found.sort(key=lambda one: rank[one[1].group.key, one[1].is_safe])
        found.sort(key=lambda one: place[one[1].group.key], reverse=True)
        if self._cluster.plugins.orders_by_priority:
            found.sort(key=lambda one: one[1].group.priority)
        found.sort(key=lambda one: not one[1].is_safe)
        if self._preemptor.takes_protected:
            is_protected = self._protection.is_protected
            found.sort(key=lambda one: any(is_protected(pod) for pod in one[1].pods))
        return [one for _, one in found]

    def may_evict_all(self, bundle: VictimBundle) -> bool:
        """Return True if all pods of a bundle may be evicted, after those chosen already."""
        return len(self._protection.allowed(list(bundle.pods))) == len(bundle.pods)

    def freed(self, pods: Iterable[Pod], where: NodeScope) -> Amounts:
        """Return what the eviction of pods frees on the nodes of a domain."""
        total: Amounts = {}
        for pod in pods:
            node = self._cluster.nodes.nodes.get(pod.node)
            if node is not None and node.facts is not None and where.admits(node):
                add(total, pod.pod_class.request, 1)
        return total

    def _bundles_of(self, group: PodGroup, where: NodeScope) -> list[VictimBundle]:
        """Return the bundles of a group: its pods beyond minMember one by one, and all of its pods."""
        pods = [pod for pod in group.pods.values() if pod.status in ALLOCATED]
        near = [pod for pod in pods if self._may_evict(pod) and self.freed([pod], where)]
        spare = _surplus_pods(group, near)
        found = [VictimBundle(group, (pod,), True) for pod in spare]
        may_evict_group = len(spare) < len(pods) and all(self._may_evict(pod) for pod in pods)
        if self._evicts_whole_gangs and may_evict_group:
            found.append(VictimBundle(group, tuple(pods), False))
        return found

    def _queues(self) -> Sequence[str]:
        if self._preemptor.is_reclaiming:
            return self._donors.others(self._preemptor.queue.name)
        return (self._preemptor.queue.name,)

    def _is_donor(self, group: PodGroup) -> bool:
        ours = self._preemptor.group
        is_less = self._preemptor.is_reclaiming or group.priority < ours.priority
        return group is not ours and bool(group.counts.allocated) and is_less

    def _may_evict(self, pod: Pod) -> bool:
        if not self._candidates.may_be_victim(pod):
            return False
        return pod.status == RUNNING if self._preemptor.is_reclaiming else pod.status in EVICTABLE

    def _contribution(self, bundle: VictimBundle, where: NodeScope, need: Amounts) -> Fraction:
        """Return how much of what is needed a bundle frees: the sum over the resources of the fraction freed."""
        given = self.freed(bundle.pods, where)
        return sum(
            (Fraction(min(given.get(name, 0), most), most) for name, most in need.items()),
            Fraction(0),
        )


def _surplus_pods(group: PodGroup, pods: list[Pod]) -> list[Pod]:
    """Return the pods beyond minMember, the last first, by number and by role. A group with sub-groups has none."""
    if group.sub_groups is not None:
        return []
    count = group.counts.ready - group.counts.best_effort - group.observed.min_available
    roles = {
        role: group.ready_by_role.get(role, 0) - least
        for role, least in group.enforced_roles.items()
    }
    found: list[Pod] = []
    for pod in sorted(pods, key=group.task_key, reverse=True):
        role = pod.facts.role
        if len(found) < count and roles.get(role, 1) > 0:
            found.append(pod)
            if role in roles:
                roles[role] -= 1
    return found
