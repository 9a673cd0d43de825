"""What is read from a log: records with their objects, snapshots, and where views stand."""

from msgspec import Struct

from events.record import Head, Record
from projections.views.rows import Row


class Entry(Struct, frozen=True):
    """A record and the content of its object: null where it has none, or where it was redacted."""

    record: Record
    content: bytes | None = None
    redacted: bool = False


class Snapshot(Struct, frozen=True):
    """State at a position of the log, a cache of the code that wrote it (`daemon/log/code_key.py`)."""

    position: int
    digest: str
    code: str
    payload: bytes
    """A zstd frame of what `projections/snapshot.py` writes."""

    @property
    def head(self) -> Head:
        """Return the head of the log at its position, without the epoch."""
        return Head(position=self.position, digest=self.digest, epoch=0)


class Base(Struct, frozen=True):
    """What a log begins with that does not begin with its first record (`daemon/log/base_records.py`)."""

    head: Head
    """The head of the log there."""
    digest: str
    """The digest of the last record of the base."""
    payload: bytes
    """Its records, packed."""


class Projection(Struct, frozen=True):
    """Where a view stands. One whose position is not the head's, or of another version, is stale."""

    name: str
    version: int
    position: int
    checksum: int


class StandingView(Struct, frozen=True):
    """A view as it stands at a position: its rows that hold now, where they were asked for."""

    projection: Projection
    rows: list[Row] = []
