"""A log that a command makes: under its name it is whole, or it is not there.

A SQLite file is written beside its place and renamed when everything in it is on disk; a process that was killed leaves
`.NAME.part`, which the next command with this name removes. A PostgreSQL database cannot be renamed: until the log is whole, its
schema revision is `unfinished`, which every reader refuses, and the next command begins again with new tables.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from urllib.parse import quote

from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log import tables
from daemon.log.contract import Log
from daemon.log.database import (
    DRIVER_ERRORS,
    UNFINISHED,
    Contents,
    Database,
    check_found,
    located,
)
from daemon.log.opening import database_at, open_log
from daemon.log.sqlite import BESIDE, SqliteDatabase
from daemon.log.store import SqlLog, open_for_writing
from daemon.private_files import sync_folder
from events.errors import LogError, UsageError
from events.record import GENESIS

_TABLES = ("alembic_version", *sorted(tables.metadata.tables))
_DROP_TABLES = f"DROP TABLE IF EXISTS {', '.join(_TABLES)} CASCADE"
_DROP_FUNCTION = "DROP FUNCTION IF EXISTS muster_append_only() CASCADE"


@asynccontextmanager
async def new_log(url: str, why: str, *, replaces: bool = False) -> AsyncIterator[Log]:
    """Open an empty log to write, which has its name from when the block ends without an error.

    One that is there must be empty, or UsageError is raised with the reason `why`; with `replaces` a file stays until the new one
    takes its place.
    """
    if url == "memory:" or url.endswith(".muster"):
        log = await open_log(url, "write")
        try:
            yield log
        finally:
            await log.close()
        return
    database = database_at(url)
    if isinstance(database, SqliteDatabase):
        async with _new_file(database, None if replaces else why) as log:
            yield log
    else:
        async with _new_tables(database, why) as log:
            yield log


@asynccontextmanager
async def _new_file(target: SqliteDatabase, why: str | None) -> AsyncIterator[SqlLog]:
    try:
        path = target.path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a loop, before Python 3.13.
        raise UsageError(f"{target.place}: {error}") from error
    part = path.with_name(f".{path.name}.part")
    try:
        await target.lock()
        if why is not None:
            await _check_empty(target, why)
        await asyncio.to_thread(_remove, part)
        try:
            log = await open_for_writing(SqliteDatabase(part, place=target.place))
            try:
                yield log
            finally:
                await log.close()
            await asyncio.to_thread(_publish, part, path)
        finally:
            _remove(part)
    finally:
        await target.close()


async def _check_empty(target: SqliteDatabase, why: str) -> None:
    """Raise an error if there is a log with records, or something else. Nothing is changed."""
    try:
        found = await target.look()
        check_found(found, target.place, writing=True)
        if found.contents is not Contents.LOG:
            return
        async with target.readers.connect() as connection:
            rows = await connection.exec_driver_sql("SELECT position FROM log_head")
            if (rows.scalar() or 0) == 0:
                return
    except DRIVER_ERRORS as error:
        raise await located(target, error) from error
    raise _not_empty(target, why)


def _not_empty(target: Database, why: str) -> UsageError:
    return UsageError(f"{target.place} is not empty: {why}")


def _publish(part: Path, path: Path) -> None:
    """Put a closed file on disk and give it its name. What is beside an older file of that name goes with it."""
    name = f"file:{quote(str(part.absolute()))}?mode=rw"
    try:
        with closing(sqlite3.connect(name, uri=True)) as connection:
            # Nothing may be left beside a file that is renamed.
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.Error as error:
        raise LogError(f"{path}: {error}") from error
    assert not busy, f"{part} is open elsewhere"
    with part.open("rb") as file:
        os.fsync(file.fileno())
    for suffix in BESIDE:
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    part.replace(path)
    sync_folder(path.parent)


def _remove(part: Path) -> None:
    for suffix in ("", *BESIDE, ".lock", ".unsound"):
        Path(f"{part}{suffix}").unlink(missing_ok=True)


@asynccontextmanager
async def _new_tables(database: Database, why: str) -> AsyncIterator[SqlLog]:
    """Write the log of a shared database; a block that ends with an error leaves it unfinished."""
    await _drop_unfinished(database)
    log = await open_for_writing(database)
    try:
        if log.head != GENESIS:
            raise _not_empty(database, why)
        await _set_revision(database, UNFINISHED)
        yield log
        await _set_revision(database, tables.REVISIONS[-1])
    finally:
        await log.close()


async def _drop_unfinished(database: Database) -> None:
    """Remove the tables of a log that a command did not finish."""
    try:
        found = await database.look()
        if found.revision == UNFINISHED:
            await _run(database, "BEGIN", _DROP_TABLES, _DROP_FUNCTION, "COMMIT")
    except DRIVER_ERRORS as error:
        raise await located(database, error) from error


async def _set_revision(database: Database, revision: str) -> None:
    try:
        await _run(database, f"UPDATE alembic_version SET version_num = '{revision}'")  # noqa: S608  # a constant
    except DRIVER_ERRORS as error:
        raise await located(database, error) from error


async def _run(database: Database, *script: str) -> None:
    connection: AsyncConnection = await database.connect(is_patient=True)
    try:
        for statement in script:
            await connection.exec_driver_sql(statement)
    finally:
        await connection.close()
