"""Queues, with their objects."""

from collections.abc import Iterator
from typing import Final

from events.standing.objects import QueueStands
from projections.base.contributor import BaseFold, Contributor, Piece, Stand
from projections.base.objects import piece_of, reading_of
from projections.kinds.volcano_queue import read_queue
from projections.queue_objects import update_reported_errors, with_problem
from projections.queues import Queue
from projections.state import State


def _stands(state: State) -> Iterator[Stand]:
    for name, queue in state.cluster.queues.items():
        event = QueueStands(reported=queue.reported_errors)
        yield Stand(f"Queue//{name}", event, queue.digest or None)


def _pieces(state: State) -> Iterator[Piece]:
    yield piece_of(list(_stands(state)))


def _apply(fold: BaseFold, stand: Stand, content: bytes | None) -> None:
    event, cluster, name = stand.event, fold.state.cluster, stand.subject.rpartition("/")[2]
    assert isinstance(event, QueueStands)
    queue = cluster.queues[name] = Queue(name)
    if stand.object is not None:
        facts, problem = read_queue(reading_of(fold, stand, "", content))
        queue.set_object(with_problem(facts, problem), stand.object)
        cluster.queue_objects += 1
    queue.reported_errors = event.reported
    update_reported_errors(cluster, queue)


QUEUES: Final = Contributor(kinds=(QueueStands,), pieces=_pieces, apply=_apply)
