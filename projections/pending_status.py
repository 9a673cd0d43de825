"""Track which status updates are due, with every change.

A PodGroup reports its phase (that of a new one once it is refused or admitted), its counts of running, succeeded and failed pods, and whether its gang is ready; a
waiting pod reports the reason. The updated object comes back as an observation. The position of the record that
caused an update is stored, so that nothing is reported twice. What another writer changes is written again, but only
OVERWRITES_MAX times until the status itself changes: after that its object has an error.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from msgspec import structs

from projections.config_errors import Pairs
from projections.deltas import PodGroupChanged, QueueChanged, RecordApplied
from projections.group_facts import GroupFacts
from projections.index import Index
from projections.pod_groups import WAITING, PodGroup
from projections.reported_status import NOT_REPORTED, Status

if TYPE_CHECKING:
    from projections.cluster import Cluster


OVERWRITES_MAX: Final = 3
"""How many times a status that another client has overwritten is written again."""

PHASE_OVERWRITTEN: Final = "StatusOverwritten"
"""Code of the error of a PodGroup whose status another client keeps overwriting."""


def record_overwritten(cluster: "Cluster", group: PodGroup, before: GroupFacts) -> None:
    """Let the status be written again if the object had it `before` and now states another one, unless that happened too
    often."""
    reported, facts = group.decided.reported_status, group.observed.facts
    if facts is None or group.is_foreign or cluster.is_shadow:
        return
    old, new, (phase, *counts) = reported_in(before), reported_in(facts), reported.status
    is_phase_lost = old[0] == phase != new[0]
    are_counts_lost = before.counts == tuple(counts) != facts.counts
    if not is_phase_lost and not are_counts_lost:
        return
    if reported.reported_at >= reported.since and reported.overwritten <= OVERWRITES_MAX:
        overwritten, since = reported.overwritten + 1, reported.since
        if overwritten <= OVERWRITES_MAX:
            since = cluster.position
        reported = structs.replace(reported, overwritten=overwritten, since=since)
        group.decided = structs.replace(group.decided, reported_status=reported)


def overwritten_faults(group: PodGroup) -> Pairs:
    """Return the error of a group whose status is not written again any more; none otherwise."""
    reported = group.decided.reported_status
    if reported.overwritten <= OVERWRITES_MAX:
        return ()
    text = (
        f"status: another client has overwritten phase {reported.status[0]} or the counts of pods {OVERWRITES_MAX + 1} times;"
        " muster goes on with its own and does not write them again until they change"
    )
    return ((PHASE_OVERWRITTEN, text),)


def reported_in(facts: GroupFacts) -> Status:
    """Return the status in the PodGroup object. A missing phase counts as Pending."""
    return (facts.phase or WAITING, *facts.counts)


class PendingStatus(Index):
    """Pod groups whose status has to be updated, and queues that changed, by key.

    Asking which updates are due consumes nothing: each reader remembers how far it has read
    (`engine/pending_requests.py`).
    """

    name = "status updates"
    COMPARED: ClassVar[tuple[str, ...]] = ("phases", "counts")

    def __init__(self) -> None:
        self.phases: dict[str, None] = {}
        """Groups whose objects have another phase."""
        self.counts: dict[str, None] = {}
        """Groups whose objects have the right phase and other counts of pods."""
        self.queues: dict[str, int] = {}
        """Queues whose allocated amounts or objects changed, and the position of the last change; the latest is last.
        """

    def rebuilt(self, cluster: "Cluster", /) -> "PendingStatus":
        """Determine again which groups have to be updated."""
        twin = PendingStatus()
        for group in cluster.groups.values():
            twin.update(group)
        return twin

    def on_pod_groups(self, cluster: "Cluster", changes: Sequence[PodGroupChanged]) -> None:
        """Update which status updates of the groups are due."""
        for one in changes:
            cluster.position = one.position
            if one.is_gone:
                self._forget(one.group.key)
            elif one.group.observed.facts is not None:
                self._record_change(one.group, one.position)
            elif one.group.decided.reported_status is not NOT_REPORTED:
                # Its object is gone; another one of its name has no status yet.
                decided = structs.replace(one.group.decided, reported_status=NOT_REPORTED)
                one.group.decided = decided
                self._forget(one.group.key)

    def _record_change(self, group: PodGroup, position: int) -> None:
        """Record that a pod group with an object changed with the record at `position`."""
        is_ready = bool(group.pods) and group.is_ready
        before = group.decided.reported_status
        after = before.at(position, group.status_now, is_ready=is_ready)
        if after is not before:
            group.decided = structs.replace(group.decided, reported_status=after)
        self.update(group)

    def on_queue(self, cluster: "Cluster", delta: QueueChanged) -> None:
        """Record that the object of a queue changed; forget a queue that is gone."""
        queue = delta.queue
        if delta.is_gone:
            self.queues.pop(queue.name, None)
        elif queue.facts is not None or delta.old is not None:
            self.record_queue(queue.name, cluster.position)

    def on_record(self, cluster: "Cluster", delta: RecordApplied) -> None:
        """Record the queues whose charges the record changed, and all queues above them."""
        for name in cluster.changed_queues:
            one = cluster.queues.get(name)
            while one is not None:
                self.record_queue(one.name, cluster.position)
                one = one.above

    def record_queue(self, name: str, position: int) -> None:
        """Record that a queue changed with the record at `position`."""
        self.queues.pop(name, None)
        self.queues[name] = position

    def update(self, group: PodGroup) -> None:
        """Determine whether the status of the PodGroup object has to be updated."""
        facts, key = group.observed.facts, group.key
        if key in self.phases:
            del self.phases[key]
        elif key in self.counts:
            del self.counts[key]
        if (
            facts is None
            or group.is_foreign
            or group.decided.reported_status.reported_at >= group.decided.reported_status.since
        ):
            return
        stated = reported_in(facts)
        is_new = not facts.phase and bool(group.decided.refusals)
        if stated[0] != group.decided.phase or is_new:
            self.phases[key] = None
        elif stated != group.decided.reported_status.status:
            self.counts[key] = None

    def _forget(self, key: str) -> None:
        """Remove a pod group."""
        for kept in (self.phases, self.counts):
            kept.pop(key, None)
