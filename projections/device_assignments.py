"""Devices that were assigned to pods and that the device plugin of the node has not confirmed yet.

A device plugin learns from the annotations of a pod which devices it gets. The kubelet does not tell it for which pod a
container is started: it serves the pod with the oldest assignment time among those that ask for as many devices. So
assignment times increase strictly on each node, and where a family demands it, one pod of a node at a time is written
and bound, until the plugin has confirmed its devices or the kubelet has admitted the pod. Other nodes do not wait for it.
"""

from collections.abc import Iterator, Mapping
from typing import Final

CONFIRMATION_NS: Final = 60_000_000_000
"""How long the next pod of a node waits for the confirmation of one that is bound: a kubelet or a device plugin that is
stopped must not keep its node from being used for ever."""

NODES_MAX: Final = 1024
"""Nodes that are gone of which the last assignment time is kept, at least."""


class DeviceAssignments:
    """The last assignment time of each node, and its pods that wait for a confirmation."""

    def __init__(self) -> None:
        self.last_ns: dict[str, int] = {}
        """Node to its last assignment time."""
        self.unconfirmed: dict[str, dict[str, int]] = {}
        """Node to the UIDs of pods in the order of their assignment, and until when the next one waits for them: 0 while
        the pod is not bound."""
        self.ranks: dict[str, int] = {}
        """UID to the rank that was decided for a pod, as long as the pod exists (`projections/pod_ranks.py`)."""

    def assign(
        self, node: str, uid: str, now_ns: int, nodes: Mapping[str, object], *, one_by_one: bool
    ) -> int:
        """Return the assignment time of a pod. `nodes` are all nodes by name."""
        if len(self.last_ns) >= NODES_MAX + 2 * len(nodes):
            self.last_ns = {name: at for name, at in self.last_ns.items() if name in nodes}
        at_ns = self.last_ns[node] = max(now_ns, self.last_ns.get(node, 0) + 1)
        if one_by_one:
            self.unconfirmed.setdefault(node, {})[uid] = 0
        return at_ns

    def is_next(self, node: str, uid: str) -> bool:
        """Return whether no earlier pod of the node has to be confirmed first."""
        waiting = self.unconfirmed.get(node, {})
        return uid not in waiting or next(iter(waiting)) == uid

    def bound(self, node: str, uid: str, now_ns: int) -> None:
        """Begin to wait for the confirmation of a pod that is bound."""
        waiting = self.unconfirmed.get(node, {})
        if uid in waiting:
            waiting[uid] = now_ns + CONFIRMATION_NS

    def remove(self, node: str, uid: str) -> None:
        """Wait no longer for a pod: it is confirmed, or has lost its node."""
        waiting = self.unconfirmed.get(node)
        if waiting is not None and waiting.pop(uid, None) is not None and not waiting:
            del self.unconfirmed[node]

    def ends(self) -> Iterator[int]:
        """Yield the times until which pods wait."""
        for waiting in self.unconfirmed.values():
            yield from (until_ns for until_ns in waiting.values() if until_ns)

    def expire(self, at_ns: int) -> None:
        """Wait no longer for confirmations that should have come by then."""
        over = [
            (node, uid)
            for node, waiting in self.unconfirmed.items()
            for uid, until_ns in waiting.items()
            if 0 < until_ns <= at_ns
        ]
        for node, uid in over:
            self.remove(node, uid)
