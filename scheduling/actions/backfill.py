"""Backfill: give pods that ask for nothing but a place any node they may go to."""

from collections.abc import Iterator

from events.decision import GangBindDecided
from events.union import Decision
from projections.lines import Line
from projections.nodes import Node
from projections.pods import Pod
from scheduling.attempt import incomplete, standing_problem
from scheduling.refuse import Reason, no_node
from scheduling.serve import refuse_line, serve
from scheduling.session import Session
from scheduling.trial import Trial, placements

ACTION = "backfill"


def backfill(session: Session) -> Iterator[Decision]:
    """Decide on every admitted group with best-effort pods that wait."""
    yield from serve(session, ACTION, _fill)


def _fill(session: Session, line: Line) -> Iterator[Decision]:
    group = line.head
    session.groups_examined += 1
    reason = standing_problem(session, group) or incomplete(group)
    found: list[tuple[Pod, Node]] = []
    if reason is None:
        found, reason = _find(session, line)
    if found and group.is_ready:
        yield GangBindDecided(
            pod_group=group.key, queue=group.queue, placements=placements(session.cluster, found)
        )
    elif reason is not None:
        yield from refuse_line(line, reason)


def _find(session: Session, line: Line) -> tuple[list[tuple[Pod, Node]], Reason | None]:
    trial = Trial(session.cluster, line.head)
    reason: Reason | None = None
    for pod in line.head.pending:
        if not pod.pod_class.is_best_effort:
            continue
        node = session.rankings.of(pod.pod_class, None).best()
        if node is None:
            reason = no_node(session.rankings, pod, None)
        else:
            trial.place(pod, node, later=False)
    trial.discard()
    return trial.now, reason
