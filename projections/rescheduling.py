"""What was done after faults and is not over: jobs that are restarted, reserved nodes, counts of restarts.

A restart begins with a decision that deletes pods and ends with another one. Until then it keeps where the pods of the job
were, so that those that replace healthy pods return to their nodes, and those that replace faulty ones go elsewhere.
"""

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Final

from msgspec import Struct, field, structs

from events.decision import Decision
from events.decisions.faults_marked import FaultsMarked
from events.decisions.reschedule import RestartedPod
from events.duration import SECOND
from events.messages import PodMarkRequest
from projections.deltas import RestartChanged
from projections.fault_marks import FAULT_MARK, FaultMark
from projections.fault_options import FORCE
from projections.nodes import Request
from projections.pod_groups import INQUEUE, WAITING
from projections.pod_terms import Labels
from projections.pods import Charge
from projections.reschedule_records import JobRecords
from projections.tables import Table

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.pod_groups import PodGroup
    from projections.pods import Pod

RESTART_NS: Final = 300 * SECOND
"""Time after which a restart is given up, in addition to the time for ending pods (the vendor's)."""

WAIT_NS: Final = 10 * SECOND
"""Time for which a job that is placed as a whole waits for the nodes of its healthy pods (the vendor's)."""

REPEAT_NS: Final = 30 * SECOND
"""Shortest time between two deletions by force of the same pods: one with a finalizer may stay for ever."""

HOUR_NS: Final = 3600 * SECOND


class Reservation(Struct, frozen=True, array_like=True):
    """What is kept of a node for the pod that replaces a healthy one."""

    node: str
    request: Request


class Restart(Struct, frozen=True, kw_only=True):
    """A job of which pods were deleted after a fault."""

    owner: str
    """UID of the workload that owns the job; another one is another job."""
    position: int
    """Position of the last decision to delete pods of it."""
    begun_ns: int
    """When the first pods were deleted."""
    decided_ns: int
    """When the last ones were."""
    mode: str
    scope: str
    """`pod`, `super_pod` or `job`: which pods were deleted last."""
    members: tuple[RestartedPod, ...]
    """The pods that the job had, each with its node and whether it was faulty."""
    leaving: dict[str, None]
    """UIDs of deleted pods that are not gone yet."""
    gone_ns: int = 0
    """When the last of them was gone; 0 while some are not."""
    first_gone_ns: int = 0
    """When the pods that were deleted first were gone, and the job had enough pods again; 0 before. More of the job is deleted
    by this time: pods that their controller has not created yet miss no node."""
    is_owner_gone: bool = False
    """Whether the workload that owns the job was deleted."""
    replaced: dict[str, str] = {}
    """UID of a pod of `members` to that of the pod that has taken its place."""
    networks: dict[str, Labels] = {}
    """UID of a pod of `members` to what its leaf switch or its logical SuperPoD was for it, by annotation; without pods
    that have neither."""
    reservations: dict[str, Reservation]
    """UID of a healthy pod that was deleted to what is kept of its node."""
    reserved_until_ns: int
    """When quota and nodes are given up: `reservation` of the policy after the deleted pods were gone, and at the latest
    `reservation` after the end of their grace period."""
    grace_ns: int
    """Time until pods that have not ended are deleted by force."""
    forced_ns: int = 0
    """When that was last decided; 0 if it was not."""
    has_given_up: bool = False
    """Whether its reservations have ended: it is voted on like any other group."""
    queue: str = ""
    kept: Charge = ()
    """What the queue of the job is charged for it until its pods are back; nothing once the reservations have ended."""

    @property
    def timeout_ns(self) -> int:
        """Return when the restart is given up: not before its reservations end."""
        return max(self.begun_ns + RESTART_NS + self.grace_ns, self.reserved_until_ns)

    @property
    def overdue_ns(self) -> int:
        """Return when deleted pods that are still there are deleted by force, at first or once more."""
        was_forced = self.mode == FORCE or bool(self.forced_ns)
        wait = max(self.grace_ns, REPEAT_NS if was_forced else SECOND)
        return max(self.decided_ns, self.forced_ns) + wait

    def lost(self, pods: Container[str]) -> Iterator[tuple[RestartedPod, Labels]]:
        """Yield the pods that are gone and not replaced, with what their switch or logical SuperPoD was for them; `pods` are
        the UIDs of those that exist."""
        for one in self.members if self.networks else ():
            if one.uid not in self.replaced and one.uid not in pods and one.uid in self.networks:
                yield one, self.networks[one.uid]

    def is_complete(self, group: "PodGroup") -> bool:
        """Return whether as many pods have nodes as before, none of them a deleted one."""
        enough = max(group.observed.min_available, len(self.members))
        return not self.leaving and group.is_ready and group.counts.allocated >= enough


