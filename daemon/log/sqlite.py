"""A log in a SQLite file.

One connection writes, and it alone checkpoints: SQLite libraries before 3.51.3 can lose committed
pages when two connections write or checkpoint a WAL at the same instant, and many Pythons are linked
to such a library. Readers open the file `mode=ro`, and a connection that cannot write cannot
checkpoint either. A lock on `FILE.lock` keeps a second writing process out.
"""

import asyncio
import fcntl
import os
import re
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Concatenate, Final, ParamSpec, TypeVar
from urllib.parse import quote

import aiosqlite
import structlog
from sqlalchemy import URL, event
from sqlalchemy.dialects.sqlite.aiosqlite import dialect
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, ConnectionPoolEntry, NullPool

from daemon.log.anchor_file import SUFFIX, AnchorFile, read_anchor
from daemon.log.anchors import Anchor
from daemon.log.database import (
    DRIVER_ERRORS,
    Append,
    Contents,
    Found,
    Script,
    cause_of,
    damaged,
    look_through,
    unavailable,
)
from daemon.log.file_identity import FileIdentity, remote_file_system
from daemon.log.sqlite_check import (
    SCHEMA,
    find_damage,
    first_unreadable,
    is_damage,
)
from daemon.log.sqlite_reading import SHARED, reading_mode
from daemon.log.statements import Statements, statements
from daemon.private_files import PRIVATE_MODE, create_private, make_private, private_opener
from events.errors import (
    DamagedLogError,
    LogError,
    LogLockedError,
    LogUnavailableError,
    LostRecordsError,
    UsageError,
)
from events.record import Head

