"""A log in a SQLite file.

One connection writes, and it alone checkpoints: SQLite libraries before 3.51.3 can lose committed
pages when two connections write or checkpoint a WAL at the same instant, and many Pythons are linked
to such a library. Readers open the file `mode=ro`, and a connection that cannot write cannot
checkpoint either. A lock on `FILE.lock` keeps a second writing process out.
"""

import asyncio
import fcntl
import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import aiosqlite
from sqlalchemy import URL
from sqlalchemy.dialects.sqlite.aiosqlite import dialect
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool

from daemon.log.database import (
    Contents,
    Found,
    Script,
    cause_of,
    look_through,
    unavailable,
)
from daemon.log.statements import statements
from events.errors import DamagedLogError, LogError, LogLockedError, LogUnavailableError, UsageError

BUSY_SECONDS = 5.0
"""How long a statement waits for a lock of SQLite's."""
WRITER_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "cache_size=-65536")
OLDEST = (3, 24, 0)
"""The first library with `ON CONFLICT DO UPDATE`."""

_MAGIC = b"SQLite format 3\0"
_DAMAGE = ("malformed", "corrupt", "not a database", "could not decode", "no such")


class SqliteDatabase:
    """A log in a SQLite file."""

    begin_reading = "BEGIN"
    poll_seconds = 0.25

    def __init__(self, path: Path) -> None:
        if sqlite3.sqlite_version_info < OLDEST:
            raise UsageError(f"SQLite {'.'.join(map(str, OLDEST))} or newer is needed")
        self.place = str(path)
        self.statements = statements(dialect())
        self._path = path
        self._lock: int | None = None
        self._readers: AsyncEngine | None = None
        self._writer: AsyncEngine | None = None

    @property
    def readers(self) -> AsyncEngine:
        """Connections that cannot write. Made when the file is there."""
        if self._readers is None:
            self._readers = create_async_engine(
                _url(self._path, self._read_only_options()),
                isolation_level="AUTOCOMMIT",
                connect_args={"timeout": BUSY_SECONDS},
                poolclass=AsyncAdaptedQueuePool,
                pool_size=2,
            )
        return self._readers

    async def look(self) -> Found:
        """What the file is. One without tables may be what a daemon left that died creating it."""
        try:
            with self._path.open("rb") as file:
                start = file.read(len(_MAGIC))
        except FileNotFoundError:
            return Found(contents=Contents.ABSENT)
        except OSError as error:
            raise UsageError(f"{self.place}: {error.strerror}") from error
        if not start:
            return self._empty()
        if start != _MAGIC:
            return Found(contents=Contents.FOREIGN)
        try:
            async with self.readers.connect() as connection:
                return await connection.run_sync(lambda c: look_through(c, shared=False))
        except DatabaseError as error:
            if "malformed" not in str(error):
                raise
            position = await asyncio.to_thread(_first_unreadable, self._path)
            raise DamagedLogError(
                f"{self.place}: position {position}: the file is torn: {cause_of(error)}"
            ) from error

    async def lock(self) -> None:
        """Take the lock on `FILE.lock`, or say who holds it."""
        path = f"{self._path}.lock"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(lock, 32).decode(errors="replace").strip() or "unknown"
            os.close(lock)
            raise LogLockedError(f"{self.place} is held by process {holder}") from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock

    async def connect(self) -> AsyncConnection:
        """The writing connection."""
        if self._writer is None:
            self._writer = create_async_engine(
                _url(self._path, {"mode": "rwc"}),
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
        return connection

    def explain(self, error: Exception) -> LogError:
        """SQLite says by the same class that a disk is full and that a file is torn."""
        told = str(cause_of(error)).lower()
        if isinstance(error, IntegrityError | UnicodeError) or any(
            word in told for word in _DAMAGE
        ):
            return DamagedLogError(f"{self.place}: {cause_of(error)}")
        return unavailable(self.place, error)

    async def wait(self, seconds: float) -> None:
        """SQLite tells nobody: the follower looks again."""
        await asyncio.sleep(seconds)

    async def run_script(self, connection: AsyncConnection, script: Script) -> None:
        """All of it in one visit to the thread of the connection: a visit costs more than a statement."""
        raw = await connection.get_raw_connection()
        driver = raw.driver_connection
        assert isinstance(driver, aiosqlite.Connection)
        # The public methods of aiosqlite each make a visit of their own.
        run = driver._execute  # noqa: SLF001
        await run(_execute_all, driver._conn, script)  # type: ignore[no-untyped-call]  # noqa: SLF001

    async def announce(self, connection: AsyncConnection, position: int) -> None:
        """SQLite tells nobody."""

    async def close(self) -> None:
        """Let go of every connection, then of the lock."""
        for engine in (self._readers, self._writer):
            if engine is not None:
                await engine.dispose()
        if self._lock is not None:
            os.close(self._lock)
        self._readers = self._writer = self._lock = None

    def _empty(self) -> Found:
        log = Path(f"{self._path}-wal")
        if log.exists() and log.stat().st_size:
            raise DamagedLogError(f"{self.place} is empty, but its write-ahead log is not")
        return Found(contents=Contents.NOTHING)

    def _read_only_options(self) -> dict[str, str]:
        """Where not even SQLite's shared memory can be created, the file is read as it stands."""
        log = Path(f"{self._path}-wal")
        if not os.access(self._path.parent, os.W_OK) and not log.exists():
            return {"mode": "ro", "immutable": "1"}
        return {"mode": "ro"}


def _url(path: Path, options: dict[str, str]) -> URL:
    name = f"file:{quote(str(path.absolute()))}"
    return URL.create("sqlite+aiosqlite", database=name, query={**options, "uri": "true"})


def _first_unreadable(path: Path) -> int:
    """The first position that is not there to be read in a file that is too short.

    SQLite refuses such a file as a whole, unless it is told that its schema may be odd.
    """
    connection = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
    readable = 0
    with closing(connection), suppress(sqlite3.DatabaseError):
        connection.execute("PRAGMA writable_schema = ON")
        for (position,) in connection.execute("SELECT position FROM log ORDER BY position"):
            readable = int(position)
    return readable + 1


def _execute_all(connection: sqlite3.Connection, script: Script) -> None:
    for statement, rows in script:
        connection.executemany(statement, rows)
