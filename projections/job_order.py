"""Compute the place of a pod group in the job order, and the keys under which it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections import quota_charging
from projections.pod_groups import WAITING, EquivalenceKey, PodGroup
from projections.pod_waits import takes_no_reservation
from projections.policy.pools import POOL_ACTION
from projections.preemption_triggers import eviction_keys, never_preempts

if TYPE_CHECKING:
    from projections.cluster import Cluster


def job_order(cluster: Cluster, group: PodGroup) -> tuple[object, ...]:
    """Return the sort key of a group in its queue: whether it comes last because its pods did not come, the values of
    the plugins, then age, namespace and name."""
    is_last = cluster.pod_waits.comes_last(group.key)
    return (is_last, *order_values(cluster, group), group.observed.created_ns, group.key)


def order_values(cluster: Cluster, group: PodGroup) -> tuple[object, ...]:
    """Return the values of the plugins in the sort key of a group."""
    return tuple([one.job_order(cluster, group) for one in cluster.plugins.job_order])


def equivalence_keys(cluster: Cluster, group: PodGroup) -> tuple[EquivalenceKey, ...]:
    """Return the equivalence keys under which a group waits; none if it waits for nothing."""
    if group.is_foreign:
        return ()
    alone: tuple[object, ...] = ("alone", group.key)
    pools, members = cluster.policy.pools, cluster.features.pool_members
    if pools.is_plain or members is None:
        return _session_keys(cluster, group, alone)
    pool = members.groups(cluster).get(group.key, "")
    found = pools.named(pool) if pool else None
    if found is None or not found.is_session:
        waits = group.pending or (
            group.decided.phase == WAITING and group.observed.facts is not None
        )
        return ((POOL_ACTION, alone),) if waits else ()
    keys = _session_keys(cluster, group, alone)
    return tuple([(action, ("pool", pool, *key)) for action, key in keys])


def _session_keys(
    cluster: Cluster, group: PodGroup, alone: tuple[object, ...]
) -> tuple[EquivalenceKey, ...]:
    """Return the keys of a group that is decided by actions."""
    has_problem = group.problem is not None
    is_alone = has_problem or (
        cluster.policy.reschedules and group.key in cluster.reschedulings.restarts
    )
    if group.decided.phase == WAITING and "enqueue" in cluster.policy.actions:
        if group.observed.facts is None and not group.pending:
            return ()
        return (("enqueue", alone if is_alone else _admission(cluster, group)),)
    if group.decided.phase == WAITING and group.observed.facts is not None and not group.pending:
        return (("allocate", alone if has_problem else ("admit",)),)
    keys: list[EquivalenceKey] = []
    step: tuple[object, ...] | None = None
    if group.pending_classes:
        step = None if is_alone else _next_step(group)
        if step is not None:
            step = (*_of_plugins(cluster, group, enqueues=False), *step)
        keys.append(("allocate", step or alone))
    keys += eviction_keys(cluster, group, step)
    if group.counts.best_effort:
        keys.append(("backfill", alone))
    return tuple(keys)


def _admission(cluster: Cluster, group: PodGroup) -> tuple[object, ...]:
    """Return a key that is equal for groups that are admitted alike: what they ask for, whether overdue, which
    reservations may yield to them, and, if pods may be evicted, the priority and whether none is evicted for them."""
    never: tuple[object, ...] = ()
    if (
        group.observed.facts is not None
        and cluster.policy.evicting
        and never_preempts(cluster, group)
    ):
        never = ("never",)
    rank: tuple[object, ...] = ()
    if cluster.pod_waits.comes_last(group.key):
        rank = ("last",)
    if group.observed.facts is not None and takes_no_reservation(group):
        rank = (*rank, "empty")
    least = quota_charging.admission_key(cluster, group)
    if cluster.plugins.group_state:
        least = (*_of_plugins(cluster, group, enqueues=True), *least)
    # The head of a class has the highest priority only if that is compared first.
    if cluster.policy.preempts or cluster.plugins.orders_later_by_priority:
        return (*rank, group.priority, *never, *least)
    return (*rank, *never, *least)


def _of_plugins(cluster: Cluster, group: PodGroup, *, enqueues: bool) -> tuple[object, ...]:
    """Return what distinguishes groups that a plugin does not treat alike."""
    plugins = cluster.plugins.group_state
    keys = [one.equivalence_key(cluster, group, enqueues=enqueues) for one in plugins]
    return tuple([part for key in keys for part in key])


def _next_step(group: PodGroup) -> tuple[object, ...] | None:
    """Return a key that is equal for groups whose next step has the same request; None if no other group can be
    equivalent."""
    if not _has_plain_step(group):
        return None
    constraint = group.topology_constraint
    [index] = group.pending_classes
    close: tuple[object, ...] = () if constraint is None else (constraint,)
    if (devices := group.device_job) is not None:
        close = (*close, devices)
    if group.is_ready_with(1, {}):
        return ("one", index, group.decided.phase, *close)
    missing = group.observed.min_available - group.counts.ready
    return ("gang", index, missing, len(group.pending), group.decided.phase, *close)


def _has_plain_step(group: PodGroup) -> bool:
    """Return whether what the next step of a group needs follows from one class of pods and their number."""
    if len(group.pending_classes) != 1 or group.counts.best_effort or group.decided.nominations:
        return False
    if group.enforced_roles or not group.has_enough_pods:
        return False
    return group.sub_groups is None and not (
        group.topology_constraint is not None and group.counts.allocated
    )


def needs_one_pod(cluster: Cluster, group: PodGroup) -> bool:
    """Return whether a group needs one pod more, and all groups under its key of allocation need an equal one."""
    is_alone = group.problem is not None or group.key in cluster.reschedulings.restarts
    return not is_alone and _has_plain_step(group) and group.is_ready_with(1, {})
