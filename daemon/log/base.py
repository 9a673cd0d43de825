"""Where a log begins: with its first record, or behind archived ones with the facts at the cut.

The row of `log_base` holds the head before the first record and, unless that is genesis, the facts there, packed as a snapshot.
Here are the transactions that move it: `cut` behind records that are in an archive, `prepend` in front of records
that come back.
"""

import re
from collections.abc import AsyncIterator
from typing import Final

import msgspec
from msgspec import Struct
from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log import snapshots, tables
from daemon.log.database import Script
from daemon.log.entry import Snapshot
from events.errors import DamagedLogError, UsageError
from events.record import GENESIS, Head

DELETED_AT_ONCE: Final = 500
"""Objects that one statement deletes: SQLite takes at most 999 parameters."""

_DIGEST: Final = re.compile(rb"[0-9a-f]{64}")


class Base(Struct, frozen=True):
    """The head before the first record, and the facts there; none at genesis."""

    head: Head = GENESIS
    facts: Snapshot | None = None


async def read_base(connection: AsyncConnection, place: str) -> Base:
    """Return where the log begins. Raises DamagedLogError if that cannot be read."""
    table = tables.log_base
    columns = (table.c.position, table.c.digest, table.c.epoch, table.c.version, table.c.facts)
    row = (await connection.execute(select(*columns))).one_or_none()
    types = tuple[int, str, int, int | None, bytes | None]
    try:
        position, digest, epoch, version, stored = msgspec.convert(tuple(row or ()), types)
    except msgspec.ValidationError as error:
        raise DamagedLogError(f"{place}: table log_base: it cannot be read: {error}") from error
    head = Head(position=position, digest=digest, epoch=epoch)
    if version is None or stored is None:
        return Base(head)
    payload = snapshots.unpack(stored, position, version, digest)
    if payload is None:
        raise DamagedLogError(
            f"{place}: table log_base: the facts at position {position} are not those that were written"
        )
    return Base(head, Snapshot(position, digest, version, payload))


async def write_base(connection: AsyncConnection, base: Base) -> None:
    """Write where the log begins, within a transaction."""
    head, facts = base.head, base.facts
    await connection.execute(
        update(tables.log_base).values(
            position=head.position,
            digest=head.digest,
            epoch=head.epoch,
            version=None if facts is None else facts.version,
            facts=None if facts is None else snapshots.pack(facts),
        )
    )


async def begin_empty_log(connection: AsyncConnection, base: Base) -> None:
    """Let an empty log begin, and end, behind a position. Raises UsageError for one with records."""
    head = tables.log_head
    if (await connection.execute(select(head.c.position))).scalar() != 0:
        raise UsageError("the log is not empty")
    await write_base(connection, base)
    values = {"position": base.head.position, "digest": base.head.digest, "epoch": base.head.epoch}
    await connection.execute(update(head).values(values))


async def objects_to_drop(connection: AsyncConnection, base: Base, until: int) -> list[str]:
    """Return the objects that only records up to a base refer to, as of a later position, and that are not among its facts.

    State may refer to an object of its facts in a later record, without storing it again.
    """
    log = tables.log
    stays = select(log.c.object).where(
        log.c.position > base.head.position, log.c.position <= until, log.c.object.is_not(None)
    )
    goes = select(log.c.object).where(
        log.c.position <= base.head.position, log.c.object.is_not(None)
    )
    query = goes.distinct().where(log.c.object.not_in(stays.scalar_subquery()))
    found = {str(digest) for (digest,) in await connection.execute(query)}
    if base.facts is not None:
        named = _DIGEST.findall(snapshots.facts_of(base.facts.payload))
        found.difference_update(digest.decode() for digest in named)
    return sorted(found)


async def cut(connection: AsyncConnection, base: Base, dropped: list[str]) -> None:
    """Move the base behind records, which are deleted, within a transaction: with `dropped` objects, and snapshots.

    The caller has the records, and what they refer to, in an archive.
    """
    log, position = tables.log, base.head.position
    digest = (
        await connection.execute(select(log.c.digest).where(log.c.position == position))
    ).scalar()
    if digest != base.head.digest:
        raise DamagedLogError(
            f"position {position}: the log does not have the digest of the archive"
        )
    await write_base(connection, base)
    kept = await _without_triggers(connection)
    await connection.execute(delete(log).where(log.c.position <= position))
    for begin in range(0, len(dropped), DELETED_AT_ONCE):
        some = dropped[begin : begin + DELETED_AT_ONCE]
        await connection.execute(delete(tables.objects).where(tables.objects.c.digest.in_(some)))
    for statement in kept:
        await connection.exec_driver_sql(statement)
    await connection.execute(delete(tables.snapshot).where(tables.snapshot.c.position <= position))


async def prepend(connection: AsyncConnection, base: Base, scripts: AsyncIterator[Script]) -> None:
    """Insert records in front of the log, and move its base before them, within a transaction."""
    async for script in scripts:
        for statement, rows in script:
            await connection.exec_driver_sql(statement, [tuple(row) for row in rows])
    await write_base(connection, base)


async def _without_triggers(connection: AsyncConnection) -> list[str]:
    """Let records and objects be deleted in this transaction; return the statements that forbid it again."""
    names = ("log", "objects")
    if connection.dialect.name == "postgresql":
        for name in names:
            await connection.exec_driver_sql(f"ALTER TABLE {name} DISABLE TRIGGER {name}_no_change")
        return [f"ALTER TABLE {name} ENABLE TRIGGER {name}_no_change" for name in names]
    kept: list[str] = []
    for name in names:
        trigger = f"{name}_no_delete"
        query = f"SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = '{trigger}'"  # noqa: S608  # ours
        kept.append(str((await connection.exec_driver_sql(query)).scalar_one()))
        await connection.exec_driver_sql(f"DROP TRIGGER {trigger}")
    return kept
