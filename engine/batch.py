"""A batch of records that the loop appends atomically."""

from msgspec import Struct, field

from events.record import Head, Record, StoredObject
from projections.views.rows import ViewChanges


class Batch(Struct, frozen=True):
    """Sealed records, the objects they refer to, and the changes of the views."""

    before: Head
    """The head that the log must have when this batch is appended."""
    records: list[Record]
    objects: list[StoredObject] = field(default_factory=list)
    """Objects that `records` refer to and that this process has not appended before."""
    views: ViewChanges = field(default_factory=dict)

    @property
    def after(self) -> Head:
        """Return the head of the log after the batch."""
        last = self.records[-1]
        return Head(position=last.position, digest=last.digest, epoch=last.epoch)
