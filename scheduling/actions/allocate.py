"""Allocate: give admitted groups their nodes, whole gangs first whole and then one pod at a time."""

from collections.abc import Iterator

from events.decision import EnqueueDecided, GangBindDecided, PipelineDecided, PipelineWithdrawn
from events.union import Decision
from projections.lines import Line
from projections.pod_groups import WAITING, PodGroup
from scheduling.attempt import Attempt, incomplete, standing_problem
from scheduling.refuse import Reason
from scheduling.serve import refuse_line, serve
from scheduling.session import Session
from scheduling.trial import placements

ACTION = "allocate"


def allocate(session: Session) -> Iterator[Decision]:
    """Decide on every group with pods that wait and that could be answered anew."""
    yield from serve(session, ACTION, _place)


def _place(session: Session, line: Line) -> Iterator[Decision]:
    group = line.head
    problem = standing_problem(session, group) or incomplete(group)
    if problem is not None:
        yield from _refuse(session, line, problem)
        return
    if group.phase == WAITING:
        # Without an enqueue action nobody else admits it.
        yield EnqueueDecided(pod_group=group.key, queue=group.queue)
    attempt = Attempt(session, group)
    if attempt.is_ready:
        yield GangBindDecided(
            pod_group=group.key,
            queue=group.queue,
            placements=placements(session.cluster, attempt.trial.now),
        )
    elif attempt.is_pipelined:
        yield from _promise(session, group, attempt)
    else:
        if group.promise:
            yield PipelineWithdrawn(
                pod_group=group.key, queue=group.queue, code=attempt.refusal.code
            )
        yield from _refuse(session, line, attempt.refusal)


def _promise(session: Session, group: PodGroup, attempt: Attempt) -> Iterator[Decision]:
    """Promise room, unless exactly that is promised already."""
    tried = attempt.trial.now + attempt.trial.later
    if {pod.facts.uid: node.name for pod, node in tried} != {
        uid: held.node for uid, held in group.promise.items()
    }:
        yield PipelineDecided(
            pod_group=group.key,
            queue=group.queue,
            placements=placements(session.cluster, tried),
        )


def _refuse(session: Session, line: Line, reason: Reason) -> Iterator[Decision]:
    """Refuse the line. A text that speaks of the head's pods is told for each group of its own."""

    def reason_for(group: PodGroup) -> Reason:
        if group is line.head or not reason.pod:
            return reason
        first = group.pending[0].key
        text = reason.message.replace(
            f"Origin reason is {reason.pod.rpartition('/')[2]}:",
            f"Origin reason is {first.rpartition('/')[2]}:",
        )
        return Reason(reason.code, reason.limit, text, first)

    yield from refuse_line(session, line, reason_for)
