"""The file format of an incident bundle: a log, or a part of one, in one file.

JSON lines, compressed as one zstd stream (a bundle may also stand uncompressed, to be read and
compared by people). First a header, then records in order, each object before the first record that
refers to it, at last an end line. Writer and reader both forget all but the last `OBJECTS_HELD`
objects, so that neither needs memory for the whole; one that recurs later is written again.
"""

import io
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

import msgspec
import zstandard
from msgspec import Struct

from daemon.log.database import check_format
from daemon.log.entry import Entry
from events.errors import DamagedLogError, LogUnavailableError, NewerRecordError, UsageError
from events.record import Head, Record

BUNDLE = 1
"""Version of this file format. Any later one that older readers cannot read has another."""
OBJECTS_HELD = 4096
LEVEL = 9
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Header(Struct, frozen=True, forbid_unknown_fields=True, tag="header", tag_field="line"):
    """What the bundle holds. `base` is the head before its first record."""

    muster_bundle: int
    format: int
    base: Head
    head: Head
    redacted: tuple[str, ...] = ()
    """Kubernetes kinds whose objects were taken out."""
    notes: dict[str, str] = {}


class Version(Struct, frozen=True):
    """What even an older release can read of a header."""

    muster_bundle: int
    format: int


class ObjectLine(Struct, frozen=True, array_like=True, tag="object"):
    """An object; no content where it was redacted."""

    digest: str
    content: str | None


class RecordLine(Struct, frozen=True, array_like=True, tag="record"):
    """A record, column by column."""

    position: int
    batch: int
    epoch: int
    recorded_at_ns: int
    cycle: int | None
    cause: int | None
    kind: str
    subject: str
    body: str
    object: str | None
    digest: str


class EndLine(Struct, frozen=True, array_like=True, tag="end"):
    """Nothing follows. A bundle without it is torn."""

    records: int


_Held = TypeVar("_Held", str | None, None)
_ENCODER = msgspec.json.Encoder()
_LINES: msgspec.json.Decoder[ObjectLine | RecordLine | EndLine] = msgspec.json.Decoder(
    ObjectLine | RecordLine | EndLine
)
_VERSION = msgspec.json.Decoder(Version)
_HEADER = msgspec.json.Decoder(Header)


class BundleWriter:
    """Writes a bundle beside its place and moves it there when it is whole and on disk."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._redacted = tuple(f"{kind}/" for kind in header.redacted)
        self._held: OrderedDict[str, None] = OrderedDict()
        self._records = 0
        try:
            self._file = self._part.open("wb")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        self._stream = packer.stream_writer(self._file, closefd=False)
        self._write([_ENCODER.encode(header)])

    def add(self, entries: list[Entry]) -> None:
        """Write entries, and what of their objects is not held."""
        lines: list[bytes] = []
        for entry in entries:
            record = entry.record
            if record.object is not None and record.object not in self._held:
                hide = entry.content is None or record.subject.startswith(self._redacted)
                content = None if hide or entry.content is None else entry.content.decode()
                lines.append(_ENCODER.encode(ObjectLine(record.object, content)))
                hold(self._held, record.object, None)
            lines.append(_ENCODER.encode(_line(record)))
        self._records += len(entries)
        self._write(lines)

    def finish(self) -> None:
        """Make the bundle whole and durable under its name."""
        self._write([_ENCODER.encode(EndLine(self._records))])
        try:
            self._stream.flush(zstandard.FLUSH_FRAME)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.replace(self._path)
            directory = os.open(self._path.parent, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
        except OSError as error:
            raise self._failure(error) from error

    def abandon(self) -> None:
        """Leave nothing behind."""
        self._file.close()
        self._part.unlink(missing_ok=True)

    def _write(self, lines: list[bytes]) -> None:
        try:
            self._stream.write(b"".join(line + b"\n" for line in lines))
        except OSError as error:
            raise self._failure(error) from error

    def _failure(self, error: OSError) -> LogUnavailableError:
        return LogUnavailableError(f"{self._path}: {error.strerror}")


class BundleReader:
    """Reads a bundle from its beginning. `position` is that of the last record read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        self._stream = _plain(self._file)
        self._held: OrderedDict[str, str | None] = OrderedDict()
        self._records = 0
        try:
            self.header = self._read_header()
        except BaseException:
            self.close()
            raise
        self.position = self.header.base.position

    def entries(self) -> Iterator[Entry]:
        """Every entry; the bundle must end with its end line."""
        for line in self._lines():
            match line:
                case ObjectLine():
                    hold(self._held, line.digest, line.content)
                case RecordLine():
                    self._records += 1
                    self.position = line.position
                    yield self._entry(line)
                case EndLine():
                    if line.records != self._records:
                        raise self._torn(f"it should hold {line.records} records")
                    return
        raise self._torn("it has no end")

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _read_header(self) -> Header:
        first = b""
        try:
            first = self._stream.readline()
            version = _VERSION.decode(first)
        except (OSError, zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError) as error:
            is_torn = self._stream is not self._file and isinstance(error, msgspec.DecodeError)
            if is_torn and not first.endswith(b"\n"):
                raise DamagedLogError(f"{self._path}: damaged before its first record") from error
            raise UsageError(f"{self._path} is not a muster log") from error
        check_format(version.format, str(self._path))
        if version.muster_bundle > BUNDLE:
            raise NewerRecordError(
                f"{self._path} is a bundle of version {version.muster_bundle}; "
                f"this release knows up to {BUNDLE}"
            )
        try:
            return _HEADER.decode(first)
        except msgspec.DecodeError as error:
            raise DamagedLogError(f"{self._path}: its header cannot be read: {error}") from error

    def _lines(self) -> Iterator[ObjectLine | RecordLine | EndLine]:
        try:
            for line in self._stream:
                yield _LINES.decode(line)
        except (OSError, zstandard.ZstdError, msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._torn(str(error)) from error

    def _entry(self, line: RecordLine) -> Entry:
        record = Record(
            position=line.position,
            batch=line.batch,
            epoch=line.epoch,
            recorded_at_ns=line.recorded_at_ns,
            cycle=line.cycle,
            cause=line.cause,
            kind=line.kind,
            subject=line.subject,
            body=line.body.encode(),
            object=line.object,
            digest=line.digest,
        )
        if record.object is None:
            return Entry(record=record)
        if record.object not in self._held:
            raise DamagedLogError(f"position {record.position}: object {record.object} is missing")
        content = self._held[record.object]
        if content is None:
            return Entry(record=record, redacted=True)
        return Entry(record=record, content=content.encode())

    def _torn(self, why: str) -> DamagedLogError:
        return DamagedLogError(f"{self._path}: damaged after position {self.position}: {why}")


def hold(held: OrderedDict[str, _Held], digest: str, value: _Held) -> None:
    """Hold an object, and forget the one held longest if there are too many."""
    held[digest] = value
    if len(held) > OBJECTS_HELD:
        held.popitem(last=False)


def _line(record: Record) -> RecordLine:
    return RecordLine(
        position=record.position,
        batch=record.batch,
        epoch=record.epoch,
        recorded_at_ns=record.recorded_at_ns,
        cycle=record.cycle,
        cause=record.cause,
        kind=record.kind,
        subject=record.subject,
        body=record.body.decode(),
        object=record.object,
        digest=record.digest,
    )


def _plain(file: BinaryIO) -> BinaryIO:
    """The lines of a bundle, whether it is compressed or not."""
    compressed = file.read(len(ZSTD_MAGIC)) == ZSTD_MAGIC
    file.seek(0)
    if not compressed:
        return file
    return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file))
