"""The file format of an incident bundle: a log, or a part of one, in one file.

JSON lines, compressed as one zstd stream (a bundle may also stand uncompressed, to be read and
compared by people). First a header, then, if the bundle begins later than the log, the records of its base (`daemon/log/base_records.py`),
then records in order, each object before the first record that refers to it, at last an end line. Writer and reader both forget all but the last `OBJECTS_HELD`
objects, so that neither needs memory for the whole; one that recurs later is written again. The writer
also forgets what is beyond `HELD_BYTES`, so that a reader needs no more than that.

A bundle may come from a stranger: it is unpacked as it is read, within the bounds of `daemon.limits`.
"""

import io
import os
import stat
from collections import OrderedDict
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Generic, TypeAlias, TypeVar

import msgspec
import zstandard
from msgspec import UNSET, Struct, UnsetType

from daemon.limits import RATIO_FROM_BYTES, Limits, exceeded, limits_of
from daemon.log.base_records import BaseChecker, BaseWriter, entries_of
from daemon.log.database import check_format
from daemon.log.entry import Base, Entry
from daemon.private_files import private_opener, publish
from events.errors import DamagedLogError, LogUnavailableError, NewerRecordError, UsageError
from events.record import Head, Record

BUNDLE = 3
"""Version of this file format. Any later one that older readers cannot read has another."""
WHOLE = 1
"""The version of a bundle without a base and without pseudonyms, which earlier releases can read."""
PSEUDONYMIZED = 2
"""The version of one without a base."""
OBJECTS_HELD = 4096
HELD_BYTES = 256 << 20
"""Bytes of objects that a writer takes its reader to hold: half of what a reader allows."""
WINDOW_BYTES_MAX = 128 << 20
"""Memory that a zstd frame may ask of its reader: what zstd itself allows, and 16 times what ours need."""
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
    base_digest: str | UnsetType = UNSET
    """Stands where the bundle begins later than the log: the digest of the last record of its base."""
    facts: msgspec.Raw | UnsetType = UNSET
    """Stands in bundles of earlier releases that begin later than the log. Such facts cannot be read any more."""
    pseudonymized: tuple[str, ...] | UnsetType = UNSET
    """Kubernetes kinds whose names and free values are replaced (`replay/redaction.py`)."""


class Version(Struct, frozen=True):
    """What even an older release can read of a header."""

    muster_bundle: int
    format: int


class ObjectLine(Struct, frozen=True, array_like=True, tag="object"):
    """An object; no content where it was redacted."""

    digest: str
    content: str | None


class FactsLine(Struct, frozen=True, array_like=True, tag="facts"):
    """A piece of the facts in a bundle of an earlier release."""

    piece: str


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


class BaseLine(RecordLine, frozen=True, array_like=True, tag="base"):
    """A record of the base."""


class ObjectContent(Struct, frozen=True):
    """An object that a reader holds: null where it was redacted; checked against its digest once."""

    content: bytes | None
    is_sound: bool


class EndLine(Struct, frozen=True, array_like=True, tag="end"):
    """Nothing follows. A bundle without it is torn."""

    records: int


_Held = TypeVar("_Held")
_UNREADABLE = (
    OSError,
    zstandard.ZstdError,
    msgspec.DecodeError,
    UnicodeDecodeError,
    RecursionError,
)
_ENCODER = msgspec.json.Encoder()
Line: TypeAlias = ObjectLine | RecordLine | BaseLine | FactsLine | EndLine
_LINES: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)
_VERSION = msgspec.json.Decoder(Version)
_HEADER = msgspec.json.Decoder(Header)


