"""Reserve resources for pods that other schedulers nominated to a node (`status.nominatedNodeName`).

The request counts as nominated on that node, whatever the priority of the pod: victims were evicted for it, and if
another pod took the resources, more victims would follow.
"""

from typing import TYPE_CHECKING

from projections.nodes import Request
from projections.pod_class import Amounts
from projections.pods import PENDING, Pod

if TYPE_CHECKING:
    from projections.cluster import Cluster


def update_nomination(cluster: "Cluster", old: Pod | None, new: Pod | None) -> None:
    """Update the nomination of a pod of another scheduler."""
    if not (old and old.facts.nominated_node) and not (new and new.facts.nominated_node):
        return
    before, after = nomination_of(old), nomination_of(new)
    if before == after:
        return
    for room, sign in ((before, -1), (after, 1)):
        if room is not None:
            cluster.nodes.nominate(*room, sign)
    if before is not None:
        cluster.mark_node_freed(before[0])


def nomination_of(pod: Pod | None) -> tuple[str, str, Request] | None:
    """Return node, UID and request of the nomination; None for pods of muster, which have nominations of their own,
    and for pods that are not pending."""
    if pod is None or not pod.facts.nominated_node or pod.group_key or pod.status != PENDING:
        return None
    return pod.facts.nominated_node, pod.facts.uid, pod.pod_class.request


def sum_nominations(cluster: "Cluster", nominated: dict[str, Amounts]) -> None:
    """Add the nominated requests per node, counted again."""
    for pod in cluster.pods.values():
        if (room := nomination_of(pod)) is not None:
            amounts = nominated.setdefault(room[0], {})
            for name, amount in room[2]:
                amounts[name] = amounts.get(name, 0) + amount
