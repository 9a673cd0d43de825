"""A log, or a part of one, into a bundle; a whole log into a database."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from msgspec import Struct

from daemon.log.bundle import WHOLE, BundleWriter, Header, Held
from daemon.log.contents import ObjectRow, Packer, tombstone
from daemon.log.contract import Log, ReadableLog
from daemon.log.entry import Base, Entry
from daemon.log.verify import Checker, Progress, Verified
from events.codec import FORMAT
from events.errors import UsageError
from events.record import GENESIS, Head, StoredObject

RECORDS_AT_ONCE = 2000


class Exported(Struct, frozen=True):
    """A bundle that was written, and how many objects of each redacted kind it leaves out."""

    header: Header
    left_out: dict[str, int]


async def export(
    log: ReadableLog,
    path: Path,
    *,
    first: int | None = None,
    last: int | None = None,
    base: Base | None = None,
    redact: frozenset[str] = frozenset(),
    notes: dict[str, str] | None = None,
    replaces: bool = False,
    pause: Callable[[], Awaitable[None]] | None = None,
) -> Exported:
    """Write the batches that hold positions `first` to `last` into a bundle; by default all.

    `base` says what stands at the end of the batch before `first`; without it such a bundle can be read, but not folded.
    `redact` names Kubernetes kinds, as records call them, whose objects are replaced by tombstones. A file
    that is there already is replaced only where `replaces` says so. `pause` is awaited between chunks.
    """
    begin, head = await bounds(log, first, last)
    assert base is None or base.head.position == begin.position
    header = Header(
        muster_bundle=WHOLE,
        format=FORMAT,
        base=begin,
        head=head,
        redacted=tuple(sorted(redact)),
        notes=notes or {},
    )
    checker = Checker(begin)
    writer = await asyncio.to_thread(BundleWriter, path, header, base=base, replaces=replaces)
    try:
        async for entries in log.read(begin.position, head.position):
            for entry in entries:
                checker.take(entry)
            await asyncio.to_thread(writer.add, entries)
            if pause is not None:
                await pause()
        checker.finish(head)
        await asyncio.to_thread(writer.finish)
    finally:
        writer.abandon()
    return Exported(header, writer.left_out)


async def copy_whole(
    source: ReadableLog, target: Log, progress: Progress | None = None
) -> Verified:
    """Copy a log into an empty one, record by record, and check it on the way. One that begins behind a position stays so: what
    stands there becomes the base of the target."""
    base = await _base_of(source)
    if target.head != GENESIS:
        raise UsageError(f"{target.place} is not empty; a log is imported into a new one")
    if base is not None:
        await target.begin_behind(source.base, base)
    checker, packer = Checker(source.base), _Packed()
    async for entries in _whole_batches(source):
        for entry in entries:
            checker.take(entry)
        epoch = entries[0].record.epoch
        if epoch != target.head.epoch:
            await target.take_over("import", epoch=epoch)
        await target.append_stored([entry.record for entry in entries], packer.rows(entries))
        if progress is not None:
            progress(target.head.position)
    verified = checker.finish(source.head)
    if source.head.epoch != target.head.epoch:
        await target.take_over("import", epoch=source.head.epoch)
    return verified


async def copy_until(source: ReadableLog, target: Log, position: int) -> None:
    """Copy a log into an empty one up to a position at which a batch ends, and check it on the way. One that begins
    behind a position stays so."""
    base = await _base_of(source)
    if target.head != GENESIS:
        raise UsageError(f"{target.place} is not empty; a branch is written to a new log")
    if base is not None:
        await target.begin_behind(source.base, base)
    checker, packer = Checker(source.base), _Packed()
    async for entries in _whole_batches(source, position):
        for entry in entries:
            checker.take(entry)
        epoch = entries[0].record.epoch
        if epoch != target.head.epoch:
            await target.take_over("import", epoch=epoch)
        await target.append_stored([entry.record for entry in entries], packer.rows(entries))


async def _base_of(source: ReadableLog) -> Base | None:
    """Return what a log begins with; None for one that begins with the first record. Raises UsageError if that is missing."""
    if source.base == GENESIS:
        return None
    base = await source.read_base()
    if base is None:
        raise UsageError(
            f"{source.place} begins behind position {source.base.position} without what stands there; "
            "such a log cannot be imported"
        )
    return base


async def bounds(log: ReadableLog, first: int | None, last: int | None) -> tuple[Head, Head]:
    """The heads before and after the batches that hold positions `first` to `last`. Raises UsageError outside of the log."""
    base, head = log.base, log.head
    lowest, highest = base.position + 1, head.position
    first, last = first or lowest, highest if last is None else last
    if not lowest <= first <= last <= highest and (first, last) != (lowest, highest):
        raise UsageError(
            f"{log.place} holds positions {lowest} to {highest}, not {first} to {last}"
        )
    if first > lowest:
        start = (await _entry(log, first)).record.batch
        base = base if start <= lowest else _head_at(await _entry(log, start - 1))
    if last < highest:
        head = await _end_of_batch(log, last)
    return base, head


async def _end_of_batch(log: ReadableLog, position: int) -> Head:
    """The head after the batch that holds a position."""
    end: Entry | None = None
    async for entries in log.read(position - 1):
        for entry in entries:
            if end is not None and entry.record.batch == entry.record.position:
                return _head_at(end)
            end = entry
    return log.head


async def _entry(log: ReadableLog, position: int) -> Entry:
    async for entries in log.read(position - 1, position):
        return entries[0]
    raise UsageError(f"{log.place} has no position {position}")


def _head_at(entry: Entry) -> Head:
    record = entry.record
    return Head(position=record.position, digest=record.digest, epoch=record.epoch)


async def _whole_batches(log: ReadableLog, until: int | None = None) -> AsyncIterator[list[Entry]]:
    """Entries in lists that end where a batch ends, each of one epoch."""
    gathered: list[Entry] = []
    async for entries in log.read(until=until):
        for entry in entries:
            begins = entry.record.batch == entry.record.position
            full = len(gathered) >= RECORDS_AT_ONCE
            if gathered and begins and (full or entry.record.epoch != gathered[-1].record.epoch):
                yield gathered
                gathered = []
            gathered.append(entry)
    if gathered:
        yield gathered


async def stored_batches(log: ReadableLog) -> AsyncIterator[tuple[list[Entry], list[ObjectRow]]]:
    """Whole batches of a log, with the rows of the objects that they refer to."""
    packer = _Packed()
    async for entries in _whole_batches(log):
        yield entries, packer.rows(entries)


class _Packed:
    """Rows of objects, leaving out those that were made a moment ago."""

    def __init__(self) -> None:
        self._packer = Packer()
        self._held = Held[None]()

    def rows(self, entries: list[Entry]) -> list[ObjectRow]:
        """The rows of the objects that entries refer to."""
        rows: list[ObjectRow] = []
        for entry in entries:
            digest = entry.record.object
            if digest is None or digest in self._held:
                continue
            self._held.hold(digest, None, 0)
            if entry.content is None:
                rows.append(tombstone(digest))
            else:
                rows += self._packer.rows([StoredObject(digest=digest, content=entry.content)])
        return rows
