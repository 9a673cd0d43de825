"""Write a log, or a stretch of it, into a bundle that can be replayed and asked."""

import asyncio
import os
import secrets
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from daemon.log.base_records import BaseWriter, entries_of
from daemon.log.bundle import (
    PSEUDONYMIZED,
    WHOLE,
    BundleReader,
    BundleWriter,
    Header,
    check_free,
)
from daemon.log.bundle_log import BundleLog
from daemon.log.contract import ReadableLog
from daemon.log.copying import Exported, bounds, export
from daemon.log.entry import Base, Entry
from daemon.log.verify import Progress
from daemon.private_files import write_whole
from daemon.queries.bases import base_at
from daemon.queries.history import History
from daemon.queries.log_state import check_complete
from events.cluster import ObjectObserved
from events.codec import FORMAT
from events.errors import UsageError
from events.record import GENESIS, Head
from events.standing.kinds import is_standing
from features.table import FEATURES
from projections.base.base_table import BaseReader
from projections.left_out import LeftOut, folded
from replay.pseudonyms import Pseudonyms
from replay.redacted_log import RedactedLog
from replay.redaction import ALL, Redaction

KEY_BYTES: Final = 32
COPIED_AT_ONCE: Final = 1000


async def export_stretch(
    log: ReadableLog,
    path: Path,
    *,
    first: int | None = None,
    last: int | None = None,
    leave_out: frozenset[str] = frozenset(),
    replaces: bool = False,
) -> Exported:
    """Write the batches that hold positions `first` to `last`, by default all, behind what stands at their start.

    `leave_out` names kinds whose objects are replaced by tombstones; such a bundle has no base, for it cannot be folded.
    """
    check_free(path, replaces=replaces)
    begin, head = await bounds(log, first, last)
    base = None if leave_out else await base_before(log, begin)
    return await export(
        log,
        path,
        first=begin.position + 1,
        last=head.position,
        base=base,
        redact=leave_out,
        replaces=replaces,
    )


async def base_before(log: ReadableLog, head: Head) -> Base | None:
    """Return what stands at the end of a batch; None at the beginning of a log, or of a bundle that does not say it."""
    if head == GENESIS or (log.base != GENESIS and log.base_digest is None):
        return None
    if head.position == log.base.position:
        return await log.read_base()
    return await base_at(log, head, await History(log).facts_at_position(head.position))


class Redacted(Struct, frozen=True):
    """A bundle that was written under pseudonyms."""

    header: Header
    objects: dict[str, int]
    """Kind to the number of its objects that were redacted."""
    different: int
    """Decisions that are not made again under pseudonyms."""
    first_different: int
    """The position of the first one; 0 if there is none."""
    names: dict[str, str]
    """Pseudonym to what it stands for."""


async def export_redacted(
    log: ReadableLog,
    path: Path,
    named: dict[str, frozenset[str]],
    key: bytes,
    *,
    first: int | None = None,
    last: int | None = None,
    replaces: bool = False,
    progress: Progress | None = None,
) -> Redacted:
    """Write a log, or a stretch of it, under pseudonyms (`replay/redaction.py`).

    `named` is what the user called kinds, to the kinds. The log is read twice, from where it begins: names are collected, then
    each record is written again and each decision made again. Raises UsageError for a name of which there is no object.
    """
    check_free(path, replaces=replaces)
    check_complete(log, ", and pseudonyms are given from there on")
    base, head = await bounds(log, first, last)
    kinds = frozenset(kind for one in named.values() for kind in one)
    names, objects = await _collected(log, head.position, kinds, progress)
    for name, meant in named.items():
        if not any(objects.get(kind) for kind in meant) and not (ALL in meant and objects):
            raise UsageError(
                f"--redact {name}: the log holds no such objects up to {head.position}"
            )
    pseudonyms = Pseudonyms(key, names.texts, names.namespaces)
    staged = path.with_name(f".{path.name}.{os.getpid()}.redacted")
    try:
        return await folded(
            lambda left_out: _redact(
                log,
                (base, head),
                (staged, path),
                (names, pseudonyms, kinds, objects),
                left_out,
                replaces=replaces,
                progress=progress,
            )
        )
    finally:
        staged.unlink(missing_ok=True)


def redaction_key(path: Path) -> bytes:
    """Return the key in a file, which is created with a new one where there is none. Raises UsageError."""
    try:
        write_whole(path, secrets.token_hex(KEY_BYTES) + "\n", replaces=False)
    except FileExistsError:
        pass
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{path}: a key is {2 * KEY_BYTES} hexadecimal digits") from error
    if len(key) != KEY_BYTES:
        raise UsageError(f"{path}: a key is {2 * KEY_BYTES} hexadecimal digits")
    return key


