"""Write a log, or a stretch of it, into a bundle that can be replayed and asked."""

import asyncio
import os
import secrets
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from daemon.log.bundle import BUNDLE, BundleReader, BundleWriter, Header, check_free
from daemon.log.contract import ReadableLog
from daemon.log.copying import Exported, bounds, export
from daemon.log.entry import Entry, Snapshot
from daemon.log.snapshots import payload_of
from daemon.log.verify import Progress
from daemon.private_files import write_whole
from daemon.queries.history import History
from daemon.queries.log_state import check_whole
from daemon.queries.standing_records import facts_at_base, with_standing_records
from events.cluster import ObjectObserved
from events.codec import FORMAT
from events.errors import UsageError
from events.record import GENESIS, Head
from projections import snapshot as snapshots
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
    """Write the batches that hold positions `first` to `last`, by default all, behind the facts at their start.

    `leave_out` names kinds whose objects are replaced by tombstones; such a bundle has no facts, for it cannot be folded.
    """
    check_free(path, replaces=replaces)
    base, head = await bounds(log, first, last)
    facts = None if leave_out else await facts_before(log, base)
    return await export(
        log,
        path,
        first=base.position + 1,
        last=head.position,
        facts=facts,
        redact=leave_out,
        replaces=replaces,
    )


async def facts_before(log: ReadableLog, base: Head) -> Snapshot | None:
    """Return the facts at the end of a batch with the records of what stands there; None at the beginning of a log, or of a
    bundle that has none."""
    if base == GENESIS or (log.base != GENESIS and log.facts_version != snapshots.VERSION):
        return None
    if base.position == log.base.position:
        return await facts_at_base(log)
    state = await History(log).facts_at_position(base.position)
    payload = await asyncio.to_thread(payload_of, state)
    facts = Snapshot(base.position, base.digest, snapshots.VERSION, payload)
    return await with_standing_records(log, facts, state)


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

    `named` is what the user called kinds, to the kinds. The log is read twice, from its first record: names are collected, then
    each record is written again and each decision made again. Raises UsageError for a name of which there is no object.
    """
    check_free(path, replaces=replaces)
    check_whole(log, ", and pseudonyms are given from the first record on")
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
    async for entries in log.read(until=until):
        for entry in entries:
            record = entry.record
            names.subject(record.subject)
            names.body(record.kind, record.body)
            kind = record.subject.partition("/")[0]
            if record.kind == ObjectObserved.kind and (ALL in kinds or kind in kinds):
                objects.setdefault(kind, set()).add(record.subject)
            if entry.content is not None and (kind, record.object or "") not in seen:
                seen.add((kind, record.object or ""))
                names.content(kind, entry.content)
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
    base, facts = GENESIS, None
    if begin != GENESIS:
        async for entries in log.read(until=begin.position):
            for entry in entries:
                redacted.take(entry.record, entry.content)
        base = redacted.head
        facts = Snapshot(
            base.position,
            base.digest,
            snapshots.VERSION,
            await asyncio.to_thread(payload_of, redacted.state),
        )
    header = Header(BUNDLE, FORMAT, base, base, pseudonymized=tuple(sorted(kinds)))
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
    header = Header(BUNDLE, FORMAT, base, redacted.head, pseudonymized=header.pseudonymized)
    await asyncio.to_thread(_write, staged, path, header, facts, replaces)
    return Redacted(
        header, objects, redacted.different, redacted.first_different, pseudonyms.made()
    )


def _write(
    staged: Path, path: Path, header: Header, facts: Snapshot | None, replaces: bool
) -> None:
    reader = BundleReader(staged)
    try:
        writer = BundleWriter(path, header, facts=facts, replaces=replaces)
        try:
            entries = reader.entries()
            while some := list(islice(entries, COPIED_AT_ONCE)):
                writer.add(some)
            writer.finish()
        finally:
            writer.abandon()
    finally:
        reader.close()
