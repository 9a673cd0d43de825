"""Determine which groups `preempt` and `reclaim` may evict pods for, and record when victims change.

A group is a preemptor after `allocate` refused it for lack of resources or quota, as long as it is starving. It
then also waits for pods that can newly be evicted.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from projections import eviction_pauses
from projections.plugin import JobStarving, PluginSet
from projections.pod_groups import EquivalenceKey, PodGroup
from projections.pods import ALLOCATED, BOUND, RUNNING, Pod
from projections.policy.job_bounds import SYSTEM_PRIORITY_MIN
from projections.policy.policy import EVICTING, GANG_EVICTING
from projections.refusals import NODE_CODES
from projections.session_priority import bounded_priority, report_cut

if TYPE_CHECKING:
    from projections.cluster import Cluster


class PriorityClass(Struct, frozen=True):
    """What a PriorityClass states."""

    value: int = 0
    is_default: bool = False
    """Whether it is the global default."""
    never_preempts: bool = False
    """Whether no pod is evicted for pods and pod groups that name it (preemptionPolicy Never)."""


PREEMPTION_CODES: Final = NODE_CODES | {
    "InsufficientCPUQuota",
    "InsufficientMemoryQuota",
    "InsufficientScalarQuota",
}
"""Refusals by `allocate` that an eviction could clear."""

EVICTABLE: Final = (BOUND, RUNNING)
"""Statuses in which a pod may be evicted: placed on its node, not binding and not terminating."""


def is_starving(plugins: PluginSet, group: PodGroup, placed: int = 0) -> bool:
    """Return whether the group has too few pods, so that others may be evicted for it. `placed` pods count as
    provided.

    In the first tier with plugins that decide it, all must agree.
    """
    have = group.counts.ready - group.counts.best_effort + len(group.decided.nominations) + placed
    for tier in plugins.tiers_of(JobStarving):
        return all(one.is_starving(group, have) for one in tier)
    return False


def eviction_keys(
    cluster: "Cluster", group: PodGroup, step: tuple[object, ...] | None
) -> tuple[EquivalenceKey, ...]:
    """Return the keys under which a group waits for evicting actions. `step` is its next step, if other groups
    share it. None while its tenant has used up its share of evictions.

    A group with pods on nodes is never equivalent to another, because its own pods may be evicted. No pod is
    preempted for groups with a network topology (volcano B.11). For a hard topology only the gang actions evict;
    for groups with sub-groups none does, because the freed resources might be in the wrong place.
    """
    actions = cluster.policy.evicting
    if not actions or group.denied is not None:
        return ()
    if eviction_pauses.until_ns(cluster, group.key, group.queue) is not None:
        return ()
    refusal = group.decided.refusals.get("allocate") if group.pending_classes else None
    if refusal is None and group.counts.best_effort:
        # For best-effort pods only other best-effort pods are preempted.
        refusal = group.decided.refusals.get("backfill")
        actions = tuple([one for one in actions if one == "preempt"])
    if (
        refusal is None
        or refusal.code not in PREEMPTION_CODES
        or not is_starving(cluster.plugins, group)
    ):
        return ()
    closeness = group.topology_constraint
    if group.sub_groups is not None:
        return ()
    if closeness is not None and closeness.is_hard:
        actions = tuple([one for one in actions if one in GANG_EVICTING])
    elif closeness is not None:
        actions = tuple([one for one in actions if one != "preempt"])
    alike: tuple[object, ...] = ("alone", group.key)
    if step is not None and not group.counts.allocated and group.key not in cluster.victim_waits:
        alike = (*step, group.priority, never_preempts(cluster, group))
    return tuple((action, alike) for action in actions)


def without_evicting(keys: tuple[EquivalenceKey, ...]) -> tuple[EquivalenceKey, ...]:
    """Return the keys of actions that use free resources, without those of evicting actions."""
    return tuple([key for key in keys if key[0] not in EVICTING])


def record_victim_added(cluster: "Cluster", group: PodGroup, old: Pod | None, new: Pod) -> None:
    """Record that a pod may newly be evicted, under a policy that evicts."""
    status, facts = new.status, new.facts
    if status not in EVICTABLE:
        return
    may_be = (status, facts.is_evictable, facts.is_protected)
    if old is not None and may_be == (
        old.status,
        old.facts.is_evictable,
        old.facts.is_protected,
    ):
        return
    arrived = cluster.wakeup_events.victims_added
    arrived[group.queue] = min(group.priority, arrived.get(group.queue, group.priority))
    cluster.nodes.invalidate(new.node)


def update_preemption_state(cluster: "Cluster", group: PodGroup) -> None:
    """Update what preemptors read of a group: its priority (of its priority class, if it has an object), and
    whether it has more pods than its minimum."""
    observed = group.observed
    priority = observed.stated_priority
    is_cut = group.priority != priority
    if observed.facts is not None:
        stated = priority_of(cluster.priority_classes, observed.facts.priority_class)
        if stated != priority:
            priority = stated
            group.observed = structs.replace(observed, stated_priority=stated)
    if is_cut or priority > SYSTEM_PRIORITY_MIN or cluster.policy.bounds_priorities:
        priority, cut = bounded_priority(cluster, group, priority)
        report_cut(cluster, group, cut)
    has_surplus = group.counts.ready - group.counts.best_effort > group.observed.min_available
    if priority != group.priority:
        queue = cluster.queues[group.queue]
        for pod in [one for one in group.pods.values() if one.status in ALLOCATED]:
            queue.add_evictable(pod, group.priority, -1)
            queue.add_evictable(pod, priority, 1)
    if (priority, has_surplus) != (group.priority, group.has_surplus):
        group.priority, group.has_surplus = priority, has_surplus
        invalidate_victims(cluster, group)
    if group.counts.allocated and cluster.policy.evicting:
        _invalidate_on_gang_change(cluster, group)


def _invalidate_on_gang_change(cluster: "Cluster", group: PodGroup) -> None:
    """Invalidate cached searches on the nodes of a group when it has more or fewer pods to lose."""
    fingerprint = (
        group.counts.ready,
        group.counts.best_effort,
        group.observed.min_available,
        *group.held.items(),
    )
    if fingerprint == group.victim_fingerprint:
        return
    group.victim_fingerprint = fingerprint
    if group.counts.allocated > 1:
        cluster.nodes.gang_version += 1
    else:
        for pod in group.pods.values():
            if pod.node:
                cluster.nodes.invalidate(pod.node)


def invalidate_victims(cluster: "Cluster", group: PodGroup) -> None:
    """Invalidate cached searches on the nodes of a group, because the set of its possible preemptors changed."""
    if not group.counts.allocated or not cluster.policy.evicting:
        return
    arrived = cluster.wakeup_events.victims_added
    arrived[group.queue] = min(group.priority, arrived.get(group.queue, group.priority))
    for pod in group.pods.values():
        if pod.node:
            cluster.nodes.invalidate(pod.node)


def priority_of(classes: dict[str, PriorityClass], name: str) -> int:
    """Return the value of a priority class; of the default class if it is unknown or empty; else 0."""
    if name in classes:
        return classes[name].value
    return max((one.value for one in classes.values() if one.is_default), default=0)


def never_preempts(cluster: "Cluster", group: PodGroup) -> bool:
    """Return whether no pod is evicted for a group, because the priority class that its object names says so."""
    if group.observed.facts is None or not group.observed.facts.priority_class:
        return False
    named = cluster.priority_classes.get(group.observed.facts.priority_class)
    return named is not None and named.never_preempts
