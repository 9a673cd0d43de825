"""Victim bundles: pods that are evicted together, so that no gang loses some pods and keeps the rest without use.

A pod beyond minMember of its gang is a bundle of its own (*safe*); all pods of a gang are another (*whole*). Safe
bundles come first; then those of groups of the lowest priority, of whichever queue; then those of groups last in job order;
then those that free more of what is needed. A pod
that may not be evicted (PodDisruptionBudget, victim plugins, annotation) protects its whole bundle. Where protected pods may be
evicted, bundles with any come last.
"""

from collections.abc import Iterable, Iterator
from fractions import Fraction

from msgspec import Struct

from projections.cluster import Cluster
from projections.nodes import Node
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import ALLOCATED, RUNNING, Pod
from projections.preemption_triggers import EVICTABLE
from projections.queues import add
from scheduling.topology.node_scope import NodeScope
from scheduling.victim_eligibility import counts_priority
from scheduling.victims.candidates import may_be_victim, victim_order
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.protection import allowed_victims, is_protected


class VictimBundle(Struct, frozen=True):
    """Pods of one group that are evicted together, or not at all."""

    group: PodGroup
    pods: tuple[Pod, ...]
    is_safe: bool


def victim_bundles(
    preemptor: Preemptor, where: NodeScope, need: Amounts, groups: Iterable[PodGroup]
) -> list[VictimBundle]:
    """Return the bundles of these groups that free anything needed on the nodes of a domain, in eviction order."""
    ganging = preemptor.policy.action_arguments.of_gangs(preemptor.action)
    found: list[tuple[Fraction, VictimBundle]] = []
    for group in groups:
        pods = [pod for pod in group.pods.values() if pod.status in ALLOCATED]
        near = [
            pod
            for pod in pods
            if _may_evict(preemptor, pod) and freed_resources(preemptor.cluster, [pod], where)
        ]
        spare = _surplus_pods(group, near)
        whole = [VictimBundle(group, tuple(pods), False)] if ganging.evicts_whole_gangs else []
        if any(not _may_evict(preemptor, pod) for pod in pods) or len(spare) == len(pods):
            whole = []
        every = (*(VictimBundle(group, (pod,), True) for pod in spare), *whole)
        found += [(_contribution(preemptor, one, where, need), one) for one in every]
    found = [one for one in found if one[0]]
    place = victim_order(preemptor, [one.group for _, one in found])
    # Sort by the least significant key first: pods of a group, groups with the same rank, groups, kinds.
    found.sort(key=lambda one: one[1].group.task_key(one[1].pods[0]), reverse=True)
    rank: dict[tuple[str, bool], tuple[Fraction, int, str, str]] = {}
    for worth, one in found:
        key = (one.group.key, one.is_safe)
        most, _, node, _ = rank.get(key, (-worth, 0, one.pods[0].node, ""))
        # Groups of one age are ordered by node, so that whole nodes are freed.
        rank[key] = (min(most, -worth), -one.group.created_ns, node, one.group.key)
    found.sort(key=lambda one: rank[one[1].group.key, one[1].is_safe])
    found.sort(key=lambda one: place[one[1].group.key], reverse=True)
    if counts_priority(preemptor.cluster):
        found.sort(key=lambda one: one[1].group.priority)
    found.sort(key=lambda one: not one[1].is_safe)
    if preemptor.takes_protected:
        found.sort(key=lambda one: any(is_protected(preemptor, pod) for pod in one[1].pods))
    return [one for _, one in found]


def may_evict_all(preemptor: Preemptor, bundle: VictimBundle) -> bool:
    """Return True if all pods of a bundle may be evicted, after those chosen already."""
    return len(allowed_victims(preemptor, list(bundle.pods))) == len(bundle.pods)


def donor_groups(preemptor: Preemptor) -> Iterator[PodGroup]:
    """Yield the groups with possible victims: of lower priority in the queue, or of other queues."""
    cluster = preemptor.cluster
    for name in _queues(preemptor):
        for key in cluster.queues[name].groups:
            if _is_donor(preemptor, cluster.groups[key]):
                yield cluster.groups[key]


def donor_groups_on(preemptor: Preemptor, nodes: Iterable[Node]) -> Iterator[PodGroup]:
    """Yield those of them with pods on some nodes."""
    cluster, names = preemptor.cluster, dict.fromkeys(_queues(preemptor))
    keys = dict.fromkeys(cluster.pods[uid].group_key for node in nodes for uid in node.pods)
    for key in keys:
        group = cluster.groups.get(key)
        if group is not None and group.queue in names and _is_donor(preemptor, group):
            yield group


def _queues(preemptor: Preemptor) -> list[str]:
    if preemptor.is_reclaiming:
        return list(preemptor.session.donors.others(preemptor.queue.name))
    return [preemptor.queue.name]


def _is_donor(preemptor: Preemptor, group: PodGroup) -> bool:
    is_less = preemptor.is_reclaiming or group.priority < preemptor.group.priority
    return group is not preemptor.group and bool(group.counts.allocated) and is_less


def _may_evict(preemptor: Preemptor, pod: Pod) -> bool:
    if not may_be_victim(preemptor, pod) or pod.facts.uid in preemptor.cluster.eviction_backoff:
        return False
    return pod.status == RUNNING if preemptor.is_reclaiming else pod.status in EVICTABLE


def _surplus_pods(group: PodGroup, pods: list[Pod]) -> list[Pod]:
    """Return the pods beyond minMember, the last first, by number and by role. A group with sub-groups has none."""
    if group.sub_groups is not None:
        return []
    count = group.counts.ready - group.counts.best_effort - group.min_available
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


def _contribution(
    preemptor: Preemptor, bundle: VictimBundle, where: NodeScope, need: Amounts
) -> Fraction:
    """Return how much of what is needed a bundle frees: the sum over the resources of the fraction freed."""
    given = freed_resources(preemptor.cluster, bundle.pods, where)
    return sum(
        (Fraction(min(given.get(name, 0), most), most) for name, most in need.items()), Fraction(0)
    )


def freed_resources(cluster: Cluster, pods: Iterable[Pod], where: NodeScope) -> Amounts:
    """Return what the eviction of pods frees on the nodes of a domain."""
    total: Amounts = {}
    for pod in pods:
        node = cluster.nodes.nodes.get(pod.node)
        if node is not None and node.facts is not None and where.admits(node):
            add(total, pod.pod_class.request, 1)
    return total