async def _collected(
    log: ReadableLog, until: int, kinds: frozenset[str], progress: Progress | None
) -> tuple[Redaction, dict[str, int]]:
    """Return all names and values up to a position, and how many objects of each kind there are that are redacted."""
    names = Redaction(kinds)
    objects: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()

    def take(entry: Entry) -> None:
        record = entry.record
        names.subject(record.subject)
        names.body(record.kind, record.body)
        kind = record.subject.partition("/")[0]
        if record.kind == ObjectObserved.kind and (ALL in kinds or kind in kinds):
            objects.setdefault(kind, set()).add(record.subject)
        if entry.content is not None and (kind, record.object or "") not in seen:
            seen.add((kind, record.object or ""))
            names.content(kind, entry.content)

    base = await log.read_base()
    for entry in () if base is None else entries_of(base, log.place):
        take(entry)
    async for entries in log.read(until=until):
        for entry in entries:
            take(entry)
        if progress is not None:
            progress(entries[-1].record.position // 2)
    return names, {kind: len(objects[kind]) for kind in sorted(objects)}


async def _redact(
    log: ReadableLog,
    stretch: tuple[Head, Head],
    files: tuple[Path, Path],
    prepared: tuple[Redaction, Pseudonyms, frozenset[str], dict[str, int]],
    left_out: LeftOut,
    *,
    replaces: bool,
    progress: Progress | None,
) -> Redacted:
    """Write a bundle whose header is not known before its end: first the records beside it, then all of it."""
    (begin, end), (staged, path), (names, pseudonyms, kinds, objects) = stretch, files, prepared
    redaction = Redaction(kinds, pseudonyms)
    redaction.node_names = names.node_names
    redaction.ephemeral_claims = names.ephemeral_claims
    redaction.overrides = names.overrides
    redacted = RedactedLog(redaction, left_out)
    base = await _redacted_base(log, begin, redacted, staged)
    start = redacted.head
    header = Header(PSEUDONYMIZED, FORMAT, start, start, pseudonymized=tuple(sorted(kinds)))
    writer = await asyncio.to_thread(BundleWriter, staged, header, replaces=True)
    try:
        async for entries in log.read(after=begin.position, until=end.position):
            done = [Entry(*redacted.take(one.record, one.content)) for one in entries]
            await asyncio.to_thread(writer.add, done)
            if progress is not None:
                progress((end.position + redacted.head.position) // 2)
        await asyncio.to_thread(writer.finish)
    finally:
        writer.abandon()
    header = structs.replace(header, head=redacted.head)
    await asyncio.to_thread(_write, staged, path, header, base, replaces)
    return Redacted(
        header, objects, redacted.different, redacted.first_different, pseudonyms.made()
    )


async def _redacted_base(
    log: ReadableLog, begin: Head, redacted: RedactedLog, staged: Path
) -> Base | None:
    """Redact the records before a position, and return what stands there; None at the beginning of a log. What is redacted is a log of
    its own, in a file, as long as it is needed."""
    base = await log.read_base()
    if base is not None:
        base = await asyncio.to_thread(_begin, base, log.place, redacted)
    if begin.position == log.base.position:
        return base
    header = Header(WHOLE, FORMAT, redacted.head, begin)
    writer = await asyncio.to_thread(BundleWriter, staged, header, base=base, replaces=True)
    try:
        async for entries in log.read(until=begin.position):
            done = [Entry(*redacted.take(one.record, one.content)) for one in entries]
            await asyncio.to_thread(writer.add, done)
        await asyncio.to_thread(writer.finish)
    finally:
        writer.abandon()
    return await base_at(BundleLog(staged), redacted.head, redacted.state)


def _begin(base: Base, place: str, redacted: RedactedLog) -> Base:
    """Redact a base, and fold it."""
    writer, reader = BaseWriter(base.head, 0), BaseReader(base.head.position, FEATURES)
    for entry in entries_of(base, place):
        record, content = redacted.before(entry.record, entry.content)
        writer.add(Entry(record, content))
        if is_standing(record.kind):
            reader.take(record.kind, record.subject, record.body, record.object, content)
    redacted.begin(reader, base.head)
    return writer.finish()


def _write(staged: Path, path: Path, header: Header, base: Base | None, replaces: bool) -> None:
    reader = BundleReader(staged)
    try:
        writer = BundleWriter(path, header, base=base, replaces=replaces)
        try:
            entries = reader.entries()
            while some := list(islice(entries, COPIED_AT_ONCE)):
                writer.add(some)
            writer.finish()
        finally:
            writer.abandon()
    finally:
        reader.close()
