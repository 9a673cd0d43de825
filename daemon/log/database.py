"""What SQLite and PostgreSQL do differently, and the errors of both in our words."""

import sqlite3
from collections.abc import Sequence
from enum import Enum
from typing import Protocol, TypeAlias

from msgspec import Struct
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from daemon.log.statements import Statements
from daemon.log.tables import REVISIONS
from events.codec import FORMAT
from events.errors import (
    DamagedLogError,
    LogError,
    LogUnavailableError,
    NewerRecordError,
    UsageError,
)

OURS = frozenset({"log", "log_head", "alembic_version"})

DRIVER_ERRORS = (SQLAlchemyError, sqlite3.Error, OSError, TimeoutError, UnicodeError)
"""What a database may raise at us; `explain` makes a `LogError` of it. (A damaged file can hold a
name that is no text, which the driver then cannot even quote in its complaint.)"""


Script: TypeAlias = list[tuple[str, Sequence[tuple[object, ...]]]]
"""Statements with the rows of parameters for which each is executed, in order."""


class Contents(Enum):
    """What is found where a log should be."""

    ABSENT = "absent"
    NOTHING = "nothing"
    FOREIGN = "foreign"
    LOG = "log"


class Found(Struct, frozen=True):
    """What is found where a log should be, and the schema revision of a log."""

    contents: Contents
    revision: str = ""


class Database(Protocol):
    """One database that holds a log. `place` names it in messages, without a password."""

    place: str
    statements: Statements
    begin_reading: str
    """Begins a transaction whose queries all see the database as of one moment."""
    poll_seconds: float
    """How long a follower waits before it looks again on its own."""

    @property
    def readers(self) -> AsyncEngine:
        """Connections that cannot write."""

    async def look(self) -> Found:
        """What is there; nothing is changed."""

    async def lock(self) -> None:
        """Keep other daemons out, where the database itself does not."""

    async def connect(self) -> AsyncConnection:
        """A new writing connection, in autocommit mode. There is at most one at a time."""

    async def run_script(self, connection: AsyncConnection, script: Script) -> None:
        """Execute statements one after the other, within the transaction that is open."""

    def explain(self, error: Exception) -> LogError:
        """The error in our words: the log is damaged, or cannot be reached or written."""

    async def wait(self, seconds: float) -> None:
        """Until something may have been appended, but not longer than `seconds`."""

    async def announce(self, connection: AsyncConnection, position: int) -> None:
        """Within the transaction of an append: wake those who wait, once it is committed."""

    async def close(self) -> None:
        """Let go of every connection and of the lock."""


def look_through(connection: Connection, *, shared: bool) -> Found:
    """What a connection finds. In a `shared` database, tables of others are nothing to us."""
    names = set(inspect(connection).get_table_names())
    if names >= OURS:
        revision = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        return Found(contents=Contents.LOG, revision=str(revision or ""))
    if names & (OURS - {"alembic_version"}) if shared else names:
        return Found(contents=Contents.FOREIGN)
    return Found(contents=Contents.NOTHING)


def check_found(found: Found, place: str, *, writing: bool) -> None:
    """Refuse what is not a log, or one of a newer release; nothing was touched so far."""
    if found.contents is Contents.ABSENT and not writing:
        raise UsageError(f"{place}: there is no such log")
    if found.contents is Contents.FOREIGN or (found.contents is Contents.NOTHING and not writing):
        raise UsageError(f"{place} is not a muster log")
    if found.contents is not Contents.LOG:
        return
    if found.revision not in REVISIONS:
        raise NewerRecordError(
            f"{place} has schema {found.revision!r}, which this release does not know; "
            f"it knows up to {REVISIONS[-1]}"
        )
    if found.revision != REVISIONS[-1] and not writing:
        raise UsageError(
            f"{place} has schema {found.revision}; `muster migrate` brings it to {REVISIONS[-1]}"
        )


def check_format(written: int, place: str) -> None:
    """Refuse a log of a newer format."""
    if written > FORMAT:
        raise NewerRecordError(
            f"{place} has log format {written}; this release knows up to {FORMAT}"
        )
    if written < 1:
        raise DamagedLogError(f"{place} has log format {written}, which never was")


def cause_of(error: Exception) -> BaseException:
    """The driver's own error behind a wrapped one."""
    return error.orig if isinstance(error, DBAPIError) and error.orig else error


def unavailable(place: str, error: Exception) -> LogUnavailableError:
    """The error for a log that cannot be reached or written just now."""
    cause = cause_of(error)
    told = str(cause).strip().partition("\n")[0] or type(cause).__name__
    return LogUnavailableError(f"{place}: {told}")
