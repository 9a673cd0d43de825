"""A log in memory: the same contract, gone with the process. It keeps no views."""

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec import Struct, field

from daemon.log.anchors import Anchor
from daemon.log.base_records import objects_of
from daemon.log.contents import ObjectRow, Unpacker
from daemon.log.entry import Base, Entry, Projection, Snapshot
from daemon.log.ladder import StoredSnapshot, bytes_max, surplus
from daemon.log.tables import CYCLE_KINDS
from engine.batch import Batch
from events.errors import DamagedLogError, FencedError, LogUnavailableError
from events.record import GENESIS, Head, Record
from projections.views.rows import Row, ViewChanges

CHUNK = 1000


def last_before(cycles: Sequence[int], position: int) -> int:
    """The last of the positions of cycles, which are in order, at or before another; 0 for none."""
    index = bisect_right(cycles, position)
    return cycles[index - 1] if index else 0


class Memory(Struct):
    """What several logs in one process may share, as they would share a database."""

    head: Head = GENESIS
    records: list[Record] = field(default_factory=list)
    contents: dict[str, bytes | None] = field(default_factory=dict)
    """Content by digest; null where it was redacted."""
    snapshots: list[Snapshot] = field(default_factory=list)
    """By position."""


class MemoryLog:
    """A log in memory. The memory may begin behind a part of a log that is not there."""

    place = "memory:"

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        self.base = self.memory.head
        self.base_digest: str | None = None
        self._base: Base | None = None
        self.head = self.memory.head
        self._unpacker = Unpacker()
        self._appended = asyncio.Event()
        self._closed = False
        self._condemned: DamagedLogError | None = None

    async def append(self, *batches: Batch) -> None:
        """Take each batch in if it follows the head."""
        for batch in batches:
            self._check(batch.before)
            self.memory.contents.update((item.digest, item.content) for item in batch.objects)
            self._take(batch.records)

    async def check_end(self) -> None:
        """Nothing can have been lost."""

    def stored_anchor(self) -> Anchor | None:
        """Nothing is kept beside a log in memory."""
        return None

    def keep_anchor(self) -> None:
        """Nothing is kept beside a log in memory."""

    async def append_stored(self, records: list[Record], objects: list[ObjectRow]) -> None:
        """Take in whole batches of another log."""
        self._check(self.head)
        for digest, codec, data in objects:
            unpacked = self._unpacker.content(records[0].position, digest, codec, data)
            self.memory.contents.setdefault(digest, unpacked.content)
        self._take(records)

    async def begin_behind(self, head: Head, base: Base | None) -> None:
        """Begin behind a position."""
        assert not self.memory.records
        self.base = self.head = self.memory.head = head
        if base is not None:
            self._base, self.base_digest = base, base.digest
            objects = objects_of(base, self.place)
            self.memory.contents.update((one.digest, one.content) for one in objects)

    async def take_over(self, holder: str, *, epoch: int | None = None) -> Head:
        """Raise the epoch."""
        before = self.memory.head
        epoch = before.epoch + 1 if epoch is None else epoch
        self.head = Head(position=before.position, digest=before.digest, epoch=epoch)
        self.memory.head = self.head
        return self.head

    async def reopen(self) -> Head:
        """Nothing can have been lost."""
        self._check(self.head)
        return self.head

    async def read(self, after: int = 0, until: int | None = None) -> AsyncIterator[list[Entry]]:
        """Entries in chunks."""
        first = self.base.position
        last = self.memory.head.position - first
        end = last if until is None else min(until - first, last)
        for start in range(max(after - first, 0), end, CHUNK):
            yield [self._entry(r) for r in self.memory.records[start : min(start + CHUNK, end)]]

    async def tail(self, after: int) -> AsyncIterator[list[Entry]]:
        """Entries as they come, from this log."""
        while True:
            self._appended.clear()
            async for entries in self.read(after):
                after = entries[-1].record.position
                yield entries
            await self._appended.wait()

    async def position_at(self, at_ns: int) -> int:
        """The last record at or before a time. Times never go backwards in a log."""
        records = self.memory.records
        return self.base.position + bisect_right(records, at_ns, key=lambda r: r.recorded_at_ns)

    async def entries_at(self, positions: Sequence[int]) -> AsyncIterator[list[Entry]]:
        """Entries at some positions, in one chunk."""
        base, records = self.base.position, self.memory.records
        there = [one - base - 1 for one in positions if 0 <= one - base - 1 < len(records)]
        if there:
            yield [self._entry(records[one]) for one in there]

    async def positions_of(
        self, subjects: list[str], until: int, kinds: Sequence[str] = ()
    ) -> list[int]:
        """The positions of the records of subjects."""
        wanted, of_kinds = frozenset(subjects), frozenset(kinds)
        return self._positions(
            lambda one: one.subject in wanted and (not of_kinds or one.kind in of_kinds), 0, until
        )

    async def positions_of_kinds(self, kinds: Sequence[str], after: int, until: int) -> list[int]:
        """The positions of the records of kinds."""
        return self._positions(lambda one: one.kind in kinds, after, until)

    async def cycles_at(self, positions: Sequence[int]) -> dict[int, int]:
        """The last cycle at or before each position."""
        cycles = self._positions(lambda one: one.kind in CYCLE_KINDS, 0, self.head.position)
        there = (one for one in positions if self.base.position < one <= self.head.position)
        return {one: last_before(cycles, one) for one in there}

    async def newest_objects(self, subjects: list[str], until: int | None = None) -> dict[str, int]:
        """The last record with an object of each subject."""
        last = self.head.position if until is None else until
        wanted = frozenset(subjects)
        return {
            one.subject: one.position
            for one in self.memory.records
            if one.position <= last and one.object is not None and one.subject in wanted
        }

    def _positions(self, is_wanted: Callable[[Record], bool], after: int, until: int) -> list[int]:
        records = self.memory.records
        return [one.position for one in records if after < one.position <= until and is_wanted(one)]

    async def save_snapshot(self, position: int, digest: str, code: str, payload: bytes) -> None:
        """Keep State at a position."""
        if not self._holds(position, digest):
            raise DamagedLogError(
                f"position {position}: the log does not have the digest of the snapshot"
            )
        kept = [s for s in self.memory.snapshots if (s.position, s.code) != (position, code)]
        kept.append(Snapshot(position=position, digest=digest, code=code, payload=payload))
        kept.sort(key=lambda snapshot: snapshot.position)
        stored = [
            StoredSnapshot(one.position, len(one.payload)) for one in kept if one.code == code
        ]
        size_bytes = sum(len(one.body) for one in self.memory.records)
        size_bytes += sum(len(one) for one in self.memory.contents.values() if one is not None)
        dropped = surplus(stored, self.head.position, bytes_max(size_bytes))
        self.memory.snapshots = [
            one for one in kept if one.code != code or one.position not in dropped
        ]

    async def read_base(self) -> Base | None:
        """The records with which it begins."""
        return self._base

    async def latest_snapshot(self, code: str, before: int | None = None) -> Snapshot | None:
        """The newest snapshot of some code."""
        for snapshot in reversed(self.memory.snapshots):
            if snapshot.code == code and (before is None or snapshot.position <= before):
                return snapshot
        return None

    async def snapshot_positions(self, code: str) -> list[int]:
        """The positions of the snapshots of some code."""
        return [one.position for one in self.memory.snapshots if one.code == code]

    async def view_rows(self, view: str) -> list[Row]:
        """No views are kept in memory."""
        return []

    async def projections(self) -> list[Projection]:
        """No views are kept in memory."""
        return []

    async def clear_views(self) -> None:
        """No views are kept in memory."""

    async def write_views(self, changes: Sequence[ViewChanges], before: int, after: int) -> None:
        """No views are kept in memory."""

    async def check_rest(self) -> None:
        """There is nothing beside the records."""

    def condemn(self, error: DamagedLogError) -> None:
        """Take nothing more in."""
        self._condemned = error

    async def close(self) -> None:
        """Take nothing more in."""
        self._closed = True

    def _check(self, before: Head) -> None:
        if self._condemned is not None:
            raise self._condemned
        if self._closed:
            raise LogUnavailableError(f"{self.place} is closed")
        if before != self.head or self.head != self.memory.head:
            raise FencedError(
                f"{self.place}: its head is no longer at position {before.position} of epoch "
                f"{before.epoch}: someone else writes this log"
            )

    def _take(self, records: list[Record]) -> None:
        last = records[-1]
        self.memory.records += records
        self.head = Head(position=last.position, digest=last.digest, epoch=last.epoch)
        self.memory.head = self.head
        self._appended.set()

    def _holds(self, position: int, digest: str) -> bool:
        index = position - self.base.position - 1
        records = self.memory.records
        return 0 <= index < len(records) and records[index].digest == digest

    def _entry(self, record: Record) -> Entry:
        if record.object is None:
            return Entry(record=record)
        if record.object not in self.memory.contents:
            raise DamagedLogError(f"position {record.position}: object {record.object} is missing")
        content = self.memory.contents[record.object]
        return Entry(record=record, content=content, redacted=content is None)
