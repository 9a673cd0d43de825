"""Room that other schedulers made for their pods: it is kept for these until they come, or give up.

Such a pod names the node in its status. What it asks for counts there as promised, whatever its priority:
somebody was evicted for it, and whoever took the room would make that begin again.
"""

from collections.abc import Mapping
from typing import Protocol

from projections.nodes import NodeTable, Request
from projections.pod_class import Amounts
from projections.pods import PENDING, Pod


class NominationState(Protocol):
    """The part of the cluster in which room is kept."""

    nodes: NodeTable

    @property
    def pods(self) -> Mapping[str, Pod]:
        """All pods, by UID."""

    def mark_node_freed(self, node: str) -> None:
        """Remember that a node may now take what it could not before."""


def reserve(cluster: NominationState, old: Pod | None, new: Pod | None) -> None:
    """Keep room for a pod, or no longer."""
    if not (old and old.facts.nominated_node) and not (new and new.facts.nominated_node):
        return
    before, after = room_of(old), room_of(new)
    if before == after:
        return
    for room, sign in ((before, -1), (after, 1)):
        if room is not None:
            cluster.nodes.expect(*room, sign)
    if before is not None:
        cluster.mark_node_freed(before[0])


def room_of(pod: Pod | None) -> tuple[str, str, Request] | None:
    """Node, UID and request; None for our own pods, which have promises, and for those that wait for no room."""
    if pod is None or not pod.facts.nominated_node or pod.group_key or pod.status != PENDING:
        return None
    return pod.facts.nominated_node, pod.facts.uid, pod.pod_class.request


def sum_nominations(cluster: NominationState, nominated: dict[str, Amounts]) -> None:
    """Add what is kept on each node, counted again."""
    for pod in cluster.pods.values():
        if (room := room_of(pod)) is not None:
            amounts = nominated.setdefault(room[0], {})
            for name, amount in room[2]:
                amounts[name] = amounts.get(name, 0) + amount
