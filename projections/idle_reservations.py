"""Keep the pod groups that are admitted and hold only a reservation: none of their pods has a node."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from projections.deltas import PodGroupChanged
from projections.index import Index
from projections.pod_groups import INQUEUE, PodGroup

if TYPE_CHECKING:
    from projections.cluster import Cluster


class IdleReservations(Index):
    """Groups with a reservation and without pods on nodes, by queue and priority."""

    name = "idle reservations"
    COMPARED: ClassVar[tuple[str, ...]] = ("by_queue", "places")
    can_be_left_out = True

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[int, dict[str, None]]] = {}
        """Queue to priority to the keys of its groups."""
        self.places: dict[str, tuple[str, int]] = {}
        """Pod group key to its queue and priority."""

    def rebuilt(self, cluster: "Cluster", /) -> "IdleReservations":
        """Find these groups again."""
        twin = IdleReservations()
        for group in cluster.groups.values():
            twin.set_place(group.key, _place(group))
        return twin

    def on_pod_groups(self, cluster: "Cluster", changes: Sequence[PodGroupChanged]) -> None:
        """Add or remove groups."""
        places = self.places
        for one in changes:
            group = one.group
            if group.decided.phase == INQUEUE or group.key in places:
                place = None if one.is_gone else _place(group)
                if place != places.get(group.key):
                    self.set_place(group.key, place)

    def set_place(self, key: str, place: tuple[str, int] | None) -> None:
        """Set queue and priority of a group; None for one that holds no reservation or has pods on nodes."""
        before = self.places.get(key)
        if before == place:
            return
        if before is not None:
            queue, priority = before
            priorities = self.by_queue[queue]
            del self.places[key], priorities[priority][key]
            if not priorities[priority]:
                del priorities[priority]
            if not priorities:
                del self.by_queue[queue]
        if place is not None:
            queue, priority = self.places[key] = place
            self.by_queue.setdefault(queue, {}).setdefault(priority, {})[key] = None


def _place(group: PodGroup) -> tuple[str, int] | None:
    if group.decided.phase != INQUEUE or group.is_foreign:
        return None
    if group.counts.allocated or group.decided.nominations:
        return None
    return group.queue, group.priority
