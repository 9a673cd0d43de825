"""One event in the history of a subject."""

from msgspec import Struct

from events.record import Record


class HistoryEvent(Struct, frozen=True):
    """What one record means for a subject."""

    position: int
    recorded_at_ns: int
    kind: str
    subject: str
    """The subject of the record."""
    cause: int | None
    what: str
    lines: list[str] = []
    """More of it: the pods of a decision, further changes."""

    @staticmethod
    def of(record: Record, texts: list[str]) -> "HistoryEvent":
        """Return what a record means, in one or more lines."""
        first, *more = texts
        return HistoryEvent(
            position=record.position,
            recorded_at_ns=record.recorded_at_ns,
            kind=record.kind,
            subject=record.subject,
            cause=record.cause,
            what=first,
            lines=more,
        )
