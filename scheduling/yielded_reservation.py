"""Say of a pod group that lost its reservation for which group it waits."""

from msgspec import structs

from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.refusals import COMMON_CODES, QUEUE_CODES, RESERVATION_YIELDED, node_helps
from scheduling.quota.yielding import waiting_text
from scheduling.unschedulable import Unschedulable


def waits_for_other(cluster: Cluster, group: PodGroup, reason: Unschedulable) -> Unschedulable:
    """Return a refusal by quota that names the group which took the reservation of this one, as long as that holds
    anything."""
    standing = group.decided.refusals.get("enqueue")
    if standing is None or standing.code != RESERVATION_YIELDED:
        return reason
    if reason.code not in QUEUE_CODES and reason.code not in COMMON_CODES:
        return reason
    other = cluster.groups.get(standing.limit)
    if other is None or not (
        _has(other.allocated) or other.reservation.inqueue or _has(other.held)
    ):
        return reason
    if other.priority <= group.priority or other.queue != group.queue:
        return reason
    text = f"{waiting_text(other, group)}: {reason.message}"
    helps = node_helps(reason.code, reason.node_helps)
    return structs.replace(
        reason, code=RESERVATION_YIELDED, limit=other.key, message=text, node_helps=helps
    )


def _has(amounts: Amounts) -> bool:
    """Return whether any amount is not 0: a snapshot keeps no zeros."""
    return any(amounts.values())
