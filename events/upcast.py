"""Old shapes to the present one. A row is never updated; it is read differently.

One pure function a shape that is no longer written. A chain of them leads every old kind to a kind
that `events/codec.py` decodes.
"""

from collections.abc import Callable
from typing import TypeAlias

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
    """Now `pod_group_unschedulable.v1`: the requeue hints had other names."""
    renamed = {_HINTS.get(name, name): value for name, value in fields.items()}
    return "pod_group_unschedulable.v1", renamed


def _renamed(kind: str) -> Upcaster:
    def renamed(fields: Fields) -> tuple[str, Fields]:
        return kind, fields

    renamed.__doc__ = f"Now `{kind}`."
    return renamed


_HINTS = {
    "barred": "requeue_on_quota",
    "lacks_node": "requeue_on_node",
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
    "status_told.v1": _renamed("status_updated.v1"),
    "status_not_told.v1": _renamed("status_update_failed.v1"),
    **{f"{one}_observed.v1": _renamed("object_observed.v1") for one in _OBSERVED},
    **{f"{one}_deleted.v1": _renamed("object_deleted.v1") for one in _OBSERVED},
}
"""Old kind to the function that makes the next shape of it."""
