"""What SQLite and PostgreSQL do differently, and the errors of both in our words."""

import sqlite3
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Protocol, TypeAlias

from msgspec import Struct
from sqlalchemy import Connection, inspect
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from daemon.log.anchors import Anchor
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
from events.record import Head

UNFINISHED = "unfinished"
"""The schema revision of a log that a command is writing, in a database that cannot be renamed when it is whole."""

OURS = frozenset({"log", "log_head", "alembic_version"})

KEPT_ONCE = frozenset({"log", "objects", "log_head", "log_base"})
"""Tables that cannot be rebuilt from others."""

DRIVER_ERRORS = (SQLAlchemyError, sqlite3.Error, OSError, TimeoutError, UnicodeError)
"""What a database may raise at us; `explain` makes a `LogError` of it. (A damaged file can hold a
name that is no text, which the driver then cannot even quote in its complaint.)"""


Script: TypeAlias = list[tuple[str, Sequence[tuple[object, ...]]]]
"""Statements with the rows of parameters for which each is executed, in order."""


class Append(Struct):
    """A transaction that moves the head of the log and writes rows."""

    move: tuple[int, str, int, int, str, int]
    """Position, digest and epoch of the new head, then those of the head that is expected."""
    script: Callable[[], Script]
    """Makes the script; called beside the event loop where that takes long."""
    size: int
    """Objects that are packed for it."""
    reached: Callable[[str], None]
    """Called at `inside_commit` (all is written, not committed) and `after_commit`."""
    is_committing: bool = False
    """Whether COMMIT was sent: if the append then fails, it may have taken place."""


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
    stores_nul: bool
    """Whether a text column can hold the NUL character."""

    @property
    def readers(self) -> AsyncEngine:
        """Connections that cannot write."""

    @property
    def patient_readers(self) -> AsyncEngine:
        """The same, with longer bounds: for reading whole tables."""

    async def look(self) -> Found:
        """What is there; nothing is changed."""

    async def lock(self) -> None:
        """Keep other daemons out, where the database itself does not."""

    async def connect(self, *, is_patient: bool = False) -> AsyncConnection:
        """A new writing connection, in autocommit mode. There is at most one at a time. A patient one is for
        migrations."""

    async def end_stalled_writers(self, connection: AsyncConnection) -> None:
        """End the transactions of other writers that hold the head and will not go on, where the database lets them."""

    async def run_script(self, connection: AsyncConnection, script: Script) -> None:
        """Execute statements one after the other, within the transaction that is open."""

    async def append(self, connection: AsyncConnection, step: Append) -> bool:
        """Move the head and execute the script in a transaction, and wake the waiting readers once it is committed.

        Return False, with nothing written, if the head is not the expected one.
        """

    def explain(self, error: Exception) -> LogError:
        """The error in our words: the log is damaged, or cannot be reached or written."""

    async def damage(self, *, is_thorough: bool) -> str | None:
        """The first thing torn, as a table, an index or a position; None where nothing is found.

        It reads everything that the database keeps beside and in the log. Thorough compares indexes with
        their tables, too, where the database can.
        """

    def condemn(self, message: str) -> None:
        """Remember, where the next process finds it, that the log was found damaged."""

    @property
    def is_condemned(self) -> bool:
        """Whether the log was found damaged, and has not been verified since."""

    def acquit(self) -> None:
        """The log was verified whole."""

    def check_files(self, known: Head) -> None:
        """Raise LostRecordsError if the files of the log are no longer those that were opened, where the database is one of files."""

    def stored_anchor(self) -> Anchor | None:
        """The head that the log had last, as the database keeps it apart from the log; None if it keeps none."""

    def keep_anchor(self, head: Head) -> None:
        """Keep each durable head apart from the log from now on, where the database can."""

    def note_durable(self, head: Head) -> None:
        """A head is durable."""

    def sync_anchor(self) -> None:
        """Put the head that is kept apart on disk."""

    async def wait(self, seconds: float) -> None:
        """Until something may have been appended, but not longer than `seconds`."""

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
    if found.revision == UNFINISHED:
        raise UsageError(
            f"{place}: the command that writes this log has not finished it; once it is not running, the same command starts over"
        )
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
    """Refuse a log of another format. Raises NewerRecordError for a newer one, UsageError for an older one."""
    if written > FORMAT:
        raise NewerRecordError(
            f"{place} has log format {written}; this release reads format {FORMAT}"
        )
    if written < 1:
        raise DamagedLogError(f"{place} has log format {written}, which never was")
    if written < FORMAT:
        raise UsageError(
            f"{place} has log format {written} of an earlier build, which is not read any more; this release reads "
            f"format {FORMAT}"
        )


def cause_of(error: Exception) -> BaseException:
    """The driver's own error behind a wrapped one."""
    return error.orig if isinstance(error, DBAPIError) and error.orig else error


def unavailable(place: str, error: Exception) -> LogUnavailableError:
    """The error for a log that cannot be reached or written just now."""
    cause = cause_of(error)
    message = str(cause).strip().partition("\n")[0] or type(cause).__name__
    return LogUnavailableError(f"{place}: {message}")


async def located(database: Database, error: Exception) -> LogError:
    """The error in our words; of a damaged log, with what is torn."""
    explained = database.explain(error)
    if not isinstance(explained, DamagedLogError):
        return explained
    damage = await database.damage(is_thorough=False) or await database.damage(is_thorough=True)
    if damage is None:
        return explained
    return damaged(database.place, damage)


def damaged(place: str, damage: str) -> DamagedLogError:
    """The error for damage of a table, an index or a position, with what to do about it."""
    what = damage.partition(" ")[0]
    name = damage.partition(":")[0].rpartition(" ")[2]
    if what == "position" or name in KEPT_ONCE:
        advice = "restore the newest backup"
    elif place.startswith("postgresql"):
        advice = "stop the daemons, TRUNCATE this table, and run `muster rebuild`"
    else:
        advice = f"stop the daemon; `muster rebuild --log {place}` rebuilds it from the records"
    return DamagedLogError(f"{place}: {damage}; {advice}")
