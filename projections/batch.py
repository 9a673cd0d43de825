"""A batch: what the loop appends in one go. It is there whole or not at all."""

from msgspec import Struct, field

from events.record import Head, Record, StoredObject
from projections.views.rows import ViewChanges


class Batch(Struct, frozen=True):
    """Sealed records, the objects they refer to, and how the views change."""

    before: Head
    """The head that the log must have for this batch to be appended."""
    records: list[Record]
    objects: list[StoredObject] = field(default_factory=list)
    """Each object that `records` refer to and that this process did not append before."""
    views: ViewChanges = field(default_factory=dict)

    @property
    def after(self) -> Head:
        """The head once the batch is in the log."""
        last = self.records[-1]
        return Head(position=last.position, digest=last.digest, epoch=last.epoch)
