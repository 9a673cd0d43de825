"""Enqueue: admit pending pod groups to their queues, queue by queue, in job order."""

from collections.abc import Iterator

from msgspec import structs

from events.decision import Decision
from events.decisions.enqueue import EnqueueDecided
from events.requeue import ADMISSION_BY_OTHERS, ADMISSION_BY_QUEUE
from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.refusals import COMMON_CODES
from projections.scheduling_queue import EquivalenceGroup
from scheduling.device_request import too_few_devices
from scheduling.gang_attempt import precheck
from scheduling.queue_iteration import iterate_queues, refuse_equivalence_group
from scheduling.quota.enqueue_check import why_not_admitted
from scheduling.session import Session
from scheduling.unschedulable import Unschedulable, pipeline_withdrawal, quota_unschedulable

ACTION = "enqueue"


def enqueue(session: Session) -> Iterator[Decision]:
    """Decide for every pending pod group whose last answer may have changed."""
    yield from iterate_queues(session, ACTION, _admit)


def _admit(session: Session, equivalence_group: EquivalenceGroup) -> Iterator[Decision]:
    group = equivalence_group.head
    reason = _refusal(session, group)
    session.groups_examined += 1
    if reason is None:
        yield EnqueueDecided(pod_group=group.key, queue=group.queue)
        return
    # A group with nominations that is not admitted has fallen below minMember: release its nominations.
    yield from pipeline_withdrawal(group, reason)
    if equivalence_group.is_head(group):
        requeue_on = (*reason.requeue_on, *_victim_events(session.cluster, reason))
        reason = structs.replace(reason, requeue_on=requeue_on)
        yield from refuse_equivalence_group(equivalence_group, reason)


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


def _refusal(session: Session, group: PodGroup) -> Unschedulable | None:
    problem = precheck(session, group)
    if problem is not None:
        return problem
    if group.key in session.cluster.reschedulings.restarts:
        # A job that is restarted after a fault was admitted before.
        return None
    short = why_not_admitted(session.cluster, session.reclaimable, group)
    return too_few_devices(session, group) if short is None else quota_unschedulable(short)
