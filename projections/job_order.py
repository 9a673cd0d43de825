"""Compute the place of a pod group in the job order, and the keys under which it waits."""

from collections.abc import Callable
from typing import Final

from projections import quota_charging
from projections.overcommit import min_resources_of
from projections.pod_class import Amounts
from projections.pod_groups import WAITING, EquivalenceKey, PodGroup
from projections.preemption_triggers import eviction_keys
from projections.quota_charging import QuotaState
from projections.shares import dominant
from projections.sla import deadline_of, is_overdue


def job_order(cluster: QuotaState, group: PodGroup) -> tuple[object, ...]:
    """Return the sort key of a group in its queue: the values of the plugins, then age, UID and name."""
    values = tuple([_PLUGINS[plugin](cluster, group) for plugin in cluster.policy.job_order])
    return (*values, group.created_ns, group.uid, group.key)


def _priority(cluster: QuotaState, group: PodGroup) -> object:
    return -group.priority


def _gang(cluster: QuotaState, group: PodGroup) -> object:
    return group.is_ready


def _drf(cluster: QuotaState, group: PodGroup) -> object:
    return dominant(group.held, cluster.cluster_totals.totals) if group.held else 0


def _sla(cluster: QuotaState, group: PodGroup) -> object:
    deadline = deadline_of(cluster, group)
    return (1, 0) if deadline is None else (0, deadline)


_PLUGINS: Final[dict[str, Callable[[QuotaState, PodGroup], object]]] = {
    "priority": _priority,
    "gang": _gang,
    "drf": _drf,
    "sla": _sla,
}
"""Sort value of a group by plugin; smaller is earlier."""


def equivalence_keys(cluster: QuotaState, group: PodGroup) -> tuple[EquivalenceKey, ...]:
    """Return the equivalence keys under which a group waits; none if it waits for nothing."""
    if group.is_foreign:
        return ()
    alone: tuple[object, ...] = ("alone", group.key)
    if group.phase == WAITING and "enqueue" in cluster.policy.actions:
        if group.facts is None and not group.pending:
            return ()
        return (("enqueue", alone if group.problem else _admission(cluster, group)),)
    if group.phase == WAITING and group.facts is not None and not group.pending:
        return (("allocate", alone if group.problem else ("admit",)),)
    keys: list[EquivalenceKey] = []
    step: tuple[object, ...] | None = None
    if group.pending_classes:
        step = _next_step(group)
        if step is not None and is_overdue(cluster, group):
            step = ("overdue", *step)
        keys.append(("allocate", step or alone))
    keys += eviction_keys(cluster, group, step)
    if group.best_effort_count:
        keys.append(("backfill", alone))
    return tuple(keys)


def _admission(cluster: QuotaState, group: PodGroup) -> tuple[object, ...]:
    """Return a key that is equal for groups that are admitted alike: minimum request, whether overdue, and the
    priority if pods may be evicted for them."""
    if cluster.policy.preempts:
        return (group.priority, *_least(cluster, group))
    return _least(cluster, group)


def _least(cluster: QuotaState, group: PodGroup) -> tuple[object, ...]:
    key = _amounts(quota_charging.min_request(cluster, group))
    if cluster.policy.overcommit is not None:
        key = (*key, _amounts(min_resources_of(cluster, group)))
    return ("overdue", *key) if is_overdue(cluster, group) else key


def _amounts(least: Amounts | None) -> tuple[object, ...]:
    return ("free",) if least is None else ("least", tuple(sorted(least.items())))


def _next_step(group: PodGroup) -> tuple[object, ...] | None:
    """Return a key that is equal for groups whose next step has the same request; None if no other group can be
    equivalent."""
    if len(group.pending_classes) != 1 or group.best_effort_count or group.nominations:
        return None
    if group.enforced_roles or group.problem or not group.has_enough_pods:
        return None
    if group.sub_groups is not None or (
        group.topology_constraint is not None and group.allocated_count
    ):
        return None
    [index] = group.pending_classes
    close = () if group.topology_constraint is None else (group.topology_constraint,)
    if group.is_ready_with(1, {}):
        return ("one", index, group.phase, *close)
    missing = group.min_available - group.ready_count
    return ("gang", index, missing, len(group.pending), group.phase, *close)
