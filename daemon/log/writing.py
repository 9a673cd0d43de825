"""The one writer of a log: group commit and fencing.

There is no writing task. A caller of append puts its batch into a bounded queue and waits for its turn;
the first whose turn it is writes all that is queued in one transaction, and the others find theirs
written. What arrives while a transaction is being committed thus goes into the next one.
"""

import asyncio
from collections import deque
from typing import TypeAlias

from msgspec import Struct
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log.contents import ObjectRow, Packer
from daemon.log.database import Database, Script
from daemon.log.session import Faults, Session, Work
from daemon.log.views import changes_script
from engine.batch import Batch
from events.errors import (
    FencedError,
    LogError,
    LogUnavailableError,
    LostRecordsError,
    UsageError,
)
from events.record import GENESIS, Head, Record, StoredObject
from projections.views.rows import ViewChanges

QUEUE_BATCHES_MAX = 1_024
"""Batches that wait to be written; a further append waits to be queued."""
GROUP_RECORDS_MAX = 20_000
"""A transaction takes no further batch beyond so many records."""
LogRow: TypeAlias = tuple[
    int, int, int, int, int | None, int | None, str, str, str, str | None, str
]


class Pending(Struct, eq=False):
    """A batch in the queue. `views` is null where views are not kept up with it."""

    before: Head
    after: Head
    records: list[Record]
    objects: list[StoredObject]
    packed: list[ObjectRow]
    """Objects that are packed already."""
    views: ViewChanges | None
    written: bool = False
    error: LogError | None = None