class BundleWriter:
    """Writes a bundle beside its place and moves it there when it is whole and on disk.

    A file that has that name already is replaced only where `replaces` says so.
    """

    def __init__(
        self,
        path: Path,
        header: Header,
        *,
        base: Base | None = None,
        replaces: bool = False,
    ) -> None:
        self._path = path
        self._replaces = replaces
        check_free(path, replaces=replaces)
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._redacted = tuple(f"{kind}/" for kind in header.redacted)
        self._held = Held[None](HELD_BYTES)
        self._records = 0
        self._left_out: dict[str, set[str]] = {kind: set() for kind in header.redacted}
        try:
            self._file = open(self._part, "wb", opener=private_opener)  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        self._stream = packer.stream_writer(self._file, closefd=False)
        if base is not None:
            header = msgspec.structs.replace(header, muster_bundle=BUNDLE, base_digest=base.digest)
        self._write([_ENCODER.encode(header)])
        for entry in () if base is None else entries_of(base, str(path)):
            self._write(self._lines([entry], BaseLine))

    def add(self, entries: list[Entry]) -> None:
        """Write entries, and what of their objects is not held."""
        self._records += len(entries)
        self._write(self._lines(entries, RecordLine))

    def _lines(self, entries: list[Entry], kind: type[RecordLine]) -> list[bytes]:
        lines: list[bytes] = []
        for entry in entries:
            record = entry.record
            if record.object is not None and record.object not in self._held:
                content = None if entry.content is None else entry.content.decode()
                if record.subject.startswith(self._redacted):
                    self._left_out[record.subject.partition("/")[0]].add(record.object)
                    content = None
                lines.append(_ENCODER.encode(ObjectLine(record.object, content)))
                size = 0 if entry.content is None else len(entry.content)
                self._held.hold(record.object, None, size)
            lines.append(_ENCODER.encode(_line(record, kind)))
        return lines

    def finish(self) -> None:
        """Make the bundle whole and durable under its name."""
        self._write([_ENCODER.encode(EndLine(self._records))])
        try:
            self._stream.flush(zstandard.FLUSH_FRAME)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._move()
        except OSError as error:
            raise self._failure(error) from error

    @property
    def left_out(self) -> dict[str, int]:
        """How many objects of each kind were left out so far."""
        return {kind: len(digests) for kind, digests in self._left_out.items()}

    def _move(self) -> None:
        try:
            publish(self._part, self._path, replaces=self._replaces)
        except FileExistsError:
            raise _taken(self._path) from None

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

    def __init__(self, path: Path, limits: Limits | None = None) -> None:
        self._path = path
        self._limits = limits or limits_of()
        try:
            # A pipe without a writer would not be opened before there is one.
            if not stat.S_ISREG(path.stat().st_mode):
                raise UsageError(f"{path}: not a regular file")
            self._file = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
        self._stream = _plain(self._file)
        self._held = Held[ObjectContent]()
        self._records = self._line_number = self._bytes = 0
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
                case FactsLine() | BaseLine():
                    pass  # `base` reads them.
                case ObjectLine():
                    self._hold(line)
                case RecordLine():
                    self._records += 1
                    self.position = line.position
                    yield self._entry(line)
                case EndLine():
                    if line.records != self._records:
                        raise self._torn(f"it should hold {line.records} records")
                    return
        raise self._torn("it has no end")

    def base(self) -> Base | None:
        """What it begins with; none in a bundle that begins with the log. To be called before `entries`."""
        stated, head, place = self.header.base_digest, self.header.base, str(self._path)
        if stated is UNSET:
            return None
        checker, writer, size_bytes = BaseChecker(head, place), BaseWriter(head, 0), 0
        for line in self._lines():
            match line:
                case ObjectLine():
                    self._hold(line)
                    size_bytes += len(line.content or "")
                    if size_bytes > self._limits.bundle_held_bytes:
                        raise self._exceeded(
                            "bundle_held_bytes", "the objects of its base take more bytes"
                        )
                case BaseLine():
                    entry = self._entry(line)
                    checker.take(entry)
                    writer.add(entry)
                case _:
                    break
        checker.finish(stated)
        return writer.finish()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def _hold(self, line: ObjectLine) -> None:
        content = None if line.content is None else line.content.encode()
        size = 0 if content is None else len(content)
        if size > self._limits.bundle_object_bytes:
            raise self._exceeded("bundle_object_bytes", f"object {line.digest[:64]} is longer")
        is_sound = content is None or sha256(content).hexdigest() == line.digest
        self._held.hold(line.digest, ObjectContent(content, is_sound), size)
        if self._held.bytes > self._limits.bundle_held_bytes:
            raise self._exceeded(
                "bundle_held_bytes", f"its last {len(self._held):,} objects take more bytes"
            )

    def _next_line(self) -> bytes:
        """The next line, empty at the end. Raises where the bundle is larger than it may be."""
        limits = self._limits
        line = self._stream.readline(limits.bundle_line_bytes + 1)
        self._line_number += 1
        self._bytes += len(line)
        if len(line) > limits.bundle_line_bytes:
            raise self._exceeded("bundle_line_bytes", f"line {self._line_number:,} is longer")
        if self._bytes > limits.bundle_bytes:
            raise self._exceeded("bundle_bytes", "it unpacks to more bytes")
        if self._bytes > RATIO_FROM_BYTES:
            packed = self._file.tell()
            if self._bytes > packed * limits.bundle_ratio:
                raise self._exceeded("bundle_ratio", "it unpacks to more bytes for each of its own")
        return line

    def _exceeded(self, name: str, what: str) -> UsageError:
        return exceeded(str(self._path), self._limits, name, what)

    def _read_header(self) -> Header:
        first = b""
        try:
            first = self._next_line()
            version = _VERSION.decode(first)
        except _UNREADABLE as error:
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
            header = _HEADER.decode(first)
        except (msgspec.DecodeError, RecursionError) as error:
            raise DamagedLogError(f"{self._path}: its header cannot be read: {error}") from error
        if header.facts is not UNSET:
            raise UsageError(
                f"{self._path} begins with the facts of an earlier release, which this one cannot read: "
                "export it again from the log"
            )
        return header

    def _lines(self) -> Iterator[Line]:
        try:
            while line := self._next_line():
                yield _LINES.decode(line)
        except _UNREADABLE as error:
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
        held = self._held[record.object]
        if not held.is_sound:
            raise DamagedLogError(
                f"position {record.position}: object {record.object} has another content"
            )
        return Entry(record=record, content=held.content, redacted=held.content is None)

    def _torn(self, why: str) -> DamagedLogError:
        return DamagedLogError(f"{self._path}: damaged after position {self.position}: {why}")


