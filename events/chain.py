"""The chain: each record's digest covers the digest before it and every other stored column.

    digest = SHA-256(previous digest || cell(position) || cell(batch) || ... || cell(object))

A cell is `length:bytes` (the length in bytes, decimal), or `-` for null. Integers are stored as
decimal text. Thus no two rows, and no two divisions of a row into columns, share a preimage.
"""

from functools import lru_cache
from hashlib import sha256

from msgspec import Struct

from events.errors import DamagedLogError
from events.record import Head, Record


class Draft(Struct, frozen=True, gc=False):
    """A record before it has a digest."""

    position: int
    batch: int
    epoch: int
    recorded_at_ns: int
    cycle: int | None
    cause: int | None
    kind: str
    subject: str
    body: bytes
    object: str | None


def digest_of(previous: str, row: Draft | Record) -> str:
    """The digest of a row that follows the row with the digest `previous`."""
    position, cycle = str(row.position), row.cycle
    cause = "" if row.cause is None else str(row.cause)
    subject, body = row.subject.encode(), row.body
    head = (
        f"{previous}{len(position)}:{position}{_number(row.batch)}{_number(row.epoch)}"
        f"{_number(row.recorded_at_ns)}{'-' if cycle is None else _number(cycle)}"
        f"{f'{len(cause)}:{cause}' if cause else '-'}{_kind(row.kind)}{len(subject)}:"
    )
    tail = "-" if row.object is None else f"{len(row.object.encode())}:{row.object}"
    return sha256(
        b"%b%b%d:%b%b" % (head.encode(), subject, len(body), body, tail.encode())
    ).hexdigest()


@lru_cache(maxsize=64)
def _number(number: int) -> str:
    """The cell of a number that the records of a batch share."""
    text = str(number)
    return f"{len(text)}:{text}"


@lru_cache(maxsize=64)
def _kind(kind: str) -> str:
    """The cell of a kind."""
    return f"{len(kind.encode())}:{kind}"


def seal(previous: str, draft: Draft) -> Record:
    """The record of a draft, chained to the digest before it."""
    return Record(
        draft.position,
        draft.batch,
        draft.epoch,
        draft.recorded_at_ns,
        draft.cycle,
        draft.cause,
        draft.kind,
        draft.subject,
        draft.body,
        draft.object,
        digest_of(previous, draft),
    )


def check_link(head: Head, record: Record) -> Head:
    """The head after `record`, or an error that names the position where the chain breaks."""
    if record.position != head.position + 1:
        raise DamagedLogError(
            f"position {head.position + 1}: missing; the next record is at {record.position}"
        )
    if digest_of(head.digest, record) != record.digest:
        raise DamagedLogError(f"position {record.position}: the digest does not fit the record")
    if not head.epoch <= record.epoch:
        raise DamagedLogError(
            f"position {record.position}: epoch {record.epoch} comes after epoch {head.epoch}"
        )
    return Head(position=record.position, digest=record.digest, epoch=record.epoch)
