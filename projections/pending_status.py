"""What objects are still to be told: kept in line with every change, so that nobody has to look for it.

A PodGroup says its phase, how many of its pods run or have ended, and whether its gang is whole; a pod that
waits says why. What was told comes back as an observation. Whoever is told is remembered by the position of
the record that there was to tell of, so nothing is told twice, and nobody argues with another writer.
"""

from projections.group_facts import GroupFacts
from projections.pod_groups import WAITING, PodGroup, Status


def reported_in(facts: GroupFacts) -> Status:
    """What a PodGroup says. One that says no phase waits: whoever makes it may leave that out."""
    return (facts.phase or WAITING, *facts.counts)


class PendingStatus:
    """Pod groups and queues with something to tell, by key."""

    def __init__(self) -> None:
        self.phases: dict[str, None] = {}
        """Those whose objects say another phase."""
        self.counts: dict[str, None] = {}
        """Those whose objects say the phase, and other counts of pods."""
        self.conditions: dict[str, None] = {}
        """Those whose conditions, or those of their pods, may have to be told."""
        self.queues: dict[str, None] = {}
        """Queues whose objects may say of something else that it is allocated."""

    def record_change(self, group: PodGroup, position: int) -> None:
        """A pod group has changed, with the record at a position."""
        status = group.status_now
        reported_status = group.reported_status
        if status != reported_status.status:
            reported_status.set_status(status, position)
        is_whole = bool(group.pods) and group.is_ready
        if is_whole != bool(reported_status.ready_since):
            reported_status.ready_since = position if is_whole else 0
            if is_whole and group.facts is not None:
                self.conditions[group.key] = None
        if group.refusals or group.nominations or group.is_broken:
            self.conditions[group.key] = None
        self.update(group)

    def update(self, group: PodGroup) -> None:
        """Whether its object is to be told its status."""
        facts, key = group.facts, group.key
        if key in self.phases:
            del self.phases[key]
        elif key in self.counts:
            del self.counts[key]
        if (
            facts is None
            or group.is_foreign
            or group.reported_status.reported_at >= group.reported_status.since
        ):
            return
        said = reported_in(facts)
        if said[0] != group.phase:
            self.phases[key] = None
        elif said != group.reported_status.status:
            self.counts[key] = None

    def forget(self, key: str) -> None:
        """There is no such group any more."""
        for kept in (self.phases, self.counts, self.conditions):
            kept.pop(key, None)
