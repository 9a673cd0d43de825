"""Where a log in a database begins, and the deletion of the archived records before that.

The base moves in one short transaction; from then on the records before it are not read. They are deleted afterwards in
steps, so that no append waits for long. Objects go first: while a record is there, its objects can be looked up again after a kill.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log import tables
from daemon.log.base_records import objects_of
from daemon.log.database import Database
from daemon.log.entry import Base
from daemon.log.reading import Reader
from daemon.log.session import Work
from events.errors import DamagedLogError, LogUnavailableError
from events.record import Head

PURGED_AT_ONCE: Final = 5_000
"""Records, or objects, that one transaction deletes."""

LOOKED_AT_ONCE: Final = 50_000
"""Records whose references to objects are read in one go."""

_ARGUMENTS_MAX: Final = 500
"""Digests in one statement: older SQLite libraries take at most 999 parameters."""

Pause: TypeAlias = Callable[[], Awaitable[None]]
"""Called after each transaction: whoever deletes beside other work waits there."""


async def move(connection: AsyncConnection, old: Head, head: Head, base: Base | None) -> None:
    """Write where the log begins, with the records of what stands there, and delete the snapshots up to it.

    Raises LogUnavailableError if the base is not the old one any more, or if records between the two are missing.
    """
    moved = await connection.execute(
        update(tables.log_base)
        .where(tables.log_base.c.position == old.position, tables.log_base.c.digest == old.digest)
        .values(
            position=head.position,
            digest=head.digest,
            epoch=head.epoch,
            base_digest=None if base is None else base.digest,
            records=None if base is None else base.payload,
        )
    )
    log = tables.log
    if head.position < old.position:
        between = select(func.count()).where(
            log.c.position > head.position, log.c.position <= old.position
        )
        is_whole = (await connection.execute(between)).scalar() == old.position - head.position
    else:
        is_whole = True
    if moved.rowcount != 1 or not is_whole:
        raise LogUnavailableError("another process archives or joins this log: ask again")
    table = tables.snapshot
    await connection.execute(delete(table).where(table.c.position <= head.position))


async def read(connection: AsyncConnection, place: str) -> Base:
    """Return the records with which a log begins; whether they are those that were written shows when they are unpacked.

    Raises DamagedLogError.
    """
    table = tables.log_base
    query = select(
        table.c.position, table.c.digest, table.c.epoch, table.c.base_digest, table.c.records
    )
    position, digest, epoch, base_digest, stored = (await connection.execute(query)).one()
    if not isinstance(stored, bytes) or not isinstance(base_digest, str):
        raise DamagedLogError(
            f"{place}: table log_base: the records of what stands at position {position} cannot be read; "
            "restore the newest backup"
        )
    return Base(Head(position, digest, epoch), base_digest, stored)


async def purge(
    database: Database,
    reader: Reader,
    run: Callable[[Work], Awaitable[None]],
    pause: Pause | None = None,
    also: frozenset[str] = frozenset(),
) -> int:
    """Delete the records at or before the base, and of their objects and those of the digests `also` those that neither other
    records nor the base refer to; return how many records."""
    log, base = tables.log, reader.base.position
    async with reader.connection(is_patient=True) as connection:
        query = select(func.min(log.c.position)).where(log.c.position <= base)
        first = (await connection.execute(query)).scalar()
    if first is None:
        return 0
    await _purge_objects(database, reader, run, pause, int(first), also)
    for start in range(int(first), base + 1, PURGED_AT_ONCE):
        end = min(start + PURGED_AT_ONCE - 1, base)

        async def step(connection: AsyncConnection, start: int = start, end: int = end) -> None:
            await connection.execute(delete(log).where(log.c.position.between(start, end)))

        await _step(run, step, pause)
    return base - int(first) + 1


async def _purge_objects(
    database: Database,
    reader: Reader,
    run: Callable[[Work], Awaitable[None]],
    pause: Pause | None,
    first: int,
    also: frozenset[str],
) -> None:
    base = reader.base.position
    found = set(also)
    for start in range(first, base + 1, LOOKED_AT_ONCE):
        found |= await _references(reader, start, min(start + LOOKED_AT_ONCE - 1, base))
    if reader.base_digest is not None:
        async with reader.connection(is_patient=True) as connection:
            at_base = await read(connection, database.place)
        held = await asyncio.to_thread(objects_of, at_base, database.place)
        found -= {one.digest for one in held}
    seen = base
    end = (await reader.head()).position
    while seen < end and found:
        upper = min(seen + LOOKED_AT_ONCE, end)
        found -= await _references(reader, seen + 1, upper)
        seen = upper
    rest = sorted(found)
    for at in range(0, len(rest), PURGED_AT_ONCE):
        some = rest[at : at + PURGED_AT_ONCE]

        async def step(
            connection: AsyncConnection, some: list[str] = some, seen: int = seen
        ) -> None:
            # No append takes place from here to the end of the transaction.
            await connection.exec_driver_sql(database.statements.lock_head)
            await connection.execute(update(tables.log_base).values(purging=1))
            log, objects = tables.log, tables.objects
            newer = select(log.c.object).where(log.c.position > seen, log.c.object.is_not(None))
            live = {digest for (digest,) in await connection.execute(newer)}
            gone = [digest for digest in some if digest not in live]
            for begin in range(0, len(gone), _ARGUMENTS_MAX):
                part = gone[begin : begin + _ARGUMENTS_MAX]
                await connection.execute(delete(objects).where(objects.c.digest.in_(part)))
            await connection.execute(update(tables.log_base).values(purging=0))

        await _step(run, step, pause)


async def _references(reader: Reader, first: int, last: int) -> set[str]:
    """Return the digests of the objects that records refer to."""
    log = tables.log
    query = select(log.c.object).where(
        log.c.position.between(first, last), log.c.object.is_not(None)
    )
    async with reader.connection(is_patient=True) as connection:
        return {str(digest) for (digest,) in await connection.execute(query)}


async def _step(run: Callable[[Work], Awaitable[None]], step: Work, pause: Pause | None) -> None:
    await run(step)
    if pause is not None:
        await pause()
