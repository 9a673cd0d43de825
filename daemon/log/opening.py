"""From what a user calls a log to an open log."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar, overload

from daemon.log.anchors import Anchor
from daemon.log.bundle_log import BundleLog
from daemon.log.contract import Log, ReadableLog
from daemon.log.database import Database
from daemon.log.memory import MemoryLog
from daemon.log.session import Faults
from daemon.log.sqlite import SqliteDatabase
from daemon.log.store import SqlLog, no_faults, open_for_reading, open_for_writing
from events.errors import UsageError

Mode: TypeAlias = Literal["read", "write"]
AnswerT = TypeVar("AnswerT")

_POSTGRESQL = ("postgresql://", "postgres://", "postgresql+asyncpg://")
_SQLITE = ("sqlite:///", "sqlite+aiosqlite:///")


@overload
async def open_log(
    url: str, mode: Literal["write"], *, faults: Faults = ..., is_shortened: bool = ...
) -> Log: ...
@overload
async def open_log(
    url: str, mode: Literal["read"] = ..., *, faults: Faults = ...
) -> ReadableLog: ...


async def open_log(
    url: str, mode: Mode = "read", *, faults: Faults = no_faults, is_shortened: bool = False
) -> ReadableLog:
    """The log at a URL or path: a database URL, a SQLite file, a bundle, or `memory:`.

    For reading it must be there, and nothing of it is changed. For writing it is created where there
    is none, and brought to the present schema. One that does not hold what is kept beside it is opened only if `is_shortened`.
    """
    if url == "memory:":
        return MemoryLog()
    if url.endswith(".muster") and mode == "read":
        return BundleLog(Path(url))
    return await open_database(url, mode, faults=faults, is_shortened=is_shortened)


async def open_database(
    url: str, mode: Mode = "read", *, faults: Faults = no_faults, is_shortened: bool = False
) -> SqlLog:
    """The log in the database at a URL or path, as `open_log` opens it. UsageError for a bundle and for `memory:`."""
    if not is_database(url):
        if mode == "write" and url.endswith(".muster"):
            raise UsageError(f"{url}: a bundle is read only; `muster log import` makes a log of it")
        raise UsageError(f"{url} is no database")
    database = database_at(url)
    if mode == "write":
        return await open_for_writing(database, faults, is_shortened=is_shortened)
    return await open_for_reading(database)


def ask_log(url: str, question: Callable[[ReadableLog], Awaitable[AnswerT]]) -> AnswerT:
    """Open a log for reading, return the answer to a question, and close it."""

    async def ask() -> AnswerT:
        log = await open_log(url)
        try:
            return await question(log)
        finally:
            await log.close()

    return asyncio.run(ask())


def stored_anchor(url: str) -> Anchor | None:
    """Return the head that is kept beside the log at a URL or path; None if none is."""
    return database_at(url).stored_anchor() if is_database(url) else None


def is_database(url: str) -> bool:
    """Whether a log of this name is kept in a database: it is neither a bundle nor in memory."""
    return url != "memory:" and not url.endswith(".muster")


def is_postgresql(url: str) -> bool:
    """Whether a log of this name is kept in PostgreSQL, where several daemons can share it."""
    return url.startswith(_POSTGRESQL)


def database_at(url: str) -> Database:
    """Return the database that a URL or path names; it need not be there."""
    scheme, separator, rest = url.partition("://")
    if url.startswith(_POSTGRESQL):
        # Its driver is imported only where it is used.
        from daemon.log.postgres import PostgresDatabase

        return PostgresDatabase(f"postgresql://{rest}")
    for prefix in _SQLITE:
        if url.startswith(prefix):
            url = url.removeprefix(prefix)
            separator = ""
    if separator:
        raise UsageError(f"a log is kept in sqlite:/// or postgresql://, not in {scheme}://")
    if not url:
        raise UsageError("the log has no name")
    return SqliteDatabase(Path(url))
