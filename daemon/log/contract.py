"""What every log offers, whatever it is kept in. `LogContract` in the tests holds them all to it."""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from daemon.log.anchors import Anchor
from daemon.log.contents import ObjectRow
from daemon.log.entry import Base, Entry, Projection, Snapshot
from engine.batch import Batch
from events.errors import DamagedLogError
from events.record import Head, Record
from projections.views.rows import Row, ViewChanges


class ReadableLog(Protocol):
    """A log that is read. Nothing of it is changed, and no lock is taken."""

    @property
    def place(self) -> str:
        """Where the log is, for messages: without a password."""

    @property
    def base(self) -> Head:
        """The head before the first record: genesis, or where a part of a log begins."""

    @property
    def base_digest(self) -> str | None:
        """The digest of the records with which it begins; None if it has none."""

    @property
    def head(self) -> Head:
        """The last durable head as this process knows it."""

    def read(self, after: int = 0, until: int | None = None) -> AsyncIterator[list[Entry]]:
        """Entries after a position up to another or the head, in chunks and in order.

        Objects are unpacked and checked against their digests. The chain is not: see `verify`.
        """

    def tail(self, after: int) -> AsyncIterator[list[Entry]]:
        """Entries after a position, for ever, as they are committed."""

    async def position_at(self, at_ns: int) -> int:
        """The position of the last record written at or before a time; that of the base where there is none."""

    def entries_at(self, positions: Sequence[int]) -> AsyncIterator[list[Entry]]:
        """Entries at some positions, which are in order, in chunks. A position that the log does not hold is left out."""

    async def positions_of(
        self, subjects: list[str], until: int, kinds: Sequence[str] = ()
    ) -> list[int]:
        """The positions of the records of subjects up to a position, in order; of `kinds` only, where any are given."""

    async def positions_of_kinds(self, kinds: Sequence[str], after: int, until: int) -> list[int]:
        """The positions of the records of kinds that have an index, in order (`tables.FOUND_BY_KIND`)."""

    async def cycles_at(self, positions: Sequence[int]) -> dict[int, int]:
        """Each position that the log holds, with that of the last cycle opened at or before it; 0 for none."""

    async def newest_objects(self, subjects: list[str], until: int | None = None) -> dict[str, int]:
        """The position of the last record with an object of each subject that has one, up to a position."""

    async def read_base(self) -> Base | None:
        """The records with which it begins; None for a log that begins with the first record, and for one without what stood."""

    async def latest_snapshot(self, code: str, before: int | None = None) -> Snapshot | None:
        """The newest snapshot of some code, at or before a position, that is one of this log."""

    async def snapshot_positions(self, code: str) -> list[int]:
        """The positions of the snapshots of some code, in order; whether they are sound is not looked at."""

    async def view_rows(self, view: str) -> list[Row]:
        """The rows of a view that stand now, with `from_position` behind where it has a history."""

    async def projections(self) -> list[Projection]:
        """Where each view stands. One that is not at the head was not kept up: rebuild it."""

    async def check_rest(self) -> None:
        """Check what a start relies on beside the records. `DamagedLogError` names the table or index."""

    def condemn(self, error: DamagedLogError) -> None:
        """Write nothing more: the log was found damaged."""

    async def close(self) -> None:
        """Let go of everything; what is queued is written first."""


class Log(ReadableLog, Protocol):
    """A log that this process appends to."""

    async def append(self, *batches: Batch) -> None:
        """Return when the batches are durable. Calls may overlap; batches are written in call order.

        `FencedError`: someone else moved the head or the epoch; nothing more can be written.
        `LogUnavailableError`: none of these batches and no later one may be taken to be in the log.
        State that ran ahead is thrown away, `reopen` tells where the log ends, and the caller folds
        from there. (Most often they are not in the log; where the answer to its commit was lost
        and the log stayed away, they may be.)
        """

    async def check_end(self) -> None:
        """Compare the log with its last durable head. LostRecordsError if it does not hold that, LogUnavailableError if it cannot be read."""

    def stored_anchor(self) -> Anchor | None:
        """The head that the log had last, as it is kept beside it; None where nothing is."""

    def keep_anchor(self) -> None:
        """Keep each durable head beside the log from now on, where there is a place for it."""

    async def append_stored(self, records: list[Record], objects: list[ObjectRow]) -> None:
        """Append whole batches of another log as they are; the views are to be rebuilt then."""

    async def begin_behind(self, head: Head, base: Base | None) -> None:
        """Let an empty log begin behind a position, with what stands there."""

    async def take_over(self, holder: str, *, epoch: int | None = None) -> Head:
        """Raise the epoch, so that earlier writers are fenced out; the head of the new epoch.

        `holder` is for people: the `daemon_started` record that follows tells it.
        """

    async def reopen(self) -> Head:
        """Connect again after `LogUnavailableError`; the head says what the log holds."""

    async def save_snapshot(self, position: int, digest: str, code: str, payload: bytes) -> None:
        """Keep State at a position. Of the snapshots of some code a ladder is kept (`daemon/log/ladder.py`)."""

    async def clear_views(self) -> None:
        """Empty every view, to be written again from the first position."""

    async def write_views(self, changes: Sequence[ViewChanges], before: int, after: int) -> None:
        """Write how views change between two positions that the log holds already."""
