"""A log that lost its end: how that is found, and how the loss is accepted.

A log is compared with heads that it is known to have had: the one that this process made durable (`daemon/log/session.py`), the
anchor in a file beside a SQLite log (`daemon/log/anchor_file.py`), and the anchor on the Lease. A failover to a database that had
not received the last records, a write-ahead log that was deleted, or a file that was put in the place of another one leaves a
log that is sound in itself and ends too early: what was decided last is in the cluster and not in the log. Nothing is decided on
such a log until the loss was accepted, which is a record of its own.

Positions go on where the log ends, so those of lost records are used again, for other records with other digests.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from daemon.log.anchors import Anchor
from daemon.log.contract import Log, ReadableLog
from engine.batch import Batch
from events.chain import Draft, seal
from events.codec import encode, event_of
from events.daemon import RecordsLost
from events.errors import LogUnavailableError, LostRecordsError, UsageError
from events.record import Head, Record

SUBJECT: Final = "Log//"
"""The subject of the records of losses."""

IDENTITY_DIGITS: Final = 16

ADVICE: Final = "restore the newest database or file of this log; to go on without the lost records"


async def digest_at(log: ReadableLog, position: int) -> str | None:
    """Return the digest at a position; None if the log does not hold it."""
    if position == log.base.position:
        return log.base.digest
    async for entries in log.read(after=position - 1, until=position):
        return entries[0].record.digest
    return None


async def losses(log: ReadableLog) -> list[tuple[Record, RecordsLost]]:
    """Return the losses that were accepted, in order."""
    found: list[tuple[Record, RecordsLost]] = []
    positions = await log.positions_of([SUBJECT], log.head.position)
    async for entries in log.entries_at(positions):
        for record in (entry.record for entry in entries):
            event = event_of(record)
            if isinstance(event, RecordsLost):
                found.append((record, event))
    return found


async def is_accepted(log: ReadableLog, anchor: Anchor) -> bool:
    """Return True if the loss of exactly the record that an anchor states was accepted."""
    lost = [(event.last, event.digest) for _, event in await losses(log)]
    return (anchor.position, anchor.digest) in lost


async def loss_of(log: ReadableLog, anchor: Anchor) -> str | None:
    """Return what differs if a log does not hold the record that an anchor states; None if it does, if the record was archived,
    or if the loss was accepted."""
    head = log.head
    if anchor.position < log.base.position:
        return None
    if anchor.position > head.position:
        text = (
            f"position {anchor.position}: lost: the log ends at position {head.position}, but {anchor.source} states that "
            f"position {anchor.position} was written"
        )
    elif (digest := await digest_at(log, anchor.position)) != anchor.digest:
        text = (
            f"position {anchor.position}: lost: the log ends at position {head.position} and has digest {digest} at position "
            f"{anchor.position}, but {anchor.source} states {anchor.digest}"
        )
    else:
        return None
    return None if await is_accepted(log, anchor) else text


async def check_anchors(log: ReadableLog, anchors: Sequence[Anchor]) -> None:
    """Raise LostRecordsError if the log does not hold what the anchors state."""
    for anchor in anchors:
        if (text := await loss_of(log, anchor)) is not None:
            raise LostRecordsError(f"{log.place}: {text}; {ADVICE}: {accepting(log, anchors)}")


async def has_loss(log: ReadableLog, anchors: Sequence[Anchor]) -> bool:
    """Return True if a log lacks something that anchors state, and that loss was not accepted."""
    for anchor in anchors:
        if await loss_of(log, anchor) is not None:
            return True
    return False


async def identity_of(log: ReadableLog) -> str:
    """Return what tells a log from others: the first digits of its first digest, or of that behind which it begins."""
    base = log.base
    found = base.digest if base.position else await digest_at(log, 1)
    return (found or "")[:IDENTITY_DIGITS]


async def keep_end_checked(
    log: "CheckedLog", every_seconds: float, failed: Callable[[LogUnavailableError], None]
) -> None:
    """Compare the log with its last durable head at intervals, until cancelled. LostRecordsError if it does not hold that.

    `failed` is called with the error if the log cannot be reached: no append may find that for long.
    """
    while True:
        await asyncio.sleep(every_seconds)
        try:
            await log.check_end()
        except LogUnavailableError as error:
            failed(error)


class CheckedLog(Protocol):
    """A log whose end can be compared with what was durable."""

    async def check_end(self) -> None:
        """Raise LostRecordsError, or LogUnavailableError if it cannot be read."""


def accepting(log: ReadableLog, anchors: Sequence[Anchor]) -> str:
    """Return the command that accepts a loss."""
    named = " ".join(f"--anchor {one}" for one in dict.fromkeys(_text(one) for one in anchors))
    return f"`muster log accept-loss {log.place} {named}`"


def _text(anchor: Anchor) -> str:
    return f"{anchor.position}:{anchor.digest}"


async def accept_loss(
    log: Log, anchors: Sequence[Anchor], *, by: str, now_ns: int
) -> list[RecordsLost]:
    """Record that what anchors state is lost, as one batch of a new epoch; return what was recorded.

    Anchors that the log holds, or whose loss was accepted before, are left out. UsageError if none is left: a loss is accepted only
    where there is one.
    """
    lost: list[RecordsLost] = []
    for anchor in sorted(anchors, key=lambda one: one.position):
        if await loss_of(log, anchor) is not None:
            first = min(log.head.position + 1, anchor.position)
            lost.append(
                RecordsLost(
                    first=first,
                    last=anchor.position,
                    digest=anchor.digest,
                    source=anchor.source,
                    accepted_by=by,
                )
            )
    if not lost:
        raise UsageError(f"{log.place}: nothing of it is lost: it holds what these anchors state")
    before = log.head
    last_ns = 0
    async for entries in log.read(after=before.position - 1, until=before.position):
        last_ns = entries[0].record.recorded_at_ns
    head = await log.take_over(by)
    records = _sealed(head, lost, max(now_ns, last_ns))
    await log.append(Batch(before=head, records=records))
    return lost


def _sealed(head: Head, lost: Sequence[RecordsLost], at_ns: int) -> list[Record]:
    records: list[Record] = []
    digest, first = head.digest, head.position + 1
    for position, event in enumerate(lost, first):
        draft = Draft(
            position=position,
            batch=first,
            epoch=head.epoch,
            recorded_at_ns=at_ns,
            cycle=None,
            cause=None,
            kind=event.kind,
            subject=SUBJECT,
            body=encode(event),
            object=None,
        )
        records.append(seal(digest, draft))
        digest = records[-1].digest
    return records
