"""A bundle as a log: read only, from its beginning each time."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import takewhile
from pathlib import Path

from daemon.log.bundle import BundleReader
from daemon.log.entry import Entry, Projection, Snapshot
from events.errors import DamagedLogError
from projections.views.rows import Row

CHUNK = 1000
CHUNK_BYTES = 64 << 20
"""Bytes of bodies after which a chunk ends; the bytes of objects are bounded by what a reader holds."""


class BundleLog:
    """A bundle as a log. It has neither views nor snapshots."""

    def __init__(self, path: Path) -> None:
        self._path = path
        reader = BundleReader(path)
        reader.close()
        self.place = str(path)
        self.header = reader.header
        self.base = reader.header.base
        self.head = reader.header.head

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

    async def positions_of(self, subject: str, until: int) -> list[int] | None:
        """A bundle has no index."""
        return None

    async def positions_of_kind(self, kind: str, after: int, until: int) -> list[int]:
        """The bundle is read up to there."""
        found: list[int] = []
        async for entries in self.read(after=after, until=until):
            found += [one.record.position for one in entries if one.record.kind == kind]
        return found

    async def latest_snapshot(self, version: int, before: int | None = None) -> Snapshot | None:
        """A bundle has no snapshots."""
        return None

    async def snapshot_positions(self, version: int) -> list[int]:
        """A bundle has no snapshots."""
        return []

    async def view_rows(self, view: str) -> list[Row]:
        """A bundle has no views."""
        return []

    async def projections(self) -> list[Projection]:
        """A bundle has no views."""
        return []

    async def check_rest(self) -> None:
        """There is nothing beside the records."""

    def condemn(self, error: DamagedLogError) -> None:
        """Nothing is ever written."""

    async def close(self) -> None:
        """Nothing is held open."""


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
