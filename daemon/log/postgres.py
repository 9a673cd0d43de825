"""A log in a PostgreSQL database.

The row lock on `log_head` serializes writers, the epoch in it fences old ones. An append notifies
its listeners, so that a standby follows without polling. Every wait has a bound: on the server by
its own timeouts, on our side by those of the driver.
"""

import asyncio
from contextlib import suppress
from functools import cache
from typing import Final

import asyncpg
import structlog
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, NullPool

from daemon.log import tables
from daemon.log.anchors import Anchor
from daemon.log.database import (
    DRIVER_ERRORS,
    Append,
    Found,
    Script,
    cause_of,
    look_through,
    unavailable,
)
from daemon.log.statements import Statements, statements
from events.errors import DamagedLogError, LogError, UsageError
from events.record import Head

logger: Final = structlog.get_logger("muster")

DRIVER = "postgresql+asyncpg://"
CONNECT_SECONDS = 5.0
"""The longest that connecting may take. Where only the first process of a server was killed, its children may hold the
socket: the kernel then takes connections that no process will ever answer."""
COMMAND_SECONDS = 20.0
"""The longest wait for an answer to an append, or to reading a chunk: longer than the server's own bound, so that
where the server lives, the error is the server's."""
PATIENT_SECONDS = 600.0
"""The same for what reads a whole table, or changes the schema."""
CLOSE_SECONDS = 5.0
"""The longest that a connection is waited for when it is let go; then it is cut."""
PACKED_HERE_MAX = 100
"""From so many objects on they are packed beside the event loop."""
CHANNEL = "muster_log"
WRITER_SETTINGS = {
    "lock_timeout": "5s",
    "statement_timeout": "15s",
    # A writer that was stopped in the middle of an append must not hold the head for ever.
    "idle_in_transaction_session_timeout": "10s",
}
STALLED_SECONDS = 10
"""A transaction of a writer that is so old and waits for its client is ended by the writer that takes the log over. The settings
above do not end it if the client stopped between two messages of one statement (between Parse and Sync): the
server then counts it as active, and its statement as finished."""
END_STALLED_WRITERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND usename = current_user AND datname = current_database()
      AND wait_event = 'ClientRead' AND xact_start < clock_timestamp() - make_interval(secs => $1)
      AND pid IN (SELECT pid FROM pg_locks WHERE relation = 'log_head'::regclass)
