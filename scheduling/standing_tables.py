"""What stands in a base of the tables that plugins bring."""

from collections.abc import Iterator
from typing import Final

from events.standing.plugins import DeservedStands, WaitingOverStands
from projections.base.contributor import BaseFold, Contributor, Stand, plain
from projections.state import State
from scheduling.plugins.proportion import DeservedShares
from scheduling.plugins.sla import Deadlines


def _deserved_stands(state: State) -> Iterator[Stand]:
    table = state.cluster.tables.find(DeservedShares)
    for name, amounts in () if table is None else table.queues.items():
        event = DeservedStands(queue=name, deserved=tuple(amounts.items()))
        yield Stand(f"Queue//{name}", event)


def _apply_deserved(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    event = stand.event
    assert isinstance(event, DeservedStands)
    table = fold.state.cluster.tables.of(DeservedShares)
    table.queues[event.queue] = dict(event.deserved)


def _waiting_stands(state: State) -> Iterator[Stand]:
    table = state.cluster.tables.find(Deadlines)
    for key, until_ns in () if table is None else table.overdue.items():
        yield Stand(f"PodGroup/{key}", WaitingOverStands(pod_group=key, until_ns=until_ns))


def _apply_waiting(fold: BaseFold, stand: Stand, _content: bytes | None) -> None:
    event = stand.event
    assert isinstance(event, WaitingOverStands)
    fold.state.cluster.tables.of(Deadlines).overdue[event.pod_group] = event.until_ns


STANDING_TABLES: Final = (
    Contributor(
        kinds=(DeservedStands,),
        pieces=plain(_deserved_stands),
        apply=_apply_deserved,
        table=DeservedShares,
    ),
    Contributor(
        kinds=(WaitingOverStands,),
        pieces=plain(_waiting_stands),
        apply=_apply_waiting,
        table=Deadlines,
    ),
)
