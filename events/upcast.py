"""Old shapes to the present one. A row is never updated; it is read differently.

One pure function a shape that is no longer written. A chain of them leads every old kind to a kind
that `events/codec.py` decodes.
"""

from collections.abc import Callable
from typing import TypeAlias

from events import requeue
from events.requeue import quota_events

Fields: TypeAlias = dict[str, object]
Upcaster: TypeAlias = Callable[[Fields], tuple[str, Fields]]


def _cycle_opened_v1(fields: Fields) -> tuple[str, Fields]:
    """The first cycles did not say which version of the code decided."""
    return "cycle_opened.v2", {**fields, "decider": 0}


def _queue_faulted_v1(fields: Fields) -> tuple[str, Fields]:
    """Now `config_invalid.v1`: invalid fields of queues were a kind of their own."""
    fields = dict(fields)
    return "config_invalid.v1", {"subject": f"Queue//{fields.pop('queue', '')}", **fields}


def _refusal_decided_v1(fields: Fields) -> tuple[str, Fields]:
    """Now `pod_group_unschedulable.v1`: what could change the answer followed from the code and some hints."""
    kept = {name: value for name, value in fields.items() if name not in ("barred", "lacks_node")}
    renamed = {_RENAMED.get(name, name): value for name, value in kept.items()}
    return "pod_group_unschedulable.v1", {**renamed, "requeue_on": _requeue_on(fields)}


def _requeue_on(fields: Fields) -> tuple[str, ...]:
    """Return the events that could change a refusal; those that depended on the policy are not known."""
    code, limit, barred = fields.get("code"), fields.get("limit", ""), fields.get("barred", ())
    quotas = quota_events([str(one) for one in barred]) if isinstance(barred, list) else ()
    room = requeue.ROOM if fields.get("lacks_node") else ()
    match code:
        case "NotEnoughResources":
            updated = (requeue.NODE_UPDATED,) if fields.get("is_hopeless") else ()
            return (*requeue.ROOM, *updated, *quotas)
        case "InsufficientCPUQuota" | "InsufficientMemoryQuota" | "InsufficientScalarQuota":
            return (*quota_events([str(limit)]), *quotas, *room)
        case "ResourceOverused":
            return (f"{requeue.CLUSTER_QUOTA}{limit}",)
        case "GetTaskRequestResourceFailed" | "UnnamedCard":
            return (requeue.ANY_NODE, *quotas, *room)
        case "NoVictims" | "NotEntitled" if fields.get("action") in ("reclaim", "gangreclaim"):
            return (requeue.VICTIMS_OF_OTHERS, *quotas)
        case "NoVictims" | "NotEntitled":
            any_quota = (requeue.ANY_QUOTA,) if fields.get("action") == "gangpreempt" else ()
            return (requeue.VICTIMS_OF_QUEUE, requeue.PODS_CHANGED, *any_quota, *quotas)
        case "TopologyNotReady" | "UnknownTier":
            return (requeue.HYPER_NODES,)
        case "TooManyUnlikePods":
            return (requeue.CLASS_BUDGET,)
        case (
            "EmptyQueueCapability"
            | "QueueMisplaced"
            | "QueueNotFound"
            | "QueueNotLeaf"
            | "QueueNotOpen"
        ):
            return (requeue.QUEUE_UPDATED,)
        case _:
            return (*quotas, *room)


def _search_deferred_v1(fields: Fields) -> tuple[str, Fields]:
    """The quotas that refused pods are now among the events that could change the result."""
    found = _requeue_on({**fields, "code": "NoVictims"})
    kept = {name: value for name, value in fields.items() if name != "barred"}
    return "search_deferred.v2", {**kept, "requeue_on": found}


def _renamed(kind: str) -> Upcaster:
    def renamed(fields: Fields) -> tuple[str, Fields]:
        return kind, fields

    renamed.__doc__ = f"Now `{kind}`."
    return renamed


_RENAMED = {
    "is_hopeless": "never_fits",
    "is_shut": "fits_only_closed_nodes",
}

_OBSERVED = (
    "node",
    "pod",
    "pod_group",
    "queue",
    "priority_class",
    "namespace",
    "workload",
    "pod_disruption_budget",
    "hyper_node",
    "config_map",
)
"""Kinds of objects that had kinds of records of their own."""

UPCASTERS: dict[str, Upcaster] = {
    "cycle_opened.v1": _cycle_opened_v1,
    "queue_faulted.v1": _queue_faulted_v1,
    "object_faulted.v1": _renamed("config_invalid.v1"),
    "refusal_decided.v1": _refusal_decided_v1,
    "search_deferred.v1": _search_deferred_v1,
    "status_told.v1": _renamed("status_updated.v1"),
    "status_not_told.v1": _renamed("status_update_failed.v1"),
    **{f"{one}_observed.v1": _renamed("object_observed.v1") for one in _OBSERVED},
    **{f"{one}_deleted.v1": _renamed("object_deleted.v1") for one in _OBSERVED},
}
"""Old kind to the function that makes the next shape of it."""
