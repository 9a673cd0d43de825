"""A log in a database: appended by one writer, read by anyone.

The writing connection and the reading ones are apart: a reader sees what is committed, takes no lock
and cannot write. A log opened for reading has no writer at all.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import structlog
from sqlalchemy import delete
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log import bases, signatures, snapshots, tables
from daemon.log.anchors import Anchor
from daemon.log.base_records import entries_of, objects_of
from daemon.log.bases import Pause
from daemon.log.code_key import KEPT_BASE, code_key
from daemon.log.contents import ObjectRow, Packer
from daemon.log.contract import ReadableLog
from daemon.log.database import (
    DRIVER_ERRORS,
    Contents,
    Database,
    Found,
    check_found,
    damaged,
    located,
)
from daemon.log.entry import Base, Entry, Projection, Snapshot, StandingView
from daemon.log.lost_records import check_anchors
from daemon.log.migrate import migrate
from daemon.log.reading import Reader
from daemon.log.session import Faults, Work
from daemon.log.signatures import Signature
from daemon.log.verify import verify
from daemon.log.views import (
    changes_script,
    differing_view,
    mark,
    now_standing,
    stand,
    standing_rows,
)
from daemon.log.writing import Writer
from engine.batch import Batch
from events.errors import DamagedLogError, UsageError
from events.record import Head, Record
from projections.views.catalogue import VIEWS
from projections.views.rows import Row, ViewChanges

CLOSE_SECONDS: Final = 5.0
"""The longest that connections are waited for when the log is closed."""

IN_SNAPSHOTS: Final = re.compile(r"(table snapshot:|of table snapshot:)")

logger: Final = structlog.get_logger("muster")


def no_faults(point: str) -> None:
    """Nothing goes wrong on purpose."""


class Asked(NamedTuple):
    """The answer to a query."""

    columns: tuple[str, ...]
    rows: list[Row]


class SqlLog:
    """A log in a database."""

    def __init__(
        self, database: Database, writer: Writer | None, head: Head, reader: Reader | None = None
    ) -> None:
        self._database = database
        self._reader = reader or Reader(database)
        self._writer = writer
        self._head = head
        self._torn_snapshots = False
        """Whether the table of snapshots cannot be read: then none is written either."""

    @property
    def place(self) -> str:
        """Where the log is, without a password."""
        return self._database.place

    @property
    def base(self) -> Head:
        """The head before the first record: that of an archive, or genesis."""
        return self._reader.base

    @property
    def base_digest(self) -> str | None:
        """The digest of the records with which it begins; None if there are none."""
        return self._reader.base_digest

    @property
    def head(self) -> Head:
        """The last durable head as this process knows it."""
        return self._head if self._writer is None else self._writer.head

    async def append(self, *batches: Batch) -> None:
        """Return when the batches are durable. Calls may overlap; batches are written in call order.

        `FencedError`: someone else moved the head or the epoch. `LogUnavailableError`: none of these
        batches and no later one may be taken to be in the log; throw away state that ran ahead, call
        `reopen` and fold what the log then holds.
        """
        await self._writing.append(*batches)

    async def append_stored(self, records: list[Record], objects: list[ObjectRow]) -> None:
        """Append whole batches of another log as they are; the views are to be rebuilt then."""
        await self._writing.append_stored(records, objects)

    async def take_over(self, holder: str, *, epoch: int | None = None) -> Head:
        """Raise the epoch, so that earlier writers are fenced out.

        The `daemon_started` record that comes next names `holder`. `epoch` is given where a
        log is made whole out of another.
        """
        return await self._writing.take_over(epoch)

    async def reopen(self) -> Head:
        """Connect again after the log was unavailable; the head says what is in the log."""
        return await self._writing.reopen()

    async def check_end(self) -> None:
        """Compare the log and its files with the last durable head, and put the anchor beside it on disk.

        LostRecordsError if the log does not hold that head; LogUnavailableError if it cannot be read.
        """
        await self._writing.check()
        await asyncio.to_thread(self._database.sync_anchor)

    def stored_anchor(self) -> Anchor | None:
        """The head that the log had last, as it is kept beside a SQLite log."""
        return self._database.stored_anchor()

    def keep_anchor(self) -> None:
        """Keep each durable head beside the log from now on, where the database is a file."""
        self._database.keep_anchor(self.head)

    async def run(self, work: Work) -> None:
        """Do other work in a transaction of the writing connection."""
        await self._writing.run(work)

    def read(self, after: int = 0, until: int | None = None) -> AsyncIterator[list[Entry]]:
        """Entries after a position, in chunks. Objects are checked, the chain is not."""
        return self._reader.read(after, until)

    def tail(self, after: int) -> AsyncIterator[list[Entry]]:
        """Entries after a position, for ever, as they are committed."""
        return self._reader.follow(after)

    async def position_at(self, at_ns: int) -> int:
        """The position of the last record written at or before a time, by the index of times; 0 for none."""
        return await self._reader.position_at(at_ns)

    def entries_at(self, positions: Sequence[int]) -> AsyncIterator[list[Entry]]:
        """Entries at some positions, in chunks and in order. Objects are checked, the chain is not."""
        return self._reader.entries_at(positions)

    async def positions_of(
        self, subjects: list[str], until: int, kinds: Sequence[str] = ()
    ) -> list[int]:
        """The positions of the records of subjects up to a position, in order; of `kinds` only, where any are given."""
        return await self._reader.positions_of(subjects, until, kinds)

    async def positions_of_kinds(self, kinds: Sequence[str], after: int, until: int) -> list[int]:
        """The positions of the records of kinds, in order; by an index for those of `FOUND_BY_KIND`."""
        return await self._reader.positions_of_kinds(kinds, after, until)

    async def cycles_at(self, positions: Sequence[int]) -> dict[int, int]:
        """Each position that the log holds, with that of the last cycle opened at or before it; 0 for none."""
        return await self._reader.cycles_at(positions)

    async def newest_objects(self, subjects: list[str], until: int | None = None) -> dict[str, int]:
        """The position of the last record with an object of each subject that has one, up to a position."""
        return await self._reader.newest_objects(subjects, until)

    async def is_archived(self, position: int) -> bool:
        """Whether the log begins behind a position by now: another process may have archived what was there."""
        await self._reader.load_base()
        return position <= self.base.position

    async def contents_of(self, digests: Sequence[str]) -> dict[str, bytes]:
        """The objects of these digests; those that are not there or were redacted are left out."""
        return await self._reader.contents_of(digests)

    async def first_and_last_objects(self, kind: str) -> list[int]:
        """The positions of the first and the last record with an object of each subject of a kind."""
        return await self._reader.first_and_last_objects(kind)

    async def refresh(self) -> Head:
        """The head as the database has it now, for a log opened for reading."""
        self._head = await self._reader.head()
        await self._reader.load_base()
        return self._head

    async def begin_behind(self, head: Head, base: Base | None) -> None:
        """Let an empty log begin behind a position, with what stands there and its objects."""
        if base is not None:
            await self.insert_objects(base)

        async def work(connection: AsyncConnection) -> None:
            await bases.move(connection, self.base, head, base)

        await self._writing.begin_behind(head, work)
        await self._reader.load_base()

    async def move_base(self, head: Head, base: Base | None) -> None:
        """Let the log begin behind another position, in one transaction. `purge` deletes what then stands before it."""
        await self._writing.run(lambda connection: bases.move(connection, self.base, head, base))
        await self._reader.load_base()

    async def insert_objects(self, base: Base) -> None:
        """Insert the objects that stand, as far as they are not there."""
        objects, packer = await asyncio.to_thread(objects_of, base, self.place), Packer()
        for start in range(0, len(objects), bases.PURGED_AT_ONCE):
            some = objects[start : start + bases.PURGED_AT_ONCE]
            await self._writing.insert_objects(await asyncio.to_thread(packer.rows, some))

    async def insert_archived(self, records: list[Record], objects: list[ObjectRow]) -> None:
        """Insert records before the base, which are not read until the base is moved."""
        assert records[-1].position <= self.base.position
        await self._writing.insert_archived(records, objects)

    async def purge(self, pause: Pause | None = None, also: frozenset[str] = frozenset()) -> int:
        """Delete the records at or before the base; return how many. Objects that only they refer to are deleted, too, but for those
        of the base, and so are those of the digests `also` that nothing refers to.

        Each transaction is short; `pause` is called after each. May be broken off at any point and repeated.
        """
        return await bases.purge(self._database, self._reader, self._writing.run, pause, also)

    async def save_snapshot(self, position: int, digest: str, code: str, payload: bytes) -> None:
        """Keep State at a position, and of the snapshots of its code a ladder. Into a torn table nothing is written."""
        snapshot = Snapshot(position=position, digest=digest, code=code, payload=payload)
        if self._torn_snapshots:
            return
        packed = snapshots.pack(snapshot)
        await self._writing.run(lambda connection: snapshots.save(connection, snapshot, packed))

    async def read_base(self) -> Base | None:
        """The records with which the log begins, packed; None for one that begins with the first record."""
        if self.base_digest is None:
            return None
        async with self._reader.connection(is_patient=True) as connection:
            return await bases.read(connection, self.place)

    async def latest_snapshot(self, code: str, before: int | None = None) -> Snapshot | None:
        """The newest sound snapshot of some code, at or before a position; what is passed over is logged.

        Where the table itself is torn there is none, and this process writes none.
        """
        try:
            async with self._reader.connection(is_patient=True) as connection:
                found, wrong = await snapshots.latest(connection, code, before)
        except DamagedLogError as error:
            if not IN_SNAPSHOTS.search(str(error)):
                raise
            found, wrong, self._torn_snapshots = None, [str(error)], True
        for one in wrong:
            logger.warning("a snapshot is passed over", place=self.place, error=one)
        return found

    async def snapshot_positions(self, code: str) -> list[int]:
        """The positions of the snapshots of some code, in order; whether they are sound is not looked at."""
        async with self._reader.connection(is_patient=True) as connection:
            return await snapshots.positions(connection, code)

    async def save_signature(self, signature: Signature) -> None:
        """Store a signature of a head. `DamagedLogError` where the log does not have its digest."""
        await self._writing.run(lambda connection: signatures.save(connection, signature))

    async def signatures(self) -> list[Signature]:
        """The stored signatures, by position."""
        async with self._reader.connection(is_patient=True) as connection:
            return await signatures.stored(connection)

    async def check_rest(self) -> None:
        """Check what a start relies on beside the records: tables, indexes, snapshots, views.

        `DamagedLogError` names the table or the index.
        """
        database = self._database
        if (damage := await database.damage(is_thorough=True)) is not None:
            raise damaged(self.place, damage)
        async with self._reader.connection(is_patient=True) as connection:
            if wrong := await snapshots.check(connection, frozenset({code_key(), KEPT_BASE})):
                raise damaged(self.place, f"table snapshot: {wrong[0]}")
            if self.base_digest is not None:
                base = await bases.read(connection, self.place)
                await asyncio.to_thread(lambda: all(True for _ in entries_of(base, self.place)))
            if other := await differing_view(connection, database.begin_reading):
                raise damaged(self.place, f"table {other}: its rows are not those of its checksum")

    async def damage(self) -> str | None:
        """The first thing torn in the database, as a table, an index or a position."""
        return await self._database.damage(is_thorough=False)

    def condemn(self, error: DamagedLogError) -> None:
        """Write nothing more: the log was found damaged. On SQLite the next process finds that, too."""
        self._database.condemn(str(error))
        if self._writer is not None:
            self._writer.condemn(error)

    async def view_rows(self, view: str) -> list[Row]:
        """The rows that stand now, in any order; with `from_position` behind where there is a history."""
        async with self._reader.connection(is_patient=True) as connection:
            return await standing_rows(connection, view)

    async def views_at_once(self, views: Sequence[str]) -> list[StandingView]:
        """Where each view stands and, of those named, the rows: all as of one moment, although someone
        else may be writing."""
        async with self._reader.connection(is_patient=True) as connection:
            return await now_standing(connection, self._database.begin_reading, views)

    async def projections(self) -> list[Projection]:
        """Where each view stands. One that is not at the head was not kept up: rebuild it."""
        async with self._reader.connection() as connection:
            return await stand(connection)

    async def ask(self, query: str) -> Asked:
        """The answer to a query, over a connection that cannot write."""
        async with self._reader.connection(is_patient=True) as connection:
            found = await connection.exec_driver_sql(query)
            return Asked(tuple(found.keys()), [tuple(row) for row in found])

    async def clear_views(self) -> None:
        """Empty every view, to be written again from the first position."""

        async def clear(connection: AsyncConnection) -> None:
            for view in VIEWS:
                await connection.execute(delete(tables.table_of(view)))
                await mark(connection, self._database.statements, view, self.base.position, 0)

        await self._writing.run(clear)

    async def write_views(self, changes: Sequence[ViewChanges], before: int, after: int) -> None:
        """Write how views change between two positions that the log holds already."""
        database = self._database
        script = changes_script(database.statements, changes, before=before, after=after)
        await self._writing.run(lambda connection: database.run_script(connection, script))

    async def close(self) -> None:
        """Write what is queued, then let go of everything."""
        try:
            # Readers first: the last connection to go is the one that checkpoints.
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._database.readers.dispose()
            if self._writer is not None:
                await self._writer.close()
        finally:
            await self._database.close()

    @property
    def _writing(self) -> Writer:
        if self._writer is None:
            raise UsageError(f"{self.place} is open for reading only")
        return self._writer


async def stored_signatures(log: ReadableLog) -> list[Signature]:
    """Return the signatures that a log holds; a log outside of a database holds none."""
    return await log.signatures() if isinstance(log, SqlLog) else []


async def open_for_reading(database: Database) -> SqlLog:
    """A log that is there already; nothing of it is changed."""
    try:
        check_found(await _look(database), database.place, writing=False)
        reader = Reader(database)
        await reader.load_base()
        return SqlLog(database, None, await reader.head(), reader)
    except BaseException:
        await database.close()
        raise


async def open_for_writing(
    database: Database, faults: Faults = no_faults, *, is_shortened: bool = False
) -> SqlLog:
    """A log, created where there is none, and brought to the present schema.

    LostRecordsError if it does not hold the head that is kept beside it, unless `is_shortened`.
    """
    try:
        await database.lock()
        anchor = None if is_shortened else database.stored_anchor()
        found = await _look(database)
        check_found(found, database.place, writing=True)
        if found.contents is Contents.LOG:
            head = await Reader(
                database
            ).head()  # Refuses a newer format before anything is changed.
            if database.is_condemned and found.revision == tables.REVISIONS[-1]:
                await _verify_condemned(database, head)
        writer = Writer(database, faults)
        connection = await _prepared(database, found)
        await writer.open(connection)
        if database.is_condemned:
            await _verify_condemned(database, writer.head)
        reader = Reader(database)
        await reader.load_base()
        log = SqlLog(database, writer, writer.head, reader)
        if anchor is not None:
            try:
                await check_anchors(log, [anchor])
            except BaseException:
                await writer.close()
                raise
        return log
    except BaseException:
        await database.close()
        raise


async def _verify_condemned(database: Database, head: Head) -> None:
    """Verify a log that was found damaged. Raises DamagedLogError."""
    logger.warning("the log was found damaged and is verified first", place=database.place)
    reader = Reader(database)
    await reader.load_base()
    await verify(SqlLog(database, None, head, reader))
    database.acquit()


async def _look(database: Database) -> Found:
    try:
        return await database.look()
    except DRIVER_ERRORS as error:
        raise await located(database, error) from error


async def _prepared(database: Database, found: Found) -> AsyncConnection:
    """A writing connection to a database whose tables are those of this release."""
    try:
        if found.revision != tables.REVISIONS[-1]:
            patient = await database.connect(is_patient=True)
            try:
                await migrate(patient, database.statements.begin)
            finally:
                await patient.close()
        connection = await database.connect()
        try:
            await _mark_views(connection, database)
        except BaseException:
            await connection.close()
            raise
    except DRIVER_ERRORS as error:
        raise await located(database, error) from error
    return connection


async def _mark_views(connection: AsyncConnection, database: Database) -> None:
    """A view that is new, or whose code is, holds nothing of the log yet."""
    known = {item.name: item.version for item in await stand(connection)}
    for view in VIEWS:
        if known.get(view.name) != view.version:
            await mark(connection, database.statements, view, 0, 0)
