"""A batch of records that the loop appends atomically."""

from collections.abc import Container, Iterator

from msgspec import Struct, field

from events.codec import event_of
from events.record import Head, Record, StoredObject
from events.union import Event
from projections.views.rows import ViewChanges


class Batch(Struct, frozen=True):
    """Sealed records, the objects they refer to, and the changes of the views."""

    before: Head
    """The head that the log must have when this batch is appended."""
    records: list[Record]
    objects: list[StoredObject] = field(default_factory=list)
    """Objects that `records` refer to and that this process has not appended before."""
    views: ViewChanges = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    """The events of `records`, as they were encoded; none if they are not at hand."""

    def events_of(self, kinds: Container[str]) -> Iterator[tuple[Record, Event]]:
        """Yield the records of some kinds, with their events."""
        if self.events:
            for record, event in zip(self.records, self.events, strict=True):
                if record.kind in kinds:
                    yield record, event
            return
        for record in self.records:
            if record.kind in kinds:
                yield record, event_of(record)

    @property
    def after(self) -> Head:
        """Return the head of the log after the batch."""
        last = self.records[-1]
        return Head(position=last.position, digest=last.digest, epoch=last.epoch)