class Writer:
    """Writes one log over the one connection that may."""

    def __init__(self, database: Database, faults: Faults) -> None:
        self.head = self._tail = GENESIS
        self._place = database.place
        self._database = database
        self._session = Session(database, faults)
        self._packer = Packer()
        self._entry = asyncio.Lock()
        self._turn = asyncio.Lock()
        self._queue: deque[Pending] = deque()
        self._owned_epoch: int | None = None
        self._condemned: LogError | None = None
        """Why nothing is ever written again over this writer."""
        self._broken: LogError | None = LogUnavailableError(f"{self._place} is not open")

    async def open(self, connection: AsyncConnection) -> None:
        """Begin to write over a connection, from the head that the database has."""
        self.head = self._tail = await self._session.open(connection)
        self._broken = None

    async def append(self, *batches: Batch) -> None:
        """Return when the batches, each of which follows the one before, are durable."""
        pending: Pending | None = None
        async with self._entry:  # Fair: batches are queued in the order of the calls.
            for batch in batches:
                pending = Pending(
                    batch.before, batch.after, batch.records, batch.objects, [], batch.views
                )
                await self._queue_up(pending)
        if pending is not None:
            await self._written(pending)  # They are written in their order, and fail together.

    async def append_stored(self, records: list[Record], objects: list[ObjectRow]) -> None:
        """Append whole batches of another log as they are. Views are not kept up with them."""
        self._check_storable(records)
        async with self._entry:
            last, before = records[-1], self._tail
            after = Head(position=last.position, digest=last.digest, epoch=last.epoch)
            pending = Pending(before, after, records, [], objects, None)
            await self._queue_up(pending)
        await self._written(pending)

    async def insert_archived(self, records: list[Record], objects: list[ObjectRow]) -> None:
        """Insert whole batches before the base in one transaction; the head stays."""
        self._check_storable(records)
        sql = self._database.statements
        script: Script = [(sql.insert_object, objects)] if objects else []
        script.append((sql.insert_log, log_rows(records)))
        await self.run(lambda connection: self._database.run_script(connection, script))

    async def insert_objects(self, objects: list[ObjectRow]) -> None:
        """Insert objects that are not there, in one transaction."""
        script: Script = [(self._database.statements.insert_object, objects)]
        await self.run(lambda connection: self._database.run_script(connection, script))

    async def begin_behind(self, base: Head, work: Work) -> None:
        """Do work and move the head of an empty log, in one transaction."""
        async with self._entry, self._turn:
            before = self.head

            async def move(connection: AsyncConnection) -> None:
                await work(connection)
                await self._session.take_over(connection, before, base)

            await self._run(move)
            self.head = self._tail = base

    async def take_over(self, epoch: int | None = None) -> Head:
        """Raise the epoch: from here on only this writer may append."""
        async with self._entry, self._turn:
            await self._write_all()
            before = self.head
            epoch = before.epoch + 1 if epoch is None else epoch
            after = Head(position=before.position, digest=before.digest, epoch=epoch)
            await self._run(lambda connection: self._session.take_over(connection, before, after))
            self.head = self._tail = after
            self._owned_epoch = after.epoch
            self._database.note_durable(after)
            return after

    async def run(self, work: Work) -> None:
        """Do other work in a transaction of its own, between two groups."""
        async with self._turn:
            await self._run(work)

    async def reopen(self) -> Head:
        """Connect again after the log was unavailable. What the head says is in the log, no more."""
        async with self._entry, self._turn:
            if self._condemned is not None:
                raise self._condemned
            if isinstance(self._broken, FencedError):
                raise self._broken
            try:
                head = await self._session.reconnect(self.head)
            except LostRecordsError as error:
                self.condemn(error)
                raise
            if self._owned_epoch not in (None, head.epoch):
                self._broken = FencedError(
                    f"{self._place}: its epoch is {head.epoch}, this writer began {self._owned_epoch}"
                )
                raise self._broken
            self.head = self._tail = head
            self._broken = None
            return head

    async def check(self) -> None:
        """Compare the log with the last durable head. LostRecordsError if it does not hold that: then nothing more is written."""
        async with self._turn:
            if self._broken is not None:
                raise self._broken
            try:
                await self._session.check(self.head)
            except LogError as error:
                if isinstance(error, LostRecordsError):
                    self._condemned = error
                self._fail([], error)
                raise

    def condemn(self, error: LogError) -> None:
        """Write nothing more, and do not connect again."""
        self._condemned = error
        self._fail([], error)

    async def close(self) -> None:
        """Write what is queued, and let the connection go."""
        async with self._entry, self._turn:
            await self._write_all()
            self._broken = self._broken or LogUnavailableError(f"{self._place} is closed")
            await self._session.close()

    def _check_storable(self, records: list[Record]) -> None:
        """Raise UsageError for a record that this database cannot hold: release 0.1 took a NUL into names."""
        if self._database.stores_nul:
            return
        for record in records:
            if "\0" in record.subject:
                raise UsageError(
                    f"{self._place}: position {record.position}: its subject contains a NUL character, "
                    "which PostgreSQL cannot store; import this log into a SQLite file"
                )

    async def _queue_up(self, pending: Pending) -> None:
        while len(self._queue) >= QUEUE_BATCHES_MAX:
            async with self._turn:
                await self._write_group()
        if self._broken is not None:
            raise self._broken
        if pending.before != self._tail:
            raise FencedError(
                f"{self._place}: a batch follows position {pending.before.position} of epoch "
                f"{pending.before.epoch}, but the log ends at {self._tail.position} of epoch "
                f"{self._tail.epoch}"
            )
        self._queue.append(pending)
        self._tail = pending.after

    async def _written(self, pending: Pending) -> None:
        async with self._turn:
            while not pending.written and pending.error is None:
                await self._write_group()
        if pending.error is not None:
            raise pending.error

    async def _write_all(self) -> None:
        while self._queue:
            await self._write_group()

    async def _write_group(self) -> None:
        """Write a group of what is queued; if that fails, all that is queued has failed."""
        group = self._group()
        if not group:
            return
        after = group[-1].after
        try:
            await self._session.append(
                lambda: self._script(group), _count(group), group[0].before, after
            )
        except LogError as error:
            if isinstance(error, LostRecordsError):
                self._condemned = error
            self._fail(group, error)
        except BaseException:
            self._fail(group, LogUnavailableError(f"{self._place}: an append was broken off"))
            raise
        else:
            self.head = after
            self._database.note_durable(after)
            for pending in group:
                pending.written = True

    def _script(self, group: list[Pending]) -> Script:
        """The rows of a group, with its objects packed. Parameters in lists of tuples, as the driver takes them.

        Called beside the event loop: packing takes as long as writing.
        """
        sql = self._database.statements
        objects = self._packer.rows(one for pending in group for one in pending.objects)
        objects += [row for pending in group for row in pending.packed]
        script: Script = [(sql.insert_object, objects)] if objects else []
        script.append((sql.insert_log, log_rows([r for one in group for r in one.records])))
        before, after = group[0].before.position, group[-1].after.position
        views = [pending.views for pending in group if pending.views is not None]
        if len(views) == len(group):
            script += changes_script(sql, views, before=before, after=after)
        return script

    def _group(self) -> list[Pending]:
        group: list[Pending] = []
        records = 0
        while self._queue:
            records += len(self._queue[0].records)
            if group and records > GROUP_RECORDS_MAX:
                break
            group.append(self._queue.popleft())
        return group

    def _fail(self, group: list[Pending], error: LogError) -> None:
        self._broken = error
        for pending in (*group, *self._queue):
            pending.error = error
        self._queue.clear()

    async def _run(self, work: Work) -> None:
        if self._broken is not None:
            raise self._broken
        try:
            await self._session.transaction(work)
        except BaseException as error:
            if not self._session.is_open:
                lost = LogUnavailableError(f"{self._place}: a transaction was broken off")
                self._broken = error if isinstance(error, LogError) else lost
                self._fail([], self._broken)
            raise


def _count(group: list[Pending]) -> int:
    """The objects that are packed for a group."""
    return sum(len(pending.objects) for pending in group)


def log_rows(records: list[Record]) -> list[LogRow]:
    """Records as rows of `log`."""
    return [
        (
            record.position,
            record.batch,
            record.epoch,
            record.recorded_at_ns,
            record.cycle,
            record.cause,
            record.kind,
            record.subject,
            record.body.decode(),
            record.object,
            record.digest,
        )
        for record in records
    ]
