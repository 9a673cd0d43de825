"""A base in the middle of a log, kept beside its snapshots: another release starts from it.

A snapshot is read by no other code than that which wrote it, so without a base the first start of a release folds all records of a log.
What stands is written as records (`projections/base/`), which later releases read; the objects that it names are those of the log.
The State is that of a snapshot, so nothing is folded for it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import islice
from typing import Final

import structlog

from daemon.log.base_records import BaseWriter, entries_of
from daemon.log.code_key import KEPT_BASE, code_key
from daemon.log.contract import ReadableLog
from daemon.log.entry import Base, Entry, Snapshot
from daemon.log.snapshots import state_of
from daemon.log.store import SqlLog
from events.errors import DamagedLogError, MusterError
from events.record import Head
from features.table import FEATURES
from projections.base.base_table import BaseReader, pieces_of
from projections.state import State

EVERY: Final = 200_000
"""Records between two bases: so many are folded at most by the first start of another release."""

AT_ONCE: Final = 1_000
"""Records of a base that are folded together."""

_DIGEST_CHARS: Final = 64

logger: Final = structlog.get_logger("muster")


async def keep_base(
    log: SqlLog, pause: Callable[[], Awaitable[None]], every: int = EVERY
) -> int | None:
    """Keep what stands at the newest snapshot, if the last base is so many records older; return its position, or None.

    `pause` is awaited between chunks. There is no base where an object was redacted, or where the log was archived meanwhile.
    """
    snapshot = await log.latest_snapshot(code_key())
    kept = await log.snapshot_positions(KEPT_BASE)
    last = max(kept, default=log.base.position)
    if snapshot is None or snapshot.position - last < every:
        return None
    state = await asyncio.to_thread(state_of, snapshot.payload)
    writer = BaseWriter(snapshot.head, 0)
    for piece in pieces_of(state):
        await pause()
        contents = await log.contents_of(piece.digests)
        if any(digest not in contents for digest in piece.digests):
            return None
        for stand in await asyncio.to_thread(lambda: list(piece.stands(contents))):  # noqa: B023  # it is awaited here
            writer.add_standing(stand, None)
    base = writer.finish()
    payload = base.digest.encode() + base.payload
    try:
        await log.save_snapshot(snapshot.position, snapshot.digest, KEPT_BASE, payload)
    except DamagedLogError:
        if await log.is_archived(snapshot.position):
            return None
        raise
    return snapshot.position


async def kept_state(log: ReadableLog, until: int | None) -> tuple[State, Head] | None:
    """Return the State of the newest kept base at or before a position; None if there is none, or if it cannot be folded."""
    kept = await log.latest_snapshot(KEPT_BASE, before=until)
    if kept is None or not isinstance(log, SqlLog):
        return None
    try:
        return await _state_of(log, kept), kept.head
    except MusterError as error:
        # What led there is in the log as well.
        logger.warning("a base is passed over", position=kept.position, error=str(error))
        return None


async def _state_of(log: SqlLog, kept: Snapshot) -> State:
    """Return the State of a kept base."""
    digest, packed = kept.payload[:_DIGEST_CHARS].decode(), kept.payload[_DIGEST_CHARS:]
    reader = BaseReader(kept.position, FEATURES)
    async for entries, contents in _read(log, Base(kept.head, digest, packed)):
        await asyncio.to_thread(_fold_entries, reader, entries, contents)
    return await asyncio.to_thread(reader.finish)


async def _read(log: SqlLog, base: Base) -> AsyncIterator[tuple[list[Entry], dict[str, bytes]]]:
    rest = entries_of(base, log.place)
    while entries := await asyncio.to_thread(lambda: list(islice(rest, AT_ONCE))):
        digests = [one.record.object for one in entries if one.record.object]
        yield entries, await log.contents_of(digests)


def _fold_entries(reader: BaseReader, entries: Sequence[Entry], contents: dict[str, bytes]) -> None:
    for entry in entries:
        record = entry.record
        content = None if record.object is None else contents.get(record.object)
        reader.take(record.kind, record.subject, record.body, record.object, content)
