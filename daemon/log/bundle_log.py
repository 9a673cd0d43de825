"""A bundle as a log: read only, from its beginning each time."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from itertools import takewhile
from pathlib import Path

from msgspec import UNSET

from daemon.log.bundle import BundleReader
from daemon.log.entry import Entry, Projection, Snapshot
from daemon.log.snapshots import state_of
from events.errors import DamagedLogError
from projections.views.rows import Row

CHUNK = 1000
CHUNK_BYTES = 64 << 20
"""Bytes of bodies after which a chunk ends; the bytes of objects are bounded by what a reader holds."""


class BundleLog:
    """A bundle as a log. It has no views, and no snapshot but that of the facts at its start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        reader = BundleReader(path)
        reader.close()
        self.place = str(path)
        self.header = reader.header
        self.base = reader.header.base
        self.head = reader.header.head
        self.facts_version = None if self.header.facts is UNSET else self.header.facts.version
        """The version of the snapshot at its start; None if it has none."""
        self._facts: Snapshot | None = None
        self._by_subject: dict[str, list[int]] | None = None

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
        """The bundle is read once for an index."""
        if self._by_subject is None:
            found: dict[str, list[int]] = {}
            async for entries in self.read():
                for one in entries:
                    found.setdefault(one.record.subject, []).append(one.record.position)
            self._by_subject = found
        return [one for one in self._by_subject.get(subject, ()) if one <= until]

    async def positions_of_kind(self, kind: str, after: int, until: int) -> list[int]:
        """The bundle is read up to there."""
        found: list[int] = []
        async for entries in self.read(after=after, until=until):
            found += [one.record.position for one in entries if one.record.kind == kind]
        return found

    async def latest_snapshot(self, version: int, before: int | None = None) -> Snapshot | None:
        """The facts at its start. Raises DamagedLogError where they cannot be read."""
        if version != self.facts_version or (before is not None and before < self.base.position):
            return None
        if self._facts is None:
            self._facts = await asyncio.to_thread(self._checked_facts)
        return self._facts

    async def snapshot_positions(self, version: int) -> list[int]:
        """Where it begins, if it has the facts there."""
        return [self.base.position] if version == self.facts_version else []

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

    def _checked_facts(self) -> Snapshot | None:
        reader = BundleReader(self._path)
        try:
            facts = reader.facts()
        finally:
            reader.close()
        if facts is None:
            return None
        try:
            state = state_of(facts.payload)
        except Exception as error:  # They may come from a stranger, and anything may be in them.
            raise DamagedLogError(
                f"{self._path}: the facts at position {facts.position} cannot be read: "
                f"{type(error).__name__}"
            ) from error
        if state.position != facts.position:
            raise DamagedLogError(
                f"{self._path}: its facts are of position {state.position}, not {facts.position}"
            )
        return facts


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
