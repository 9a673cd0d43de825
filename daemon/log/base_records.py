"""The records of a base, packed: what a log begins with that does not begin with its first record.

They are of two sorts, in this order: records of the past that some questions need, as they were written and in their order, and
records that say what stands (`events/standing/`), of which State is folded (`projections/base/`). Both are one chain: each digest covers the
one before, and the first that of the log at the position of the base. The log, or the header of its bundle, names the last one.

Packed they are a zstd frame in which each record is preceded by its length (8 bytes, big endian) and is an array in msgpack: the columns
of `log` in order without the digest, then the content of its object where that stands for the first time.
"""

from collections.abc import Iterator
from hashlib import sha256
from io import BufferedReader, BytesIO
from typing import Final, TypeAlias

import msgspec
import zstandard

from daemon.limits import RATIO_FROM_BYTES, exceeded, limits_of
from daemon.log.entry import Base, Entry
from events.chain import Draft, digest_of, seal
from events.errors import DamagedLogError, MusterError
from events.record import Head, StoredObject
from events.standing.kinds import encode_standing, is_standing
from projections.base.base_table import BaseReader
from projections.base.contributor import Stand
from projections.feature import FeatureTable
from projections.state import State

LEVEL: Final = 9
LENGTH_BYTES: Final = 8

_Columns: TypeAlias = tuple[int, int, int, int, int | None, int | None, str, str, bytes, str | None]

_ENCODER: Final = msgspec.msgpack.Encoder()
_KEPT: Final = msgspec.msgpack.Decoder(tuple[_Columns, bytes | None])


class BaseWriter:
    """Packs the records of a base, those of the past first."""

    def __init__(self, head: Head, recorded_at_ns: int) -> None:
        self._head, self._recorded_at_ns = head, recorded_at_ns
        self._digest = head.digest
        self._frame = BytesIO()
        compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._stream = compressor.stream_writer(self._frame, closefd=False)
        self._held: dict[str, bool] = {}
        """Digest to whether the object is there; one that was redacted may follow later with its content."""

    def add(self, entry: Entry) -> None:
        """Add a record as it was written, with its place in another chain: one of the past, or of another base."""
        columns = msgspec.structs.astuple(entry.record)
        self._add(Draft(*columns[:-1]), entry.content)

    def add_standing(self, stand: Stand, content: bytes | None) -> None:
        """Add a record that says what stands, with its object if it has one."""
        head = self._head
        draft = Draft(
            position=head.position,
            batch=head.position,
            epoch=head.epoch,
            recorded_at_ns=self._recorded_at_ns,
            cycle=None,
            cause=None,
            kind=stand.event.kind,
            subject=stand.subject,
            body=encode_standing(stand.event),
            object=stand.object,
        )
        self._add(draft, content)

    def finish(self) -> Base:
        """Return the base."""
        self._stream.flush(zstandard.FLUSH_FRAME)
        return Base(self._head, self._digest, self._frame.getvalue())

    def _add(self, draft: Draft, content: bytes | None) -> None:
        self._digest = digest_of(self._digest, draft)
        if draft.object is None or self._held.get(draft.object):
            content = None
        else:
            self._held[draft.object] = content is not None
        encoded = _ENCODER.encode((msgspec.structs.astuple(draft), content))
        self._stream.write(len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded)


def entries_of(base: Base, place: str) -> Iterator[Entry]:
    """Yield the records of a base, in order, with their objects.

    They may come from a stranger. Raises DamagedLogError for what is not what was written, and InputLimitError for what is too large.
    """
    checker, contents = BaseChecker(base.head, place), dict[str, bytes]()
    for columns, content in _unpacked(base, place):
        record = seal(checker.digest, Draft(*columns))
        if record.object is not None and content is not None:
            contents[record.object] = content
        kept = None if record.object is None else contents.get(record.object)
        entry = Entry(record, kept, redacted=record.object is not None and kept is None)
        checker.take(entry)
        yield entry
    checker.finish(base.digest)


def _unpacked(base: Base, place: str) -> Iterator[tuple[_Columns, bytes | None]]:
    limits, read_bytes = limits_of(), 0
    with zstandard.ZstdDecompressor().stream_reader(base.payload) as stream:
        reader = BufferedReader(stream)
        try:
            while length := reader.read(LENGTH_BYTES):
                size_bytes = int.from_bytes(length, "big")
                if size_bytes > limits.bundle_line_bytes:
                    raise exceeded(
                        place, limits, "bundle_line_bytes", "a record of its base is longer"
                    )
                read_bytes += size_bytes
                if read_bytes > max(RATIO_FROM_BYTES, len(base.payload) * limits.bundle_ratio):
                    raise exceeded(
                        place, limits, "bundle_ratio", "its base unpacks to more bytes for each"
                    )
                yield _KEPT.decode(reader.read(size_bytes))
        except (zstandard.ZstdError, msgspec.DecodeError) as error:
            raise _damaged(place, base.head) from error


class BaseChecker:
    """Takes the records of a base, one after the other, and stops at the first that does not belong there."""

    def __init__(self, head: Head, place: str) -> None:
        self.digest = head.digest
        self._head, self._place = head, place
        self._position = 0
        self._is_standing = False

    def take(self, entry: Entry) -> None:
        """Check the next record."""
        record, content = entry.record, entry.content
        is_next = digest_of(self.digest, record) == record.digest
        is_its_object = content is None or sha256(content).hexdigest() == record.object
        if is_standing(record.kind):
            self._is_standing = True
            is_in_order = record.position == self._head.position
        else:
            is_in_order = not self._is_standing
            is_in_order &= self._position < record.position <= self._head.position
            self._position = record.position
        if not (is_next and is_its_object and is_in_order):
            raise _damaged(self._place, self._head)
        self.digest = record.digest

    def finish(self, digest: str) -> None:
        """Check that the last digest is the one that is named."""
        if self.digest != digest:
            raise _damaged(self._place, self._head)


def state_of_base(base: Base, features: FeatureTable, place: str) -> State:
    """Return the State of a base. Raises as `entries_of`, and UsageError if an object was redacted."""
    reader = BaseReader(base.head.position, features)
    try:
        for entry in entries_of(base, place):
            record = entry.record
            if is_standing(record.kind):
                reader.take(record.kind, record.subject, record.body, record.object, entry.content)
        return reader.finish()
    except MusterError:
        raise
    except Exception as error:  # It may come from a stranger, and anything may be in it.
        raise DamagedLogError(
            f"{place}: what stands at position {base.head.position} cannot be folded: {type(error).__name__}"
        ) from error


def past_of(base: Base, place: str) -> list[Entry]:
    """Return the records of the past that a base holds, in order. Raises as `entries_of`."""
    return [one for one in entries_of(base, place) if not is_standing(one.record.kind)]


def objects_of(base: Base, place: str) -> list[StoredObject]:
    """Return the objects that stand. A later record of the log may refer to one by its digest alone."""
    found: dict[str, StoredObject] = {}
    for entry in entries_of(base, place):
        digest = entry.record.object
        if digest and entry.content is not None and is_standing(entry.record.kind):
            found[digest] = StoredObject(digest, entry.content)
    return list(found.values())


def _damaged(place: str, head: Head) -> DamagedLogError:
    return DamagedLogError(
        f"{place}: the records with which it begins behind position {head.position} are not those that were written"
    )
