"""Snapshots: State at a position, packed. They only save time, so a bad one is passed over. `daemon/log/ladder.py` says which are kept.

Stored bytes: `MAGIC`, then the SHA-256 (32 bytes) of the log's digest at the position, the position, the code
that wrote it (`daemon/log/code_key.py`) and the rest; the rest is a zstd frame. So a snapshot that was damaged, or is of another position or another log,
is never taken for State.
"""

from hashlib import sha256
from io import BufferedReader, BytesIO

import zstandard
from sqlalchemy import delete, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log import tables
from daemon.log.code_key import KEPT_BASE
from daemon.log.entry import Snapshot
from daemon.log.ladder import NEWEST_KEPT, StoredSnapshot, bytes_max, surplus
from events.errors import DamagedLogError
from projections.snapshot import load, write
from projections.state import State

LEVEL = 3
BASES_KEPT = 2
"""A base that is damaged is passed over at a start."""
MAGIC = b"muster snapshot 1\n"


def payload_of(state: State) -> bytes:
    """State as a zstd frame. It is compressed part by part, so that it is never held encoded as a whole."""
    frame = BytesIO()
    with zstandard.ZstdCompressor(level=LEVEL).stream_writer(frame, closefd=False) as writer:
        write(state, writer.write)
    return frame.getvalue()


def state_of(payload: bytes, policy: bytes | None = None) -> State:
    """The State of a payload; with another `policy` as if that had been in force before."""
    from features.table import (
        FEATURES,  # the table imports all that decides; a log is opened without
    )

    with zstandard.ZstdDecompressor().stream_reader(payload) as reader:
        return load(BufferedReader(reader).read, FEATURES, policy)


def facts_of(payload: bytes) -> bytes:
    """The bytes that `projections/snapshot.py` wrote."""
    with zstandard.ZstdDecompressor().stream_reader(payload) as reader:
        return reader.readall()


def pack(snapshot: Snapshot) -> bytes:
    """A snapshot as stored."""
    frame = snapshot.payload
    return MAGIC + _digest(snapshot.position, snapshot.code, snapshot.digest, frame) + frame


def unpack(stored: bytes, position: int, code: str, digest: str) -> bytes | None:
    """The payload, or null where the stored bytes are not those that were packed for this position."""
    begin = len(MAGIC) + sha256().digest_size
    frame = stored[begin:]
    if stored[:begin] != MAGIC + _digest(position, code, digest, frame):
        return None
    return frame


def _digest(position: int, code: str, digest: str, frame: bytes) -> bytes:
    return sha256(f"{digest} {position} {code} ".encode() + frame).digest()


async def save(connection: AsyncConnection, snapshot: Snapshot, packed: bytes) -> None:
    """Store a snapshot of the log as it is, and delete those that `daemon/log/ladder.py` does not keep."""
    table, log = tables.snapshot, tables.log
    at = select(log.c.digest).where(log.c.position == snapshot.position)
    if (await connection.execute(at)).scalar() != snapshot.digest:
        raise DamagedLogError(
            f"position {snapshot.position}: the log does not have the digest of the snapshot"
        )
    same = (table.c.position == snapshot.position) & (table.c.code == snapshot.code)
    await connection.execute(delete(table).where(same))
    await connection.execute(
        insert(table).values(
            position=snapshot.position,
            code=snapshot.code,
            digest=snapshot.digest,
            payload=packed,
        )
    )
    await _thin(connection, snapshot.code)


async def _thin(connection: AsyncConnection, code: str) -> None:
    """Delete what the ladder of some code does not keep. Of other code the newest few are kept, for another release, and of kept
    bases the newest ones."""
    table = tables.snapshot
    if code == KEPT_BASE:
        older = (await positions(connection, code))[:-BASES_KEPT]
        is_older = (table.c.code == code) & table.c.position.in_(older)
        await connection.execute(delete(table).where(is_older))
        return
    stored, others = await _stored(connection, code), table.c.code.not_in((code, KEPT_BASE))
    head = await connection.execute(select(tables.log_head.c.position))
    most = bytes_max(await _log_bytes(connection))
    dropped = surplus(stored, head.scalar() or 0, most)
    if dropped:
        is_dropped = (table.c.code == code) & table.c.position.in_(dropped)
        await connection.execute(delete(table).where(is_dropped))
    newest = select(table.c.position).where(others).distinct()
    newest = newest.order_by(table.c.position.desc()).limit(NEWEST_KEPT)
    await connection.execute(delete(table).where(others, table.c.position.not_in(newest)))