def nodes_free_by(restart: Restart) -> int:
    """Return until when a job that is placed as a whole waits for the nodes of its healthy pods."""
    return (restart.gone_ns or restart.decided_ns) + WAIT_NS


class Retries(Struct, frozen=True, array_like=True):
    """How often a job may still be restarted because pods failed."""

    owner: str
    left: int


class FaultReports(Struct):
    """What is written about faults for people and other programs, and how far it is written."""

    changed_at: dict[str, int] = {}
    """`faults` or `restarts` to the position of the last record that changed it."""
    written_at: dict[str, int] = {}
    """The same to the position up to which it is written."""
    records: dict[str, JobRecords] = {}
    """Pod group key to its restarts, the one that was restarted last at the end."""


class Reschedulings(Table):
    """All restarts, and what is kept of jobs beyond them, where the policy moves pods after faults."""

    restarts: dict[str, Restart] = field(default_factory=dict)
    """Pod group key to its restart."""
    retries: dict[str, Retries] = field(default_factory=dict)
    """Pod group key to its retries, once one was used."""
    restarted_ns: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Pod group key to the times of its restarts within the last hour."""
    faulty_since_ns: dict[str, dict[str, int]] = field(default_factory=dict)
    """Pod group key to the UIDs of its faulty pods, each with the time of the first cycle that saw it so."""
    stranded_since_ns: dict[str, int] = field(default_factory=dict)
    """Key of a pod group that runs below its minimum to the time of the first cycle that saw it so."""
    settling: dict[str, int] = field(default_factory=dict)
    """Node that has recovered to the time until which it gets no pods; 0 until the next cycle sets it."""
    reports: FaultReports = field(default_factory=FaultReports)
    marks: dict[str, FaultMark] = field(default_factory=dict)
    """UID of a pod to the fault that is written on it for a controller outside."""
    looked_at_ns: dict[str, int] = field(default_factory=dict)
    """Pod group key to the time at which it is looked at again."""

    def pod_ended(self, cluster: "Cluster", pod: "Pod", *, is_deleted: bool) -> None:
        """Record that a pod is gone: it may be one that a restart deleted, or that is marked."""
        if is_deleted:
            _pod_gone(cluster, self, pod.group_key, pod.facts.uid)

    def decided(self, cluster: "Cluster", position: int, event: Decision) -> None:
        """Keep the marks that a decision begins with."""
        if isinstance(event, FaultsMarked):
            for one in event.members:
                if one.uid in cluster.pods:
                    self.marks[one.uid] = FaultMark(position, one.pod, one.fault)
                    cluster.changed_rows.faults[one.node] = None

    def mark_answered(self, what: str, uid: str, decision: int, *, is_lost: bool) -> None:
        """Record that a mark is written or refused, or (`is_lost`) that no answer came."""
        one = self.marks.get(uid)
        if what == FAULT_MARK and one is not None and one.decision == decision:
            self.marks[uid] = one.answered(is_lost=is_lost)

    def mark_requests(self) -> Iterator[PodMarkRequest]:
        """Yield the requests to write marks that are not written, in the order of their decisions."""
        waiting = [(one.decision, uid) for uid, one in self.marks.items() if not one.is_done]
        for _, uid in sorted(waiting):
            yield self.marks[uid].request(uid)

    def deadlines(self, cluster: "Cluster") -> Iterator[int]:
        """Yield the times at which pod groups are looked at again, and those until which nodes settle."""
        yield from self.looked_at_ns.values()
        yield from self.settling.values()

    def dropped(self, cluster: "Cluster") -> None:
        """Free the nodes and the quota that restarts keep."""
        for key in list(self.restarts):
            drop_restart(cluster, key)

    def reservations_on(self) -> dict[str, list[Request]]:
        """Return what is kept of each node, for the audit."""
        found: dict[str, list[Request]] = {}
        for restart in self.restarts.values():
            for one in restart.reservations.values():
                found.setdefault(one.node, []).append(one.request)
        return found


def put_restart(cluster: "Cluster", key: str, restart: Restart) -> None:
    """Add or replace a restart, with its reservations."""
    drop_reservations(cluster, key)
    cluster.reschedulings.restarts[key] = restart
    for one in restart.reservations.values():
        _reserve(cluster, one, 1)
    cluster.kept_quota.update(cluster, key)
    cluster.indexes.dispatch(cluster, RestartChanged(key))


def keeps_admission(cluster: "Cluster", key: str) -> bool:
    """Return whether a group is restarted and has its place in its queue without a vote, because it was admitted before."""
    if not cluster.policy.reschedules:
        return False
    restart = cluster.reschedulings.restarts.get(key)
    return restart is not None and not restart.has_given_up


def drop_restart(cluster: "Cluster", key: str) -> None:
    """Remove a restart, and free what it reserved."""
    drop_reservations(cluster, key)
    cluster.reschedulings.restarts.pop(key, None)
    cluster.reschedulings.looked_at_ns.pop(key, None)
    cluster.kept_quota.update(cluster, key)
    cluster.indexes.dispatch(cluster, RestartChanged(key))
    if key not in cluster.groups:
        forget_group(cluster, key)


def give_up_reservations(cluster: "Cluster", key: str) -> None:
    """Give up the nodes and the quota that a restart keeps. If none of its pods is back, its job is voted on again."""
    drop_reservations(cluster, key)
    restart = cluster.reschedulings.restarts[key]
    cluster.reschedulings.restarts[key] = structs.replace(restart, kept=(), has_given_up=True)
    cluster.kept_quota.update(cluster, key)
    group = cluster.pod_groups.find(cluster, key)
    if group is None:
        return
    if (
        group.decided.phase == INQUEUE
        and not group.counts.allocated
        and not group.decided.nominations
    ):
        group.decided = structs.replace(group.decided, phase=WAITING)
    cluster.pod_groups.mark(key, cluster.position)


def drop_reservations(cluster: "Cluster", key: str, uids: tuple[str, ...] | None = None) -> None:
    """Free what a restart reserved; with `uids`, only for these pods."""
    restart = cluster.reschedulings.restarts.get(key)
    if restart is None or not restart.reservations:
        return
    left = dict(restart.reservations)
    for uid in tuple(left) if uids is None else uids:
        one = left.pop(uid, None)
        if one is not None:
            _reserve(cluster, one, -1)
            cluster.mark_node_freed(one.node)
    cluster.reschedulings.restarts[key] = structs.replace(restart, reservations=left)


def _reserve(cluster: "Cluster", one: Reservation, sign: int) -> None:
    node = cluster.nodes.ensure_node(one.node)
    cluster.nodes.shift(node, "nominated", one.request, sign)
    cluster.nodes.forget(node)
    cluster.changed_rows.nodes[one.node] = None


def _pod_gone(cluster: "Cluster", book: Reschedulings, key: str, uid: str) -> None:
    """Record that a pod is gone: it may be one that a restart deleted, or that is marked."""
    book.marks.pop(uid, None)
    restart = book.restarts.get(key)
    if restart is None or uid not in restart.leaving:
        return
    left = {one: None for one in restart.leaving if one != uid}
    book.restarts[key] = structs.replace(restart, leaving=left)
    if not left:
        cluster.mark_faulty(key)


def forget_group(cluster: "Cluster", key: str) -> None:
    """Forget what is kept of a pod group that is gone, unless its restart is not over."""
    book = cluster.reschedulings
    if key in book.restarts:
        return
    for kept in (
        book.retries,
        book.restarted_ns,
        book.faulty_since_ns,
        book.stranded_since_ns,
        book.looked_at_ns,
    ):
        kept.pop(key, None)


def is_stranded(group: "PodGroup") -> bool:
    """Return whether a gang runs below its minimum because pods are gone. It was complete: a gang gets its nodes as a whole.

    Failed pods that are still there are left to retries and to their controller.
    """
    if not group.counts.allocated or group.is_ready:
        return False
    failed = group.counts.failed
    return not failed or group.counts.ready + failed < group.observed.min_available


def has_pods_again(cluster: "Cluster", key: str) -> bool:
    """Return whether the deleted pods of a restart are gone, the job has enough pods again, and that was not seen yet."""
    restart, group = cluster.reschedulings.restarts.get(key), cluster.groups.get(key)
    if restart is None or restart.leaving or restart.first_gone_ns:
        return False
    return group is not None and group.has_enough_pods


def owner_gone(cluster: "Cluster", uid: str) -> None:
    """End the restarts of the jobs of a workload that was deleted with the next cycle."""
    restarts = cluster.reschedulings.restarts
    for key in [key for key, one in restarts.items() if one.owner == uid]:
        restarts[key] = structs.replace(restarts[key], is_owner_gone=True)
        cluster.mark_faulty(key)
