"""Snapshots: State at a position, packed. They only save time, so a bad one is passed over."""

import asyncio

import zstandard
from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log import tables
from daemon.log.entry import Snapshot
from events.errors import DamagedLogError

KEPT = 3
"""The newest so many are kept."""
PAYLOAD_BYTES_MAX = 8 << 30
LEVEL = 3


def pack(payload: bytes) -> bytes:
    """A payload as stored, with a checksum of its own."""
    return zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(payload)


def unpack(packed: bytes) -> bytes | None:
    """The payload, or null where the stored bytes are damaged."""
    try:
        return zstandard.ZstdDecompressor().decompress(packed, max_output_size=PAYLOAD_BYTES_MAX)
    except zstandard.ZstdError:
        return None


async def save(connection: AsyncConnection, snapshot: Snapshot, packed: bytes) -> None:
    """Store a snapshot of the log as it is, and let the oldest go."""
    table, log = tables.snapshot, tables.log
    at = select(log.c.digest).where(log.c.position == snapshot.position)
    if (await connection.execute(at)).scalar() != snapshot.digest:
        raise DamagedLogError(
            f"position {snapshot.position}: the log does not have the digest of the snapshot"
        )
    same = (table.c.position == snapshot.position) & (table.c.version == snapshot.version)
    await connection.execute(delete(table).where(same))
    await connection.execute(
        insert(table).values(
            position=snapshot.position,
            version=snapshot.version,
            digest=snapshot.digest,
            payload=packed,
        )
    )
    newest = select(table.c.position).distinct().order_by(table.c.position.desc()).limit(KEPT)
    await connection.execute(delete(table).where(table.c.position.not_in(newest)))


async def latest(connection: AsyncConnection, version: int, before: int | None) -> Snapshot | None:
    """The newest sound snapshot of a version at or before a position that is one of this log."""
    table, log = tables.snapshot, tables.log
    of_this_log = (log.c.position == table.c.position) & (log.c.digest == table.c.digest)
    found = (
        select(table.c.position, table.c.digest, table.c.payload)
        .join(log, of_this_log)
        .where(table.c.version == version)
        .order_by(table.c.position.desc())
    )
    if before is not None:
        found = found.where(table.c.position <= before)
    for position, digest, packed in await connection.execute(found):
        payload = await asyncio.to_thread(unpack, packed)
        if payload is not None:
            return Snapshot(position=position, digest=digest, version=version, payload=payload)
    return None