async def _stored(connection: AsyncConnection, code: str) -> list[StoredSnapshot]:
    """Return the snapshots of some code, in order, without reading them."""
    table = tables.snapshot
    length = func.octet_length if connection.dialect.name == "postgresql" else func.length
    query = select(table.c.position, length(table.c.payload)).where(table.c.code == code)
    rows = await connection.execute(query.order_by(table.c.position))
    return [
        StoredSnapshot(position=position, size_bytes=size_bytes) for position, size_bytes in rows
    ]


async def _log_bytes(connection: AsyncConnection) -> int:
    """Return the bytes of the log: on SQLite of the file without snapshots, on PostgreSQL of records and objects."""
    if connection.dialect.name == "postgresql":
        sizes = "SELECT pg_total_relation_size('log') + pg_total_relation_size('objects')"
        return int((await connection.exec_driver_sql(sizes)).scalar() or 0)
    pages, free, size_bytes = [
        int((await connection.exec_driver_sql(f"PRAGMA {name}")).scalar() or 0)
        for name in ("page_count", "freelist_count", "page_size")
    ]
    payloads = await connection.execute(select(func.sum(func.length(tables.snapshot.c.payload))))
    return (pages - free) * size_bytes - (payloads.scalar() or 0)


async def positions(connection: AsyncConnection, code: str) -> list[int]:
    """Return the positions of the snapshots of some code, in order."""
    return sorted(await _positions(connection, code, None))


async def latest(
    connection: AsyncConnection, code: str, before: int | None
) -> tuple[Snapshot | None, list[str]]:
    """The newest sound snapshot of some code at or before a position, and what is wrong with newer ones."""
    wrong: list[str] = []
    for position in await _positions(connection, code, before):
        found, reason = await _one(connection, position, code)
        if found is not None:
            return found, wrong
        wrong.append(f"snapshot at position {position}: {reason}")
    return None, wrong


async def check(connection: AsyncConnection, codes: frozenset[str]) -> list[str]:
    """What is wrong with the snapshots of these codes."""
    wrong: list[str] = []
    for code in sorted(codes):
        for position in await _positions(connection, code, None):
            _, reason = await _one(connection, position, code)
            if reason:
                wrong.append(f"snapshot at position {position}: {reason}")
    return wrong


async def _positions(connection: AsyncConnection, code: str, before: int | None) -> list[int]:
    table = tables.snapshot
    query = select(table.c.position).where(table.c.code == code)
    if before is not None:
        query = query.where(table.c.position <= before)
    rows = await connection.execute(query.order_by(table.c.position.desc()))
    return [position for (position,) in rows if isinstance(position, int)]


async def _one(
    connection: AsyncConnection, position: int, code: str
) -> tuple[Snapshot | None, str]:
    """The snapshot, or why it does not count."""
    table, log = tables.snapshot, tables.log
    at = select(log.c.digest).where(log.c.position == position)
    expected = (await connection.execute(at)).scalar()
    here = (table.c.position == position) & (table.c.code == code)
    query = select(table.c.digest, table.c.payload).where(here)
    row = (await connection.execute(query)).one_or_none()
    if row is None:
        return None, "its row cannot be found again"
    digest, stored = row
    if expected is None or digest != expected:
        return None, "the log has another digest there"
    if not isinstance(stored, bytes):
        return None, "its bytes are of another type"
    payload = unpack(stored, position, code, digest)
    if payload is None:
        return None, "its bytes are not those that were written"
    found = Snapshot(position=position, digest=digest, code=code, payload=payload)
    return found, ""
