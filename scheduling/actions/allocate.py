"""Allocate: bind admitted pod groups to nodes, a gang as a whole first, its remaining pods one at a time."""

from collections.abc import Callable, Iterator
from functools import partial

from msgspec import structs

from events.decision import Decision
from events.decisions.enqueue import EnqueueDecided
from events.decisions.gang_bind import GangBindDecided
from events.decisions.pipeline import PipelineDecided
from projections.pod_groups import WAITING, PodGroup
from projections.scheduling_queue import EquivalenceGroup
from scheduling.device_request import invalid_device_request, naming_each
from scheduling.gang_attempt import GangAttempt, missing_pods, precheck, too_many_classes
from scheduling.gang_placement import place_gang, placement_problem
from scheduling.queue_iteration import iterate_queues, refuse_equivalence_group
from scheduling.quota.enqueue_check import may_hold_partial_reservation
from scheduling.session import Session
from scheduling.single_pods import SinglePods
from scheduling.trial import placements
from scheduling.unschedulable import (
    ORIGIN,
    Unschedulable,
    pipeline_withdrawal,
    without_reservation,
)

ACTION = "allocate"


def allocate(session: Session) -> Iterator[Decision]:
    """Decide for every pod group with pending pods whose last answer may have changed."""
    return iterate_queues(session, ACTION, partial(_place, SinglePods(session)))


def _place(
    single_pods: SinglePods, session: Session, equivalence_group: EquivalenceGroup
) -> Iterator[Decision]:
    group = equivalence_group.head
    placement = single_pods.placement(equivalence_group, group)
    if placement is not None:
        yield GangBindDecided(pod_group=group.key, queue=group.queue, placements=(placement,))
        return
    problem = precheck(session, group)
    if problem is None and group.decided.phase == WAITING and not group.pending:
        # Without an enqueue action no other action admits the group, and until then its owner creates no pods.
        yield EnqueueDecided(pod_group=group.key, queue=group.queue)
        return
    problem = problem or missing_pods(group) or too_many_classes(session, group)
    problem = problem or invalid_device_request(session, group)
    problem = problem or placement_problem(session, group)
    if problem is not None:
        yield from pipeline_withdrawal(group, problem)
        if equivalence_group.is_head(group):
            naming = naming_each(session, group, problem)
            yield from refuse_equivalence_group(equivalence_group, problem, naming)
        return
    if group.decided.phase == WAITING:
        yield EnqueueDecided(pod_group=group.key, queue=group.queue)
        if not equivalence_group.is_head(group):
            # The new phase moved the group to another equivalence class, which is decided next.
            return
        group = session.cluster.groups[group.key]
    attempt = place_gang(session, group)
    if attempt.is_ready:
        yield GangBindDecided(
            pod_group=group.key,
            queue=group.queue,
            placements=placements(session.cluster, attempt.trial.now, attempt.network),
        )
    elif attempt.is_pipelined or (
        attempt.has_room and may_hold_partial_reservation(session.cluster, group)
    ):
        yield from _promise(session, group, attempt)
    else:
        yield from pipeline_withdrawal(group, attempt.refusal)
        if equivalence_group.is_head(group):
            attempt.group = group = session.cluster.groups[group.key]
            reason = attempt.refusal
            if reason.fits_only_closed_nodes and _is_reservation_timed_out(equivalence_group):
                reason = without_reservation(reason)
            yield from refuse_equivalence_group(equivalence_group, reason, _for_group(group))


def _is_reservation_timed_out(equivalence_group: EquivalenceGroup) -> bool:
    """Return True if the reservation of any group in the class (all are equal) has timed out."""
    refusals = (group.decided.refusals.get(ACTION) for _, group in equivalence_group.jobs)
    return any(one is not None and one.is_timed_out for one in refusals)


def _promise(session: Session, group: PodGroup, attempt: GangAttempt) -> Iterator[Decision]:
    """Nominate nodes for the pods, unless exactly these nominations exist already."""
    placed = attempt.trial.placed
    if {one.pod.facts.uid: (one.node.name, one.devices) for one in placed} != {
        uid: (held.node, held.devices) for uid, held in group.decided.nominations.items()
    }:
        yield PipelineDecided(
            pod_group=group.key,
            queue=group.queue,
            placements=placements(session.cluster, placed),
        )


def _for_group(head: PodGroup) -> Callable[[PodGroup, Unschedulable], Unschedulable]:
    """Return a function that rewrites a refusal found for the head's pod so that it names another group's pod at the
    same place."""
    places = {pod.key: place for place, pod in enumerate(head.pending)}

    def for_group(group: PodGroup, reason: Unschedulable) -> Unschedulable:
        if not reason.pod:
            return reason
        place = min(places.get(reason.pod, 0), len(group.pending) - 1)
        key = group.pending[place].key
        text = reason.message.replace(
            f"{ORIGIN}{reason.pod.rpartition('/')[2]}:", f"{ORIGIN}{key.rpartition('/')[2]}:"
        )
        return structs.replace(reason, message=text, pod=key)

    return for_group
