"""A bundle as a log: read only, from its beginning each time."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import takewhile
from pathlib import Path

from msgspec import UNSET, Struct, field

from daemon.log.bundle import BundleReader
from daemon.log.entry import Base, Entry, Projection, Snapshot
from daemon.log.memory import last_before
from daemon.log.tables import CYCLE_KINDS
from events.errors import DamagedLogError
from events.record import Record
from projections.views.rows import Row

CHUNK = 1000
CHUNK_BYTES = 64 << 20
"""Bytes of bodies after which a chunk ends; the bytes of objects are bounded by what a reader holds."""


class _Index(Struct):
    """Where the records of a bundle stand."""

    of_subject: dict[str, list[int]] = field(default_factory=dict)
    of_kind: dict[str, list[int]] = field(default_factory=dict)
    with_object: set[int] = field(default_factory=set)

    def add(self, record: Record) -> None:
        """Add a record."""
        self.of_subject.setdefault(record.subject, []).append(record.position)
        self.of_kind.setdefault(record.kind, []).append(record.position)
        if record.object is not None:
            self.with_object.add(record.position)


class BundleLog:
    """A bundle as a log. It has no views and no snapshots."""

    def __init__(self, path: Path) -> None:
        self._path = path
        reader = BundleReader(path)
        reader.close()
        self.place = str(path)
        self.header = reader.header
        self.base = reader.header.base
        self.head = reader.header.head
        stated = self.header.base_digest
        self.base_digest = None if stated is UNSET else stated
        self._base: Base | None = None
        self._index: _Index | None = None

    async def read(self, after: int = 0, until: int | None = None) -> AsyncIterator[list[Entry]]:
        """Entries in chunks, each object checked against its digest by the reader."""
        last = self.head.position if until is None else until
        whole = last >= self.head.position  # Then what follows the last record is read too.
        reader = BundleReader(self._path)
        try:
            entries = reader.entries()
            while chunk := await asyncio.to_thread(_chunk, entries, after, None if whole else last):
                yield chunk
                if not whole and chunk[-1].record.position >= last:
                    return
        finally:
            reader.close()

    async def tail(self, after: int) -> AsyncIterator[list[Entry]]:
        """What there is; a bundle does not grow."""
        async for entries in self.read(after):
            yield entries

    async def position_at(self, at_ns: int) -> int:
        """The last record at or before a time. A bundle has no index: it is read up to there."""
        found = self.base.position
        async for entries in self.read(after=found):
            for entry in entries:
                if entry.record.recorded_at_ns > at_ns:
                    return found
                found = entry.record.position
        return found

    async def entries_at(self, positions: Sequence[int]) -> AsyncIterator[list[Entry]]:
        """Entries at some positions, in chunks: the bundle is read once from its beginning to the last of them."""
        if not positions:
            return
        wanted = frozenset(positions)
        async for entries in self.read(positions[0] - 1, positions[-1]):
            if found := [one for one in entries if one.record.position in wanted]:
                yield found

    async def positions_of(
        self, subjects: list[str], until: int, kinds: Sequence[str] = ()
    ) -> list[int]:
        """The positions of the records of subjects."""
        index = await self._indexed()
        found = {one for subject in subjects for one in index.of_subject.get(subject, ())}
        if kinds:
            found &= {one for kind in kinds for one in index.of_kind.get(kind, ())}
        return sorted(one for one in found if one <= until)

    async def positions_of_kinds(self, kinds: Sequence[str], after: int, until: int) -> list[int]:
        """The positions of the records of kinds."""
        of_kind = (await self._indexed()).of_kind
        found = (one for kind in kinds for one in of_kind.get(kind, ()))
        return sorted(one for one in found if after < one <= until)

    async def cycles_at(self, positions: Sequence[int]) -> dict[int, int]:
        """The last cycle at or before each position."""
        of_kind = (await self._indexed()).of_kind
        cycles = sorted(one for kind in CYCLE_KINDS for one in of_kind.get(kind, ()))
        there = (one for one in positions if self.base.position < one <= self.head.position)
        return {one: last_before(cycles, one) for one in there}

    async def newest_objects(self, subjects: list[str], until: int | None = None) -> dict[str, int]:
        """The last record with an object of each subject."""
        index = await self._indexed()
        last = self.head.position if until is None else until
        found: dict[str, int] = {}
        for subject in subjects:
            positions = index.of_subject.get(subject, ())
            newest = max((p for p in positions if p <= last and p in index.with_object), default=0)
            if newest:
                found[subject] = newest
        return found

    async def _indexed(self) -> "_Index":
        """The bundle is read once for an index."""
        if self._index is None:
            index = _Index()
            async for entries in self.read():
                for one in entries:
                    index.add(one.record)
            self._index = index
        return self._index

    async def read_base(self) -> Base | None:
        """The records with which it begins, packed. Raises DamagedLogError where they are not those that were written."""
        if self._base is None and self.base_digest is not None:
            self._base = await asyncio.to_thread(self._checked_base)
        return self._base

    async def latest_snapshot(self, code: str, before: int | None = None) -> Snapshot | None:
        """A bundle has no snapshots."""
        return None

    async def snapshot_positions(self, code: str) -> list[int]:
        """A bundle has no snapshots."""
        return []

    async def view_rows(self, view: str) -> list[Row]:
        """A bundle has no views."""
        return []

    async def projections(self) -> list[Projection]:
        """A bundle has no views."""
        return []

    async def check_rest(self) -> None:
        """Check the records with which it begins; there is nothing else beside the records."""
        await self.read_base()

    def condemn(self, error: DamagedLogError) -> None:
        """Nothing is ever written."""

    async def close(self) -> None:
        """Nothing is held open."""

    def _checked_base(self) -> Base | None:
        reader = BundleReader(self._path)
        try:
            return reader.base()
        finally:
            reader.close()


def _chunk(entries: Iterator[Entry], after: int, last: int | None) -> list[Entry]:
    """The next entries behind a position, as many as a chunk holds; empty at the end."""
    wanted: Iterator[Entry] = (entry for entry in entries if entry.record.position > after)
    if last is not None:
        wanted = takewhile(lambda entry: entry.record.position <= last, wanted)
    chunk: list[Entry] = []
    size = 0
    for entry in wanted:
        chunk.append(entry)
        size += len(entry.record.body)
        if len(chunk) >= CHUNK or size >= CHUNK_BYTES:
            break
    return chunk
