"""Reading a log in chunks. Positions are dense, so that a chunk is a range of them."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import msgspec
from sqlalchemy import ColumnElement, ScalarSelect, func, literal_column, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log import tables
from daemon.log.contents import Unpacker
from daemon.log.database import DRIVER_ERRORS, Database, check_format, located
from daemon.log.entry import Entry
from daemon.log.statements import select_entries
from daemon.log.tables import CYCLE_KINDS
from events.errors import DamagedLogError, LogUnavailableError
from events.record import GENESIS, Head, Record

CHUNK = 1000
"""Positions read in one go: no reader keeps an old state of the database alive for long."""

CHUNK_BYTES: Final = 8 * 1024 * 1024
"""Bytes of objects, unpacked, after which a chunk ends: a thousand objects of tenants may be a gigabyte."""

_Row: TypeAlias = tuple[
    int,
    int,
    int,
    int,
    int | None,
    int | None,
    str,
    str,
    bytes,
    str | None,
    str,
    str | None,
    bytes | None,
]
"""The columns of `log`, then codec and bytes of the object."""

_ERRORS = (*DRIVER_ERRORS, msgspec.ValidationError)


class Reader:
    """Reads one log over connections that cannot write."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._unpacker = Unpacker()
        self.base = GENESIS
        """The head before the first record. What stands before it is archived, and not read."""
        self.base_digest: str | None = None
        """The digest of the records with which it begins there; None if there are none."""

    async def load_base(self) -> None:
        """Read where the log begins."""
        database = self._database
        async with self.connection() as connection:
            found = await connection.exec_driver_sql(database.statements.read_base)
            row = tuple(found.one_or_none() or ())
        try:
            position, digest, epoch, base_digest = msgspec.convert(
                row, tuple[int, str, int, str | None]
            )
        except msgspec.ValidationError as error:
            raise DamagedLogError(
                f"{database.place}: table log_base: the base cannot be read: {error}"
            ) from error
        self.base = Head(position=position, digest=digest, epoch=epoch)
        self.base_digest = base_digest

    async def head(self) -> Head:
        """The head as it stands in the database."""
        database = self._database
        async with self.connection() as connection:
            found = await connection.exec_driver_sql(database.statements.read_head)
            return head_of(tuple(found.one_or_none() or ()), database.place)

    async def position_at(self, at_ns: int) -> int:
        """The position of the last record written at or before a time; that of the base for none."""
        async with self.connection() as connection:
            sql = self._database.statements.position_at
            found: int | None = (await connection.exec_driver_sql(sql, (at_ns,))).scalar()
            return max(found or 0, self.base.position)

    async def positions_of(
        self, subjects: list[str], until: int, kinds: Sequence[str] = ()
    ) -> list[int]:
        """The positions of the records of subjects up to a position, in order; of `kinds` only, where any are given."""
        log, found = tables.log, list[int]()
        for start in range(0, len(subjects), CHUNK):
            is_wanted: ColumnElement[bool] = log.c.subject.in_(subjects[start : start + CHUNK])
            if kinds:
                is_wanted &= log.c.kind.in_(kinds)
            found += await self._positions(is_wanted, 0, until)
        return sorted(found)

    async def positions_of_kinds(self, kinds: Sequence[str], after: int, until: int) -> list[int]:
        """The positions of the records of kinds, in order."""
        return await self._positions(or_(*map(_is_of_kind, kinds)), after, until)

    async def _positions(self, is_wanted: ColumnElement[bool], after: int, until: int) -> list[int]:
        position, after = tables.log.c.position, max(after, self.base.position)
        query = select(position).where(is_wanted, position > after, position <= until)
        async with self.connection() as connection:
            return [int(row[0]) for row in await connection.execute(query.order_by(position))]

    async def cycles_at(self, positions: Sequence[int]) -> dict[int, int]:
        """Each position that the log holds, with that of the last cycle opened at or before it; 0 for none."""
        at, base = tables.log.alias("at"), self.base.position
        last = (_last_of_kind(kind, at.c.position) for kind in CYCLE_KINDS)
        query, found = select(at.c.position, *last), dict[int, int]()
        wanted = [one for one in positions if one > base]
        for start in range(0, len(wanted), CHUNK):
            is_wanted = at.c.position.in_(wanted[start : start + CHUNK])
            async with self.connection() as connection:
                for position, *cycles in await connection.execute(query.where(is_wanted)):
                    newest = max(cycle or 0 for cycle in cycles)
                    found[int(position)] = newest if newest > base else 0
        return found

    async def entries_at(self, positions: Sequence[int]) -> AsyncIterator[list[Entry]]:
        """The entries at some positions, in chunks and in order."""
        wanted = [one for one in positions if one > self.base.position]
        for start in range(0, len(wanted), CHUNK):
            some = wanted[start : start + CHUNK]
            try:
                rows = await self._rows_at(some)
            except _ERRORS as error:
                raise await self._located(((one - 1, one) for one in some), error) from error
            for entries in self._entries(rows):
                yield entries

    async def _rows_at(self, positions: Sequence[int]) -> list[_Row]:
        async with self._database.readers.connect() as connection:
            query = select_entries(connection.dialect)
            found = await connection.execute(query.where(tables.log.c.position.in_(positions)))
            return msgspec.convert([tuple(row) for row in found.all()], list[_Row])

    async def newest_objects(self, subjects: list[str], until: int | None = None) -> dict[str, int]:
        """The position of the last record with an object of each subject that has one, up to a position."""
        log, found = tables.log, dict[str, int]()
        query = select(log.c.subject, func.max(log.c.position)).where(
            log.c.object.is_not(None), log.c.position > self.base.position
        )
        if until is not None:
            query = query.where(log.c.position <= until)
        for start in range(0, len(subjects), CHUNK):
            some = log.c.subject.in_(subjects[start : start + CHUNK])
            async with self.connection() as connection:
                rows = await connection.execute(query.where(some).group_by(log.c.subject))
                found.update({str(row[0]): int(row[1]) for row in rows})
        return found

    async def contents_of(self, digests: Sequence[str]) -> dict[str, bytes]:
        """The objects of these digests; those that are not there or were redacted are left out."""
        objects, found = tables.objects, dict[str, bytes]()
        query = select(objects.c.digest, objects.c.codec, objects.c.bytes)
        for start in range(0, len(digests), CHUNK):
            some = objects.c.digest.in_(digests[start : start + CHUNK])
            async with self.connection() as connection:
                rows = (await connection.execute(query.where(some))).all()
            for digest, codec, data in rows:
                content = self._unpacker.content(self.base.position, digest, codec, data).content
                if content is not None:
                    found[digest] = content
        return found

    async def first_and_last_objects(self, kind: str) -> list[int]:
        """The positions of the first and the last record with an object of each subject of a kind."""
        log = tables.log
        query = select(func.min(log.c.position), func.max(log.c.position)).where(
            log.c.object.is_not(None),
            log.c.subject.like(f"{kind}/%"),
            log.c.position > self.base.position,
        )
        async with self.connection(is_patient=True) as connection:
            rows = await connection.execute(query.group_by(log.c.subject))
            return [int(position) for row in rows for position in row]

    @asynccontextmanager
    async def connection(self, *, is_patient: bool = False) -> AsyncIterator[AsyncConnection]:
        """A connection that cannot write, with errors in our words; a patient one reads whole tables."""
        database = self._database
        try:
            readers = database.patient_readers if is_patient else database.readers
            async with readers.connect() as connection:
                yield connection
        except DRIVER_ERRORS as error:
            raise await located(self._database, error) from error

    async def read(self, after: int, until: int | None) -> AsyncIterator[list[Entry]]:
        """Chunks of entries after `after` up to `until` or the head of this moment.

        A reader that comes to the end learns there whether the end matches the head.
        """
        last = (await self.head()).position
        after = max(after, self.base.position)
        to_the_end = until is None or until >= last
        until = last if until is None else min(until, last)
        while after < until:
            upper = min(after + CHUNK, until)
            rows = await self._chunk(after, upper)
            if not rows or rows[0][0] != after + 1:
                await self._check_archived(after)
            for entries in self._entries(rows):
                yield entries
            after = upper
        if to_the_end:
            async with self.connection() as connection:
                await check_head(connection, self._database)

    async def follow(self, after: int) -> AsyncIterator[list[Entry]]:
        """Chunks of entries after `after`, for ever: what is appended comes as it is committed."""
        while True:
            async for entries in self.read(after, None):
                after = entries[-1].record.position
                yield entries
            await self._database.wait(self._database.poll_seconds)

    async def _check_archived(self, after: int) -> None:
        """Raise LogUnavailableError if the records after a position were archived since the base was read."""
        await self.load_base()
        if after < self.base.position:
            raise LogUnavailableError(
                f"{self._database.place}: the records up to position {self.base.position} were archived meanwhile; "
                "ask again"
            )

    async def _chunk(self, after: int, upper: int) -> list[_Row]:
        try:
            return await self._rows(after, upper)
        except _ERRORS as error:
            single = ((one, one + 1) for one in range(after, upper))
            raise await self._located(single, error) from error

    def _entries(self, rows: list[_Row]) -> Iterator[list[Entry]]:
        """Unpack rows, in lists of about `CHUNK_BYTES` of objects."""
        entries: list[Entry] = []
        size_bytes = 0
        for row in rows:
            entry = self._entry(row)
            entries.append(entry)
            size_bytes += len(entry.content or b"")
            if size_bytes >= CHUNK_BYTES:
                yield entries
                entries, size_bytes = [], 0
        if entries:
            yield entries

    async def _rows(self, after: int, upper: int) -> list[_Row]:
        database = self._database
        async with database.readers.connect() as connection:
            rows = await connection.exec_driver_sql(database.statements.read_rows, (after, upper))
            return msgspec.convert([tuple(row) for row in rows.all()], list[_Row])

    async def _located(self, single: Iterable[tuple[int, int]], error: Exception) -> Exception:
        """The error with the position of the first row that cannot be read, of stretches of one row each."""
        explained = self._explained(error)
        if not isinstance(explained, DamagedLogError):
            return explained
        if not isinstance(error, msgspec.ValidationError):
            whole = await located(self._database, error)
            if ": index " in str(whole):
                return whole  # The records may be sound: objects are found by an index.
        for before, position in single:
            try:
                await self._rows(before, position)
            except _ERRORS as first:
                return DamagedLogError(f"position {position}: {self._explained(first)}")
        # Each can be read alone, so it is not the records.
        if isinstance(error, msgspec.ValidationError):
            return DamagedLogError(f"table log: {explained}")
        return await located(self._database, error)

    def _explained(self, error: Exception) -> Exception:
        if isinstance(error, msgspec.ValidationError):
            return DamagedLogError(f"a column is of another type: {error}")
        return self._database.explain(error)

    def _entry(self, row: _Row) -> Entry:
        record = Record(*row[:11])
        if record.object is None:
            return Entry(record=record)
        content = self._unpacker.content(record.position, record.object, row[11], row[12]).content
        return Entry(record=record, content=content, redacted=content is None)


