"""The records that the facts at the beginning of a log hold: State holds facts, and some questions need the objects themselves.

They stand before the facts in the payload of a `Snapshot`, in a zstd frame that a decompressor skips. In it is another frame, in which each record
is preceded by its length (8 bytes, big endian) and is an array in msgpack: the columns of `log` in order, then the content of its object.
`daemon/queries/standing_records.py` says which records these are.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha256
from io import BufferedReader, BytesIO
from typing import Final, TypeAlias

import msgspec
import zstandard

from daemon.limits import exceeded, limits_of
from daemon.log.bundle import RATIO_FROM_BYTES
from daemon.log.entry import Entry, Snapshot
from daemon.log.snapshots import frames_of, with_frame
from events.cluster import ObjectObserved
from events.errors import DamagedLogError
from events.record import Record, StoredObject

LEVEL: Final = 9
LENGTH_BYTES: Final = 8


_Columns: TypeAlias = tuple[
    int, int, int, int, int | None, int | None, str, str, bytes, str | None, str
]

_ENCODER: Final = msgspec.msgpack.Encoder()
_KEPT: Final = msgspec.msgpack.Decoder(tuple[_Columns, bytes | None])


def with_records(facts: bytes, entries: Iterable[Entry]) -> bytes:
    """Return the payload of facts with records before them, in place of those that it has."""
    frame = BytesIO()
    with zstandard.ZstdCompressor(level=LEVEL).stream_writer(frame, closefd=False) as writer:
        for entry in entries:
            columns = msgspec.structs.astuple(entry.record)
            encoded = _ENCODER.encode((columns, entry.content))
            writer.write(len(encoded).to_bytes(LENGTH_BYTES, "big") + encoded)
    return with_frame(frame.getvalue(), facts)


def has_records(facts: Snapshot) -> bool:
    """Return whether facts hold records."""
    return bool(frames_of(facts.payload)[0])


def records_of(facts: Snapshot, place: str) -> Iterator[Entry]:
    """Yield the records that facts hold, in order.

    They may come from a stranger. Raises DamagedLogError for what cannot be read, and InputLimitError for what is too large.
    """
    frame, _ = frames_of(facts.payload)
    limits, read_bytes, position = limits_of(), 0, 0
    with zstandard.ZstdDecompressor().stream_reader(frame) as stream:
        reader = BufferedReader(stream)
        try:
            while length := reader.read(LENGTH_BYTES):
                size_bytes = int.from_bytes(length, "big")
                if size_bytes > limits.bundle_line_bytes:
                    raise exceeded(
                        place, limits, "bundle_line_bytes", "a record of its facts is longer"
                    )
                read_bytes += size_bytes
                if read_bytes > max(RATIO_FROM_BYTES, len(frame) * limits.bundle_ratio):
                    raise exceeded(
                        place, limits, "bundle_ratio", "its facts unpack to more bytes for each"
                    )
                columns, content = _KEPT.decode(reader.read(size_bytes))
                entry = Entry(Record(*columns), content)
                record = entry.record
                if not position < record.position <= facts.position or _is_other(entry):
                    raise _damaged(place, facts)
                position = record.position
                yield entry
        except (zstandard.ZstdError, msgspec.DecodeError) as error:
            raise _damaged(place, facts) from error


def objects_of(facts: Snapshot, place: str) -> list[StoredObject]:
    """Return the objects that facts refer to, as their records show them last. A later record may refer to one by its digest alone."""
    newest: dict[str, StoredObject] = {}
    for entry in records_of(facts, place):
        record = entry.record
        if record.kind == ObjectObserved.kind and record.object and entry.content is not None:
            newest[record.subject] = StoredObject(record.object, entry.content)
    return list(newest.values())


def _is_other(entry: Entry) -> bool:
    """Return whether the object of a record is not the one that it names."""
    found = None if entry.content is None else sha256(entry.content).hexdigest()
    return found != entry.record.object


def _damaged(place: str, facts: Snapshot) -> DamagedLogError:
    return DamagedLogError(
        f"{place}: the records of the facts at position {facts.position} cannot be read"
    )
