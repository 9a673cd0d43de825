"""Keep the time-outs of reservations of pod groups.

A group keeps its reservation for RESERVATION_TIMEOUT_NS while too many of the nodes that could run its pods are
closed to them. Then it is tried once more; if nothing has changed, it waits without a reservation.
"""

from itertools import takewhile
from typing import TYPE_CHECKING, Final

from msgspec import structs

from projections.group_rows import Refusal
from projections.pod_groups import PodGroup

if TYPE_CHECKING:
    from projections.cluster import Cluster

RESERVATION_TIMEOUT_NS: Final = 300_000_000_000
"""Time until a group loses its reservation."""


def update_reservation_timeout(cluster: "Cluster", group: PodGroup) -> None:
    """End the time-out of a group that is no longer refused because nodes are closed."""
    timeouts = cluster.cluster_totals.reservation_timeouts
    if group.key in timeouts and not _keeps_reservation(group.decided.refusals.get("allocate")):
        del timeouts[group.key]


def _keeps_reservation(refusal: Refusal | None) -> bool:
    return refusal is not None and refusal.fits_only_closed_nodes and not refusal.never_fits


def start_reservation_timeout(
    cluster: "Cluster", group: PodGroup, refusal: Refusal, now_ns: int
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


def expire_reservations(cluster: "Cluster", at_ns: int) -> None:
    """Apply the time-outs that are over."""
    timeouts = cluster.cluster_totals.reservation_timeouts
    ended = takewhile(lambda one: one[1] <= at_ns, timeouts.items())
    for key in [key for key, _ in ended]:
        group = cluster.pod_groups.own(cluster, key)
        refusal = structs.replace(group.decided.refusals["allocate"], is_timed_out=True)
        group.decided = structs.replace(
            group.decided.with_refusal("allocate", refusal), cause=cluster.position
        )
        del timeouts[key]
        cluster.wakeup_events.groups[key] = None
