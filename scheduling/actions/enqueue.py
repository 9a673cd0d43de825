"""Enqueue: admit pending pod groups to their queues, queue by queue, in job order.

Groups that lost their reservation because their pods did not come are voted on after all others. A group for which others
yield their reservations is admitted after these: they go back to Pending, and say for which group they wait.
"""

from collections.abc import Iterator
from functools import partial

from msgspec import structs

from events.decision import Decision
from events.decisions.enqueue import EnqueueDecided
from events.duration import format_duration
from events.requeue import (
    ADMISSION_BY_OTHERS,
    ADMISSION_BY_QUEUE,
    CLUSTER_QUOTA,
    QUEUE_UPDATED,
    quota_events,
)
from projections import quota_charging
from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.refusals import COMMON_CODES, PODS_NOT_CREATED, RESERVATION_YIELDED
from projections.rescheduling import keeps_admission
from projections.scheduling_queue import EquivalenceGroup
from scheduling.device_request import too_few_devices
from scheduling.gang_attempt import precheck
from scheduling.queue_iteration import iterate_queues, refuse_equivalence_group
from scheduling.quota.enqueue_check import ClusterQuota
from scheduling.quota.queue_room import QueueRoom, QueueRooms
from scheduling.quota.yielding import named, waiting_text
from scheduling.session import Session
from scheduling.unschedulable import (
    Unschedulable,
    pipeline_withdrawal,
    quota_unschedulable,
    refusal,
)
from scheduling.yielded_reservation import waits_for_other

ACTION = "enqueue"


def enqueue(session: Session) -> Iterator[Decision]:
    """Decide for every pending pod group whose last answer may have changed."""
    cluster = session.cluster
    admit = partial(_admit, QueueRooms(cluster))
    waits = cluster.pod_waits
    if not any(one.lost for one in cluster.pod_waits.of.values()):
        yield from iterate_queues(session, ACTION, admit)
        return
    yield from iterate_queues(
        session, ACTION, admit, lambda one: not waits.comes_last(one.head.key)
    )
    if not session.is_cut_short(ACTION):
        yield from iterate_queues(
            session, ACTION, admit, lambda one: waits.comes_last(one.head.key)
        )


def _admit(
    rooms: QueueRooms, session: Session, equivalence_group: EquivalenceGroup
) -> Iterator[Decision]:
    group = equivalence_group.head
    reason, yielding = _judge(session, group, rooms.of(group.queue))
    session.groups_examined += 1
    if reason is None:
        for other in yielding:
            yield refusal(other, ACTION, _yielded(session.cluster, other, group))
        yield EnqueueDecided(pod_group=group.key, queue=group.queue)
        return
    # A group with nominations that is not admitted has fallen below minMember: release its nominations.
    yield from pipeline_withdrawal(group, reason)
    if equivalence_group.is_head(group):
        requeue_on = (*reason.requeue_on, *_victim_events(session.cluster, reason))
        reason = structs.replace(reason, requeue_on=requeue_on)
        yield from _refuse(session.cluster, equivalence_group, reason)


def _refuse(
    cluster: Cluster, equivalence_group: EquivalenceGroup, reason: Unschedulable
) -> Iterator[Decision]:
    """Refuse all groups in a class. One whose reservation another group took still says so."""
    for one in refuse_equivalence_group(equivalence_group, reason):
        group = cluster.groups[one.pod_group]
        found = waits_for_other(cluster, group, reason)
        if found is reason:
            yield one
        elif group.decided.refusals[ACTION].message != found.message:
            yield refusal(group, ACTION, found)


def _victim_events(cluster: Cluster, reason: Unschedulable) -> tuple[str, ...]:
    """Return the events after which pods could be evicted whose quota the group would take.

    Only in a tree of queues can others give quota to a queue; without one, only resources of the whole cluster.
    """
    policy = cluster.policy
    by_others = policy.reclaims and (
        reason.code in COMMON_CODES or cluster.plugins.quota.keeps_tree
    )
    return (
        *([ADMISSION_BY_OTHERS] if by_others else []),
        *([ADMISSION_BY_QUEUE] if policy.preempts else []),
    )


def _judge(
    session: Session, group: PodGroup, room: QueueRoom
) -> tuple[Unschedulable | None, tuple[PodGroup, ...]]:
    """Return why a group is not admitted; or None, and the groups whose reservations it takes."""
    problem = precheck(session, group, room)
    if problem is not None:
        return problem, ()
    if keeps_admission(session.cluster, group.key):
        return None, ()
    found = session.enqueue_check.admission(group, room)
    if found.short is not None:
        return quota_unschedulable(found.short), ()
    return too_few_devices(session, group), found.yielding


def _yielded(cluster: Cluster, group: PodGroup, other: PodGroup) -> Unschedulable:
    """Return why the reservation of a group goes to another one."""
    names = tuple(quota_charging.min_request(cluster, group) or ())
    stated = () if group.observed.facts is None else tuple(group.observed.facts.min_resources or ())
    requeue_on = (QUEUE_UPDATED, *quota_events(names))
    if cluster.plugins.of(ClusterQuota):
        requeue_on += tuple([CLUSTER_QUOTA + name for name in stated])
    if cluster.pod_waits.yields_to_all(group.key):
        span = format_duration(cluster.policy.action_arguments.pod_creation_ns)
        text = (
            f"it was admitted and has {group.counts.valid} of its {max(1, group.observed.min_available)} pods after {span}:"
            f" {named(other)} takes its reservation"
        )
        return Unschedulable(PODS_NOT_CREATED, "", text, requeue_on=requeue_on)
    text = waiting_text(other, group)
    return Unschedulable(RESERVATION_YIELDED, other.key, text, requeue_on=requeue_on)
