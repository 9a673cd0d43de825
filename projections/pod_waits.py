"""Keep how long admitted pod groups wait for their pods.

Many controllers make pods only once their PodGroup is admitted: until then it has a reservation and no pods. It is
protected for the `podCreationTimeout` of the action `enqueue`, longer while pods come. After that the reservation stands
until another group asks for what it holds. A group that has lost it so is not voted on for a back-off, which doubles each
time, and then after all others. The wait ends when the group has as many pods as its minimum.
"""

from typing import TYPE_CHECKING, Final

from msgspec import Struct, structs

from events.duration import DOUBLINGS_MAX, SECOND, doubled
from projections.pod_groups import INQUEUE, WAITING, PodGroup

if TYPE_CHECKING:
    from projections.cluster import Cluster

BACKOFF_MAX_NS: Final = 3600 * SECOND
"""Longest time for which a group that lost its reservation is not voted on."""


class PodWait(Struct, frozen=True, array_like=True):
    """A pod group that was admitted and has fewer pods than its minimum."""

    until_ns: int
    """When its protection ends, or its back-off; 0 once it has ended."""
    pods: int = 0
    """Number of its pods when it was last looked at."""
    lost: int = 0
    """How often it has lost its reservation."""
    since_ns: int = 0
    """When it was admitted."""
    is_backing_off: bool = False
    """Whether it lost its reservation and is not voted on."""


def lacks_pods(group: PodGroup) -> bool:
    """Return whether a group with an object has fewer pods that wait or are placed than its minimum, or none."""
    return group.observed.facts is not None and group.counts.valid < max(
        1, group.observed.min_available
    )


def takes_no_reservation(group: PodGroup) -> bool:
    """Return whether a group has too few pods and no controller that would make them once it is admitted."""
    return lacks_pods(group) and group.observed.facts is not None and not group.observed.facts.owner


class PodWaits:
    """The waits for pods: of admitted groups that have too few, and of those that lost their reservation so."""

    def __init__(self) -> None:
        self.of: dict[str, PodWait] = {}
        """Pod group key to its wait."""

    @property
    def ends(self) -> list[int]:
        """Return when protections and back-offs end."""
        return [one.until_ns for one in self.of.values() if one.until_ns]

    def update(self, cluster: "Cluster", group: PodGroup) -> None:
        """Begin or end the wait of a group after it changed."""
        key, phase, known = group.key, group.decided.phase, self.of.get(group.key)
        if phase != INQUEUE and known is None:
            return
        span = cluster.policy.action_arguments.pod_creation_ns
        if not lacks_pods(group) or group.is_foreign or not span:
            self.of.pop(key, None)
        elif phase == INQUEUE:
            if (known is None or known.is_backing_off) and "enqueue" in cluster.policy.actions:
                self.of.pop(key, None)
                lost = 0 if known is None else known.lost
                now = cluster.now_ns
                self.of[key] = PodWait(now + span, group.counts.valid, lost, now)
        elif phase != WAITING or known is None or not known.is_backing_off:
            self.of.pop(key, None)

    def begin_backoff(self, key: str, span_ns: int, now_ns: int) -> None:
        """Begin the back-off of a group that has lost its reservation because it had too few pods for so long."""
        known = self.of.pop(key, None)
        if known is None:
            return
        lost = min(known.lost + 1, DOUBLINGS_MAX)
        backoff = doubled(span_ns, lost, max(span_ns, BACKOFF_MAX_NS))
        self.of[key] = PodWait(now_ns + backoff, lost=lost, is_backing_off=True)

    def is_backing_off(self, key: str) -> bool:
        """Return whether a group that lost its reservation is not voted on yet."""
        wait = self.of.get(key)
        return wait is not None and wait.is_backing_off and wait.until_ns > 0

    def comes_last(self, key: str) -> bool:
        """Return whether a group lost its reservation because it had too few pods, and still has too few."""
        wait = self.of.get(key)
        return wait is not None and wait.lost > 0

    def yields_to_all(self, key: str) -> bool:
        """Return whether the reservation of a group is no longer protected: its pods did not come in time."""
        wait = self.of.get(key)
        return wait is not None and not wait.is_backing_off and wait.until_ns == 0

    def expire(self, cluster: "Cluster", at_ns: int) -> None:
        """Apply the ends of protections and back-offs up to `at_ns`."""
        for key in [key for key, one in self.of.items() if 0 < one.until_ns <= at_ns]:
            group, wait = cluster.groups[key], self.of[key]
            if not wait.is_backing_off and group.counts.valid > wait.pods:
                # Its pods are still being made.
                until = at_ns + cluster.policy.action_arguments.pod_creation_ns
                self.of[key] = structs.replace(wait, until_ns=until, pods=group.counts.valid)
                continue
            self.of[key] = structs.replace(wait, until_ns=0)
            if wait.is_backing_off:
                cluster.pod_groups.mark(key, cluster.position)
                continue
            # Wake the groups that wait for what it has reserved.
            cluster.mark_quota_released("")
            for queue in cluster.queues[group.queue].lineage:
                cluster.mark_quota_released(queue.name)
