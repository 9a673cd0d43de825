"""Whether a log is what it was: the chain, the batches, the objects, the head."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from daemon.log.anchors import Anchor, AnchorChecker, Anchored
from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from events.chain import check_link
from events.codec import event_of
from events.daemon import RecordsLost
from events.errors import DamagedLogError
from events.record import Head, Record

Progress = Callable[[int], None]
"""Told the position reached, now and then."""


class Verified(Struct, frozen=True):
    """What a sound log holds."""

    head: Head
    records: int
    batches: int
    objects: int
    """Distinct objects that records refer to."""
    redacted: int
    """How many of these were taken out on purpose."""
    anchored: Anchored = Anchored()
    """The anchors that the log was compared with."""
    losses: tuple[tuple[int, RecordsLost], ...] = ()
    """Losses that were accepted, with the positions of their records."""


class Checker:
    """Takes entries in one after the other, and stops at the first that is not as it must be."""

    def __init__(self, base: Head, anchors: Sequence[Anchor] = ()) -> None:
        self._anchors = AnchorChecker(list(anchors), base)
        self._base = base
        self._head = base
        self._batch = 0
        self._batches = 0
        self._objects: dict[str, bool] = {}
        self._losses: list[tuple[int, RecordsLost]] = []

    def take(self, entry: Entry) -> None:
        """Check the next entry. Reading has compared its object with the object's digest."""
        record = entry.record
        self._head = check_link(self._head, record)
        event = event_of(record)
        if isinstance(event, RecordsLost):
            self._losses.append((record.position, event))
            self._anchors.accept(event.first, event.last)
        self._anchors.compare(self._head)
        self._check_batch(record)
        for name, position in (("cycle", record.cycle), ("cause", record.cause)):
            if position is not None and not 0 <= position <= record.position:
                raise DamagedLogError(
                    f"position {record.position}: {name} {position} is ahead of it"
                )
        if record.object is not None:
            self._objects[record.object] = entry.redacted

    def finish(self, head: Head) -> Verified:
        """What was verified, if it ends where the log says that it ends."""
        end = self._head
        if (end.position, end.digest) != (head.position, head.digest) or head.epoch < end.epoch:
            at = end.position + (head.position > end.position)
            raise DamagedLogError(
                f"position {at}: the log ends at {end.position}, but its head says "
                f"position {head.position} of epoch {head.epoch}"
            )
        return Verified(
            head=head,
            records=end.position - self._base.position,
            batches=self._batches,
            objects=len(self._objects),
            redacted=sum(self._objects.values()),
            anchored=self._anchors.finish(end),
            losses=tuple(self._losses),
        )

    def _check_batch(self, record: Record) -> None:
        if record.batch == record.position:
            self._batch = record.batch
            self._batches += 1
        elif record.batch != self._batch:
            raise DamagedLogError(
                f"position {record.position}: its batch begins at {record.batch}, "
                f"the one before it at {self._batch}"
            )


async def verify(
    log: ReadableLog, progress: Progress | None = None, anchors: Sequence[Anchor] = ()
) -> Verified:
    """Check a log whole, and what a start relies on beside the records; compare it with anchors.

    `DamagedLogError` names the position, the table or the index, `NewerRecordError` the position.
    """
    checker = Checker(log.base, anchors)
    head = log.head
    async for entries in log.read(until=head.position):
        for entry in entries:
            checker.take(entry)
        if progress is not None:
            progress(entries[-1].record.position)
    verified = checker.finish(head)
    await log.check_rest()
    return verified