BUSY_SECONDS = 5.0
"""How long a statement waits for a lock of SQLite's."""
WRITER_PRAGMAS = (
    "journal_mode=WAL",
    "synchronous=FULL",
    "cache_size=-32768",
    "wal_autocheckpoint=4000",
)
"""A page that several commits change is copied out of the write-ahead log once: the log is let grow to 16 MB."""
BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside the file, under its name with one of these."""
OLDEST = (3, 24, 0)
"""The first library with `ON CONFLICT DO UPDATE`."""

LOOKED_AT_BYTES = 64 << 20
"""So much of a file that has lost its tables is looked through for records."""

logger: Final = structlog.get_logger("muster")

P = ParamSpec("P")
T = TypeVar("T")

_MAGIC = b"SQLite format 3\0"
_RECORDS = re.compile(rb"(daemon_started|object_observed|pod_observed|node_observed)\.v[0-9]")


@cache
def _statements() -> Statements:
    """Compile the statements once a process: it takes as long as opening a small log."""
    return statements(dialect())


class SqliteDatabase:
    """A log in a SQLite file."""

    begin_reading = "BEGIN"
    poll_seconds = 0.25
    stores_nul = True

    def __init__(self, path: Path, place: str = "") -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise UsageError(f"SQLite {'.'.join(map(str, OLDEST))} or newer is needed")
        self.place = place or str(path)
        self.path = path
        self.statements = _statements()
        self._lock: int | None = None
        self._identity: FileIdentity | None = None
        self._anchor: AnchorFile | None = None
        self._reading = SHARED
        self._readers: AsyncEngine | None = None
        self._writer: AsyncEngine | None = None

    @property
    def readers(self) -> AsyncEngine:
        """Connections that cannot write. Made when the file is there."""
        if self._readers is None:
            self._reading = reading_mode(self.path)
            self._readers = create_async_engine(
                _url(self.path, self._reading.options),
                isolation_level="AUTOCOMMIT",
                connect_args={"timeout": BUSY_SECONDS},
                poolclass=AsyncAdaptedQueuePool,
                pool_size=2,
            )
            if self._reading.pragmas:
                event.listen(self._readers.sync_engine, "connect", self._begin_reading)
        return self._readers

    @property
    def patient_readers(self) -> AsyncEngine:
        """The same: SQLite waits for nothing but locks."""
        return self.readers

    def _begin_reading(self, connection: DBAPIConnection, record: ConnectionPoolEntry) -> None:
        cursor = connection.cursor()
        for pragma in self._reading.pragmas:
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    async def look(self) -> Found:
        """What the file is. One without tables may be what a daemon left that died creating it."""
        try:
            # A pipe without a writer would not be opened before there is one.
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise UsageError(f"{self.place}: not a regular file")
            with self.path.open("rb") as file:
                start = file.read(len(_MAGIC))
        except FileNotFoundError:
            return Found(contents=Contents.ABSENT)
        except OSError as error:
            raise UsageError(f"{self.place}: {error.strerror}") from error
        if not start:
            return self._empty()
        if start != _MAGIC:
            if self._was_ours:
                raise DamagedLogError(f"{self.place}: table sqlite_schema: no SQLite file any more")
            return Found(contents=Contents.FOREIGN)
        try:
            async with self.readers.connect() as connection:
                found = await connection.run_sync(lambda c: look_through(c, shared=False))
        except (*DRIVER_ERRORS, SQLAlchemyError) as error:
            if not isinstance(self.explain(error), DamagedLogError):
                raise
            raise await self._torn_schema(error) from error
        if found.contents is Contents.FOREIGN and self._was_ours:
            raise DamagedLogError(
                f"{self.place}: table sqlite_schema: tables of the log are missing"
            )
        if found.contents is Contents.LOG and not found.revision:
            raise damaged(self.place, f"table {SCHEMA}: no revision")
        return found

    async def _torn_schema(self, error: Exception) -> DamagedLogError:
        """The file cannot be opened as a database with our tables: it is too short, or torn where they are named."""
        damage = await self.damage(is_thorough=False)
        if damage is None or damage.startswith("table sqlite_schema"):
            position = await asyncio.to_thread(first_unreadable, self.path)
            message = f"position {position}: the file is torn: {cause_of(error)}"
            return DamagedLogError(
                f"{self.place}: {message} ({damage or 'the schema cannot be read'})"
            )
        return damaged(self.place, damage)

    async def lock(self) -> None:
        """Take the lock on `FILE.lock`, or raise an error that names its holder."""
        path = f"{self.path}.lock"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_MODE)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        make_private(Path(path))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise LogLockedError(f"{self.place} is held by process {holder}") from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    async def connect(self, *, is_patient: bool = False) -> AsyncConnection:
        """The writing connection."""
        if self._identity is not None:
            self._identity.forget_beside()
            self.check_files(None)
        if self._writer is None:
            create_private(self.path)
            for suffix in BESIDE:
                make_private(Path(f"{self.path}{suffix}"))
            self._writer = create_async_engine(
                _url(self.path, {"mode": "rw"}),
                isolation_level="AUTOCOMMIT",
                connect_args={"timeout": BUSY_SECONDS},
                poolclass=NullPool,
            )
        connection = await self._writer.connect()
        try:
            for pragma in WRITER_PRAGMAS:
                await connection.exec_driver_sql(f"PRAGMA {pragma}")
            mode = (await connection.exec_driver_sql("PRAGMA journal_mode")).scalar()
        except BaseException:
            await connection.close()
            raise
        if mode != "wal":
            await connection.close()
            raise LogUnavailableError(
                f"{self.place}: its file system cannot hold a write-ahead log"
            )
        if self._identity is None:
            self._identity = FileIdentity(self.path)
            self._warn_of_place(self._identity)
        return connection

    def _warn_of_place(self, identity: FileIdentity) -> None:
        if identity.links > 1:
            logger.warning(
                "the log has other hard links: another process that opens it by one of these damages it",
                place=self.place,
                links=identity.links,
            )
        if kind := remote_file_system(self.path):
            logger.warning("the log is not on a local file system", place=self.place, type=kind)

    def check_files(self, known: Head | None) -> None:
        """Raise LostRecordsError if the file or its write-ahead log was deleted or replaced since it was opened."""
        change = "" if self._identity is None else self._identity.change()
        if change:
            position = "" if known is None else f"position {known.position}: lost: "
            raise LostRecordsError(
                f"{self.place}: {position}{change} while it was open{self._other_end()}; restore the files of this log "
                "together; the next start says what is lost and how to go on"
            )

    def _other_end(self) -> str:
        """Where the log ends that has the name now. Only another file than the one that is open may be opened here."""
        if self._identity is None or self._identity.is_same_log:
            return ""
        try:
            name = f"file:{quote(str(self.path.absolute()))}?mode=ro"
            with closing(sqlite3.connect(name, uri=True)) as other:
                position = other.execute("SELECT position FROM log_head").fetchone()[0]
        except (sqlite3.Error, TypeError):
            return ", and there is no log in its place"
        return f", and the log in its place ends at position {position}"

    def stored_anchor(self) -> Anchor | None:
        """What the file `FILE.anchor` states."""
        return read_anchor(self._anchor_path)

    def keep_anchor(self, head: Head) -> None:
        """Write each durable head into `FILE.anchor` from now on."""
        try:
            self._anchor = self._anchor or AnchorFile(self._anchor_path)
        except OSError as error:
            logger.warning("no anchor is kept", file=str(self._anchor_path), error=error.strerror)
            return
        self._anchor.write(head)

    def note_durable(self, head: Head) -> None:
        """Write the head into `FILE.anchor`, if that is kept."""
        if self._anchor is not None:
            self._anchor.write(head)

    def sync_anchor(self) -> None:
        """Put `FILE.anchor` on disk."""
        if self._anchor is not None:
            self._anchor.sync()

    @property
    def _anchor_path(self) -> Path:
        return Path(f"{self.path}{SUFFIX}")

    def explain(self, error: Exception) -> LogError:
        """SQLite says by the same class that a disk is full and that a file is torn."""
        try:
            self._reading.check(self.path)
        except LogUnavailableError as changed:
            return changed
        cause = cause_of(error)
        if isinstance(error, IntegrityError | UnicodeDecodeError) or (
            isinstance(cause, Exception) and is_damage(cause)
        ):
            return DamagedLogError(f"{self.place}: {cause_of(error)}")
        return unavailable(self.place, error)

    async def damage(self, *, is_thorough: bool) -> str | None:
        """The first thing torn; all of the file is read."""
        try:
            return await asyncio.to_thread(find_damage, self.path, is_thorough=is_thorough)
        except sqlite3.Error as error:
            raise unavailable(self.place, error) from error

    def condemn(self, message: str) -> None:
        """Write it into `FILE.unsound`, which a start reads."""
        with suppress(OSError), open(self._verdict, "w", opener=private_opener) as file:
            file.write(f"{message}\n")

    @property
    def is_condemned(self) -> bool:
        """Whether `FILE.unsound` is there."""
        return self._verdict.exists()

    def acquit(self) -> None:
        """Remove `FILE.unsound`."""
        self._verdict.unlink(missing_ok=True)

    @property
    def _verdict(self) -> Path:
        return Path(f"{self.path}.unsound")

    @property
    def _was_ours(self) -> bool:
        """Whether the file holds records of a log, although it has not its tables."""
        with self.path.open("rb") as file:
            return _RECORDS.search(file.read(LOOKED_AT_BYTES)) is not None

    async def wait(self, seconds: float) -> None:
        """SQLite sends no notification: the follower polls."""
        await asyncio.sleep(seconds)

    async def end_stalled_writers(self, connection: AsyncConnection) -> None:
        """Nothing to do: the lock on the file keeps other writers out."""

    async def run_script(self, connection: AsyncConnection, script: Script) -> None:
        """All of it in one visit to the thread of the connection: a visit costs more than a statement."""
        await _visit(connection, _execute_all, script)

    async def append(self, connection: AsyncConnection, step: Append) -> bool:
        """The whole transaction in one visit, in which its rows are made, too. SQLite sends no notification."""
        is_moved = await _visit(connection, _append, self.statements, step)
        position, digest, epoch, *_ = step.move
        self.check_files(Head(position=position, digest=digest, epoch=epoch))
        return is_moved

    async def close(self) -> None:
        """Let go of every connection, then of the lock."""
        for engine in (self._readers, self._writer):
            if engine is not None:
                await engine.dispose()
        if self._anchor is not None:
            self._anchor.close()
        if self._lock is not None:
            os.close(self._lock)
        self._identity = self._anchor = None
        reading, self._reading = self._reading, SHARED
        self._readers = self._writer = self._lock = None
        reading.check(self.path)

    def _empty(self) -> Found:
        log = Path(f"{self.path}-wal")
        if log.exists() and log.stat().st_size:
            raise DamagedLogError(f"{self.place} is empty, but its write-ahead log is not")
        return Found(contents=Contents.NOTHING)


def _url(path: Path, options: dict[str, str]) -> URL:
    name = f"file:{quote(str(path.absolute()))}"
    return URL.create("sqlite+aiosqlite", database=name, query={**options, "uri": "true"})


async def _visit(
    connection: AsyncConnection,
    work: Callable[Concatenate[sqlite3.Connection, P], T],
    *given: P.args,
    **named: P.kwargs,
) -> T:
    """Return what a function returns that is called in the thread of a connection."""
    shared = connection.sync_connection
    assert shared is not None
    # It is connected: `get_raw_connection` would start a greenlet to ask for it.
    driver = shared.connection.driver_connection
    assert isinstance(driver, aiosqlite.Connection)
    # The public methods of aiosqlite each make a visit of their own.
    run = driver._execute  # noqa: SLF001
    result: T = await run(work, driver._conn, *given, **named)  # type: ignore[no-untyped-call]  # noqa: SLF001
    return result


def _execute_all(connection: sqlite3.Connection, script: Script) -> None:
    for statement, rows in script:
        if len(rows) == 1:
            connection.execute(statement, rows[0])
        else:
            connection.executemany(statement, rows)


def _append(connection: sqlite3.Connection, sql: Statements, step: Append) -> bool:
    script = step.script()
    connection.execute(sql.begin)
    if connection.execute(sql.swap_head, step.move).rowcount != 1:
        connection.execute("ROLLBACK")
        return False
    _execute_all(connection, script)
    step.reached("inside_commit")
    step.is_committing = True
    connection.execute("COMMIT")
    step.reached("after_commit")
    return True
