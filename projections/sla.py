"""Keep the waiting time of pod groups (Volcano's `sla`) and the time-out of their reservations.

    deadline = creation + waiting time of the group or of the owner of its pods, else of the policy

A deadline makes a cycle due. After it the group is overdue, and `sla` admits it.

A group keeps its reservation for RESERVATION_TIMEOUT_NS while too many of the nodes that could run its pods are
closed to them. Then it is tried once more; if nothing has changed, it waits without a reservation.
"""

from itertools import takewhile
from typing import Final, Protocol

from msgspec import structs

from projections.group_facts import WAITING_TIME, waiting_time
from projections.pod_groups import WAITING, PodGroup, Refusal
from projections.quota_charging import QuotaState
from projections.wakeup_events import WakeupEvents

RESERVATION_TIMEOUT_NS: Final = 300_000_000_000
"""Time until a group loses its reservation."""


class SlaState(QuotaState, Protocol):
    """The part of the cluster in which deadlines are kept."""

    groups: dict[str, PodGroup]
    wakeup_events: WakeupEvents
    position: int

    def update_group(self, group: PodGroup) -> None:
        """Recompute what follows from a group's pods."""


def deadline_of(cluster: QuotaState, group: PodGroup) -> int | None:
    """Return the end of the waiting time of a group; None if it has none."""
    rules = cluster.policy.sla
    if rules is None:
        return None
    stated = _of_owner(cluster, group) if group.facts is None else group.facts.waiting_ns
    waiting = rules.waiting_ns if stated is None else stated
    return None if waiting is None else group.created_ns + waiting


def _of_owner(cluster: QuotaState, group: PodGroup) -> int | None:
    """Return the waiting time in the annotation of the owner, for a group without an object."""
    annotations = cluster.owners.get(group.key.partition("/podgroup-")[2])
    return None if annotations is None else waiting_time(annotations.get(WAITING_TIME))[0]


def is_overdue(cluster: QuotaState, group: PodGroup) -> bool:
    """Return whether the waiting time of the group is over."""
    return group.key in cluster.cluster_totals.overdue


def update_deadline(cluster: QuotaState, group: PodGroup) -> None:
    """Update the deadline of a group that waits for something."""
    cluster_totals = cluster.cluster_totals
    if group.key in cluster_totals.reservation_timeouts and not _keeps_reservation(
        group.refusals.get("allocate")
    ):
        del cluster_totals.reservation_timeouts[group.key]
    if cluster.policy.sla is None and not cluster_totals.deadlines and not cluster_totals.overdue:
        return
    deadline = deadline_of(cluster, group)
    if cluster_totals.overdue.get(group.key, deadline) != deadline:
        del cluster_totals.overdue[group.key]
    waits = (group.phase == WAITING or bool(group.pending)) and not group.is_foreign
    if deadline is not None and waits and group.key not in cluster_totals.overdue:
        cluster_totals.deadlines[group.key] = deadline
    else:
        cluster_totals.deadlines.pop(group.key, None)


def _keeps_reservation(refusal: Refusal | None) -> bool:
    return refusal is not None and refusal.fits_only_closed_nodes and not refusal.never_fits


def start_reservation_timeout(
    cluster: QuotaState, group: PodGroup, refusal: Refusal, now_ns: int
) -> None:
    """Start the time-out of the reservation of a group that was refused because nodes are closed."""
    if (
        "enqueue" in cluster.policy.actions
        and _keeps_reservation(refusal)
        and not refusal.is_timed_out
    ):
        cluster.cluster_totals.reservation_timeouts.setdefault(
            group.key, now_ns + RESERVATION_TIMEOUT_NS
        )


def forget_deadlines(cluster: QuotaState, key: str) -> None:
    """Remove all deadlines of a deleted group."""
    cluster.cluster_totals.reservation_timeouts.pop(key, None)
    cluster.cluster_totals.deadlines.pop(key, None)
    cluster.cluster_totals.overdue.pop(key, None)


def expire_timeouts(cluster: SlaState, at_ns: int) -> None:
    """Apply the deadlines that are over."""
    cluster_totals = cluster.cluster_totals
    over = [
        (deadline, key) for key, deadline in cluster_totals.deadlines.items() if deadline <= at_ns
    ]
    for deadline, key in sorted(over):
        # Sorted, so that the order does not depend on when groups began to wait.
        del cluster_totals.deadlines[key]
        cluster_totals.overdue[key] = deadline
        cluster.update_group(cluster.groups[key])
    ended = takewhile(lambda one: one[1] <= at_ns, cluster_totals.reservation_timeouts.items())
    for key in [key for key, _ in ended]:
        group = cluster.groups[key]
        group.refusals["allocate"] = structs.replace(group.refusals["allocate"], is_timed_out=True)
        del cluster_totals.reservation_timeouts[key]
        cluster.wakeup_events.groups[key], group.cause = None, cluster.position
