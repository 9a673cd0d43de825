"""Who contends for room that others have: groups that `preempt` and `reclaim` may evict for, and whom.

A group contends once `allocate` has refused it for want of room or quota, as long as it starves. What it
asks for is evicted pods: so it waits for pods that come to stand where they may be evicted, too.
"""

from typing import Final, Protocol

from projections.disruption_budgets import Budgets
from projections.nodes import NodeTable
from projections.pod_groups import EquivalenceKey, PodGroup
from projections.pods import ALLOCATED, BOUND, RUNNING, Pod
from projections.policy import EVICTING, GANG_EVICTING, Policy
from projections.queues import Queue
from projections.quota_charging import QuotaState
from projections.refusals import NODE_CODES
from projections.wakeup_events import WakeupEvents

PREEMPTION_CODES: Final = NODE_CODES | {
    "InsufficientCPUQuota",
    "InsufficientMemoryQuota",
    "InsufficientScalarQuota",
}
"""Refusals by `allocate` that an eviction could end."""

EVICTABLE: Final = (BOUND, RUNNING)
"""Statuses in which a pod may be evicted: on its node, for all that is known, and not on its way there or away."""


LOWEST_PRIORITY: Final = -(1 << 63)
"""Lower than any priority."""


class PreemptionState(Protocol):
    """The part of the cluster that is noted in."""

    policy: Policy
    nodes: NodeTable
    wakeup_events: WakeupEvents
    queues: dict[str, Queue]
    budgets: Budgets
    priority_classes: dict[str, tuple[int, bool]]


def is_starving(policy: Policy, group: PodGroup, placed: int = 0) -> bool:
    """Whether the group lacks pods so that others may be evicted for it, `placed` pods being provided for.

    In the first tier with plugins that judge it all must say so (Volcano's `gang`: fewer pods than the
    gang needs; `priority`: fewer than there are).
    """
    have = group.ready_count - group.best_effort_count + len(group.nominations) + placed
    for tier in policy.tiers:
        judges = [one.name for one in tier if one.takes_part("enableJobStarving")]
        said = [
            have < (group.min_available if name == "gang" else len(group.pods))
            for name in judges
            if name in ("gang", "priority")
        ]
        if said:
            return all(said)
    return False


def eviction_keys(
    cluster: QuotaState, group: PodGroup, step: tuple[object, ...] | None
) -> tuple[EquivalenceKey, ...]:
    """The lines of evicting actions in which a group waits. `step` is its next step, if others have the same.

    A group with pods of its own on nodes is like no other: they, too, may be evicted for it. For groups with
    a network topology nobody is preempted (volcano B.11); for those that must be close only actions for whole
    gangs evict, and for those with sub-groups none does: room would be made where it does not help.
    """
    actions = cluster.policy.evicting
    if not actions:
        return ()
    refusal = group.refusals.get("allocate") if group.pending_classes else None
    if refusal is None and group.best_effort_count:
        # For pods that ask for nothing but a place only others like them are preempted.
        refusal = group.refusals.get("backfill")
        actions = tuple([one for one in actions if one == "preempt"])
    if (
        refusal is None
        or refusal.code not in PREEMPTION_CODES
        or not is_starving(cluster.policy, group)
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
    if step is not None and not group.allocated_count:
        alike = (*step, group.priority)
    return tuple((action, alike) for action in actions)


def without_evicting(keys: tuple[EquivalenceKey, ...]) -> tuple[EquivalenceKey, ...]:
    """The lines in which a group asks for room that is there: not those of evicting actions."""
    return tuple([key for key in keys if key[0] not in EVICTING])


def record_victim_added(
    cluster: PreemptionState, group: PodGroup, old: Pod | None, new: Pod
) -> None:
    """A pod may have come to stand where it can be evicted."""
    if not cluster.policy.evicting:
        return
    status, is_evictable = new.status, new.facts.is_evictable
    if status not in EVICTABLE:
        return
    if old is not None and (old.status, old.facts.is_evictable) == (status, is_evictable):
        return
    arrived = cluster.wakeup_events.victims_added
    arrived[group.queue] = min(group.priority, arrived.get(group.queue, group.priority))
    cluster.nodes.invalidate(new.node)


def update_budgets(cluster: PreemptionState, old: Pod | None, new: Pod | None) -> None:
    """A pod came, changed or went: others may leave that their budgets held."""
    if cluster.budgets.shift(old, new):
        wake_preemptors(cluster)


def wake_preemptors(cluster: PreemptionState) -> None:
    """Who is held back from leaving has changed."""
    for queue in cluster.queues if cluster.policy.evicting else ():
        cluster.wakeup_events.victims_added[queue] = LOWEST_PRIORITY


def update_preemption_state(cluster: PreemptionState, group: PodGroup) -> None:
    """Bring in line what others look at when they contend for the room of a group: its priority (that of
    its class, where it has an object), and whether it has pods to spare."""
    priority = group.priority
    if group.facts is not None:
        priority = priority_of(cluster.priority_classes, group.facts.priority_class)
    has_surplus = group.ready_count - group.best_effort_count > group.min_available
    if priority != group.priority:
        queue = cluster.queues[group.queue]
        for pod in [one for one in group.pods.values() if one.status in ALLOCATED]:
            queue.add_evictable(pod, group.priority, -1)
            queue.add_evictable(pod, priority, 1)
    if (priority, has_surplus) != (group.priority, group.has_surplus):
        group.priority, group.has_surplus = priority, has_surplus
        invalidate_victims(cluster, group)
    if cluster.policy.evicting and group.allocated_count:
        _invalidate_on_gang_change(cluster, group)


def _invalidate_on_gang_change(cluster: PreemptionState, group: PodGroup) -> None:
    """Whoever looked at nodes of the group must look again where it has more or less to lose than before."""
    stake = (group.ready_count, group.best_effort_count, group.min_available, *group.held.items())
    if stake == group.victim_fingerprint:
        return
    group.victim_fingerprint = stake
    if group.allocated_count > 1:
        cluster.nodes.gang_version += 1
    else:
        for pod in group.pods.values():
            if pod.node:
                cluster.nodes.invalidate(pod.node)


def invalidate_victims(cluster: PreemptionState, group: PodGroup) -> None:
    """Who may evict the pods of this group has changed: look again at the nodes they are on."""
    if not group.allocated_count or not cluster.policy.evicting:
        return
    arrived = cluster.wakeup_events.victims_added
    arrived[group.queue] = min(group.priority, arrived.get(group.queue, group.priority))
    for pod in group.pods.values():
        if pod.node:
            cluster.nodes.invalidate(pod.node)


def priority_of(classes: dict[str, tuple[int, bool]], name: str) -> int:
    """The value of a priority class; of the default class where it is unknown or empty; else 0."""
    if name in classes:
        return classes[name][0]
    return max((value for value, is_default in classes.values() if is_default), default=0)