def _is_of_kind(kind: str) -> ColumnElement[bool]:
    """The condition on a kind, as a literal: the index of kinds is one of few kinds, named in its definition."""
    return tables.log.c.kind == literal_column(f"'{kind}'")


def _last_of_kind(kind: str, until: ColumnElement[int]) -> ScalarSelect[int]:
    """The position of the last record of a kind at or before another."""
    log = tables.log.alias()
    is_kind = log.c.kind == literal_column(f"'{kind}'")
    return (
        select(func.max(log.c.position)).where(is_kind, log.c.position <= until).scalar_subquery()
    )


async def check_head(connection: AsyncConnection, database: Database) -> Head:
    """The head, which must be that of the last record, as both stand at one moment."""
    found = await connection.exec_driver_sql(database.statements.read_end)
    row = tuple(found.one_or_none() or ()) or (None,) * 8
    head, last, digest = head_of(row[:4], database.place), row[4], row[5]
    if last is None:
        last, digest = row[6] or 0, row[7]
    if (head.position, head.digest) == (last, digest):
        return head
    position = last if head.position == last else min(head.position, last) + 1
    raise DamagedLogError(
        f"position {position}: the log ends at position {last}, "
        f"its head says position {head.position} with digest {head.digest[:12]}"
    )


def head_of(row: Sequence[object], place: str) -> Head:
    """The head in a row of `log_head`."""
    try:
        position, digest, epoch, written = msgspec.convert(row, tuple[int, str, int, int])
    except msgspec.ValidationError as error:
        raise DamagedLogError(
            f"{place}: table log_head: the head cannot be read: {error}"
        ) from error
    check_format(written, place)
    return Head(position=position, digest=digest, epoch=epoch)
