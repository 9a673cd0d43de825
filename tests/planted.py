"""Logs with a decision that muster would not make: one record is altered, and the chain is sealed again."""

from collections.abc import Callable, Sequence

from msgspec import structs

from daemon.log.contract import Log
from daemon.log.entry import Entry
from engine.batch import Batch
from events.chain import Draft, seal
from events.codec import encode, event_of
from events.decision import Decision
from events.record import GENESIS, Head, Record, StoredObject


def altered(
    entries: Sequence[Entry], alter: Callable[[Record, Decision], Decision | None]
) -> tuple[list[Entry], int]:
    """The log with the first decision altered for which `alter` returns another one, and its position."""
    position, digest = 0, GENESIS.digest
    found: list[Entry] = []
    for entry in entries:
        record = entry.record
        event = event_of(record)
        other = alter(record, event) if isinstance(event, Decision) and not position else None
        if other is not None:
            position = record.position
            record = structs.replace(
                record, kind=other.kind, subject=other.subject, body=encode(other)
            )
        record = seal(digest, _draft(record))
        digest = record.digest
        found.append(structs.replace(entry, record=record))
    assert position, "nothing was altered"
    return found, position


def _draft(record: Record) -> Draft:
    return Draft(*(getattr(record, name) for name in Draft.__struct_fields__))


async def store(entries: Sequence[Entry], log: Log) -> None:
    """Append records, batch by batch, to an empty log."""
    await log.take_over("test", epoch=entries[0].record.epoch)
    before = Head(0, GENESIS.digest, entries[0].record.epoch)
    known: dict[str, None] = {}
    at = 0
    while at < len(entries):
        end = at
        while end < len(entries) and entries[end].record.batch == entries[at].record.batch:
            end += 1
        records = [one.record for one in entries[at:end]]
        objects = []
        for one in entries[at:end]:
            digest = one.record.object
            if digest is not None and one.content is not None and digest not in known:
                known[digest] = None
                objects.append(StoredObject(digest=digest, content=one.content))
        await log.append(Batch(before=before, records=records, objects=objects, views={}))
        last = records[-1]
        before = Head(last.position, last.digest, last.epoch)
        at = end