class Held(Generic[_Held]):
    """The last objects, by digest: at most `OBJECTS_HELD`, and those longest held are forgotten beyond `most`."""

    def __init__(self, most: int | None = None) -> None:
        self.bytes = 0
        self._most = most
        self._items: OrderedDict[str, tuple[_Held, int]] = OrderedDict()

    def __contains__(self, digest: str) -> bool:
        return digest in self._items

    def __getitem__(self, digest: str) -> _Held:
        return self._items[digest][0]

    def __len__(self) -> int:
        return len(self._items)

    def hold(self, digest: str, value: _Held, size: int) -> None:
        """Hold an object of a size in bytes, and forget the one held longest while there are too many."""
        _, replaced = self._items.pop(digest, (None, 0))
        self.bytes += size - replaced
        self._items[digest] = (value, size)
        while len(self._items) > OBJECTS_HELD or (
            self._most is not None and self.bytes > self._most and len(self._items) > 1
        ):
            _, (_, forgotten) = self._items.popitem(last=False)
            self.bytes -= forgotten


def check_free(path: Path, *, replaces: bool) -> None:
    """Raise UsageError if a file is there already, unless it is to be replaced."""
    if not replaces and os.path.lexists(path):
        raise _taken(path)


def _taken(path: Path) -> UsageError:
    return UsageError(f"{path} is there already; --force replaces it")


def _line(record: Record, kind: type[RecordLine]) -> RecordLine:
    return kind(
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
    unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX)
    return io.BufferedReader(unpacker.stream_reader(file))
