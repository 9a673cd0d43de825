"""What follows for pod groups of equal shape: phase, reservation and equivalence keys, computed once for all of them.

A group without an object whose pods are of one class has no shape of its own: what follows depends on the class, on how many
pods have which status, on its minimum, phase, priority and charges, and else only on the policy and the known cards.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from projections.group_rows import GroupReservation
from projections.pod_class import Amounts
from projections.pod_groups import DeviceJob, EquivalenceKey, PodGroup

if TYPE_CHECKING:
    from projections.cluster import Cluster

SHAPES_MAX: Final = 10_000
"""Shapes that are kept."""

Shape = tuple[object, ...]


class ShapeResult(Struct, frozen=True, gc=False):
    """What follows for the pod groups of one shape, in queues that accept pod groups."""

    phase: str
    reservation: GroupReservation
    keys: tuple[EquivalenceKey, ...]
    device_job: DeviceJob | None
    order: tuple[object, ...] | None
    """The values of the plugins in its sort key; None if these are not the same for all groups of the shape."""


class GroupShapes:
    """Cache: shape to what follows from it, under the present policy and with the present cards."""

    def __init__(self) -> None:
        self._known: dict[Shape, ShapeResult] = {}
        self._as_of: tuple[object, int] = None, 0
        """The policy and the version of the known cards under which they were computed."""
        self._totals: Amounts = {}
        self._totals_version = 0
        """What was allocatable as of the last cycle, and how often it has changed."""

    def find(self, cluster: "Cluster", group: PodGroup) -> tuple[Shape | None, ShapeResult | None]:
        """Return the shape of a group before it is settled, and what follows from it if that is known; None if something of
        its own decides what follows."""
        key, policy, totals = group.key, cluster.policy, cluster.cluster_totals.totals
        if self._as_of[0] is not policy or self._as_of[1] != cluster.cards.version:
            self._as_of = policy, cluster.cards.version
            self._known.clear()
        if self._totals is not totals:
            # A fork has equal ones of its own.
            self._totals_version += self._totals != totals
            self._totals = totals
        if (
            group.observed.facts is not None
            or group.observed.needs_object
            or group.decided.refusals
            or group.decided.nominations
            or group.denied is not None
            or group.is_foreign
            or group.observed.min_tasks
            or len(group.classes) > 1
            or key in cluster.bind_backoffs.until
            or key in cluster.pod_waits.of
            or (policy.reschedules and cluster.reschedulings.restarts)
            or cluster.plugins.group_state
            or not policy.pools.is_plain
            or (len(group.pods) > 1 and (group.problem is not None or _has_other_pods(group)))
        ):
            return None, None
        shape = (
            *group.live_classes.items(),
            group.counts,
            group.decided.phase,
            group.observed.min_available,
            group.priority,
            self._totals_version if group.held else 0,
            *group.allocated.items(),
        )
        found = self._known.get(shape)
        is_open = found is None or not found.reservation.inqueue
        if not is_open and cluster.queues[group.queue].closed_reason is not None:
            return None, None
        return shape, found

    def add(self, cluster: "Cluster", group: PodGroup, shape: Shape, result: ShapeResult) -> None:
        """Add what follows from a shape, as it was found for a group, unless its queue accepts no pod groups, or a key is of this
        group alone."""
        if cluster.queues[group.queue].closed_reason is not None:
            return
        if any(group.key in key for _, key in result.keys):
            return
        if len(self._known) >= SHAPES_MAX:
            self._known.clear()
        self._known[shape] = result


def _has_other_pods(group: PodGroup) -> bool:
    """Return whether a group that is charged for pods has ended ones, too, which may be of another class."""
    return bool(group.allocated) and sum(group.live_classes.values()) < len(group.pods)