"""
READER_SETTINGS = {"default_transaction_read_only": "on", "statement_timeout": "15s"}
PATIENT_SETTINGS = {"default_transaction_read_only": "on", "statement_timeout": "590s"}
_DAMAGE = (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError, asyncpg.UndefinedTableError)
_USAGE = (asyncpg.InvalidCatalogNameError, asyncpg.InvalidAuthorizationSpecificationError)


@cache
def _statements() -> Statements:
    """Compile the statements once a process."""
    return statements(make_url(DRIVER).get_dialect()())


class PostgresDatabase:
    """A log in a PostgreSQL database."""

    begin_reading = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    poll_seconds = 5.0
    stores_nul = False

    def __init__(self, url: str) -> None:
        try:
            self.place = make_url(url).render_as_string(hide_password=True)
        except ArgumentError as error:
            raise UsageError("the address of the PostgreSQL database cannot be read") from error
        self.statements = _statements()
        self._url = url
        self._readers: AsyncEngine | None = None
        self._patient: AsyncEngine | None = None
        self._writer: AsyncEngine | None = None
        self._listener: asyncpg.Connection | None = None
        self._appended = asyncio.Event()

    @property
    def readers(self) -> AsyncEngine:
        """Connections that cannot write."""
        if self._readers is None:
            self._readers = create_async_engine(
                DRIVER,
                async_creator=lambda: self._connected(READER_SETTINGS),
                isolation_level="AUTOCOMMIT",
                poolclass=AsyncAdaptedQueuePool,
                pool_size=2,
                pool_pre_ping=True,  # The server may have gone away since the last chunk.
            )
        return self._readers

    @property
    def patient_readers(self) -> AsyncEngine:
        """The same, for reading whole tables: each connection is made for one query."""
        if self._patient is None:
            self._patient = create_async_engine(
                DRIVER,
                async_creator=lambda: self._connected(PATIENT_SETTINGS, PATIENT_SECONDS),
                isolation_level="AUTOCOMMIT",
                poolclass=NullPool,
            )
        return self._patient

    async def look(self) -> Found:
        """What the tables in the search path are."""
        async with self.readers.connect() as connection:
            encoding = (await connection.exec_driver_sql("SHOW server_encoding")).scalar()
            if encoding != "UTF8":
                raise UsageError(f"{self.place}: the database has encoding {encoding}, not UTF8")
            return await connection.run_sync(lambda c: look_through(c, shared=True))

    async def lock(self) -> None:
        """PostgreSQL has no file lock: the epoch fences a late writer."""

    async def connect(self, *, is_patient: bool = False) -> AsyncConnection:
        """The writing connection. A commit that is answered is on disk, whatever the default is.

        A patient one is for migrations, which set bounds of their own.
        """
        if is_patient:
            engine = self._writing_engine(PATIENT_SECONDS)
        else:
            engine = self._writer = self._writer or self._writing_engine(COMMAND_SECONDS)
        connection = await engine.connect()
        try:
            await connection.exec_driver_sql(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )
        except BaseException:
            await connection.close()
            raise
        return connection

    async def end_stalled_writers(self, connection: AsyncConnection) -> None:
        """Terminate the sessions that hold the head and have waited for their clients for `STALLED_SECONDS`."""
        ended = await connection.exec_driver_sql(END_STALLED_WRITERS, (STALLED_SECONDS,))
        if count := len(ended.all()):
            logger.warning("ended transactions of a writer that had stalled", sessions=count)

    def _writing_engine(self, command_seconds: float) -> AsyncEngine:
        return create_async_engine(
            DRIVER,
            async_creator=lambda: self._connected(WRITER_SETTINGS, command_seconds),
            isolation_level="AUTOCOMMIT",
            poolclass=NullPool,
        )

    def explain(self, error: Exception) -> LogError:
        """Tells damage from a server that is away; a wrong name or password is the user's."""
        cause = cause_of(error)
        root = cause.__cause__ or cause
        if isinstance(root, _DAMAGE) or isinstance(error, IntegrityError):
            return DamagedLogError(f"{self.place}: {root}")
        return unavailable(self.place, error)

    async def damage(self, *, is_thorough: bool) -> str | None:
        """The first table of which not every row can be read. Indexes are not compared: the server's own
        `amcheck` does that."""
        for name in sorted(tables.metadata.tables):
            query = f"SELECT sum(length(t::text)) FROM {name} t"  # noqa: S608  # a table of ours
            try:
                async with self.patient_readers.connect() as connection:
                    await connection.exec_driver_sql(query)
            except DRIVER_ERRORS as error:
                if isinstance(found := self.explain(error), DamagedLogError):
                    return f"table {name}: {found}"
                raise found from error
        return None

    def condemn(self, message: str) -> None:
        """Nothing is kept: the server's own checksums are what guards its files."""

    @property
    def is_condemned(self) -> bool:
        """Never."""
        return False

    def acquit(self) -> None:
        """Nothing is kept."""

    def check_files(self, known: Head) -> None:
        """The server keeps its files."""

    def stored_anchor(self) -> Anchor | None:
        """None: what is in the database is lost with it. The Lease has an anchor."""
        return None

    def keep_anchor(self, head: Head) -> None:
        """Nothing is kept."""

    def note_durable(self, head: Head) -> None:
        """Nothing is kept."""

    def sync_anchor(self) -> None:
        """Nothing is kept."""

    async def wait(self, seconds: float) -> None:
        """Until an append is announced, or for so long where announcements do not come."""
        try:
            await self._listen()
            async with asyncio.timeout(seconds):
                await self._appended.wait()
        except TimeoutError:
            return
        except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise unavailable(self.place, error) from error
        self._appended.clear()

    async def run_script(self, connection: AsyncConnection, script: Script) -> None:
        """One statement after the other; the driver sends the rows of each together."""
        for statement, rows in script:
            await connection.exec_driver_sql(statement, list(rows))

    async def append(self, connection: AsyncConnection, step: Append) -> bool:
        """One statement after the other. The server delivers the notification if the transaction is committed."""
        run, make = connection.exec_driver_sql, step.script
        script = make() if step.size < PACKED_HERE_MAX else await asyncio.to_thread(make)
        await run(self.statements.begin)
        if (await run(self.statements.swap_head, step.move)).rowcount != 1:
            await run("ROLLBACK")
            return False
        await self.run_script(connection, script)
        await run("SELECT pg_notify($1, $2)", (CHANNEL, str(step.move[0])))
        step.reached("inside_commit")
        step.is_committing = True
        await run("COMMIT")
        step.reached("after_commit")
        return True

    async def close(self) -> None:
        """Let go of every connection."""
        for engine in (self._readers, self._patient, self._writer):
            if engine is not None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await engine.dispose()
        if self._listener is not None:
            with suppress(TimeoutError):
                await self._listener.close(timeout=CLOSE_SECONDS)
        self._readers = self._patient = self._writer = self._listener = None

    async def _listen(self) -> None:
        if self._listener is not None and not self._listener.is_closed():
            return
        self._listener = await self._connected(READER_SETTINGS)
        await self._listener.add_listener(CHANNEL, lambda *_: self._appended.set())
        # What was appended before this moment was not announced to us.
        self._appended.set()

    async def _connected(
        self, settings: dict[str, str], command_seconds: float = COMMAND_SECONDS
    ) -> asyncpg.Connection:
        """A connection as the URL says; errors of the driver's own become those of the system."""
        try:
            return await asyncpg.connect(
                self._url,
                timeout=CONNECT_SECONDS,
                command_timeout=command_seconds,
                server_settings=settings,
            )
        except (*_USAGE, asyncpg.InvalidPasswordError, ValueError) as error:
            raise UsageError(f"{self.place}: {error}") from error
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise ConnectionError(str(error)) from error
