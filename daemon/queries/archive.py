"""Move the beginning of a log into a bundle, and put it in front again.

The order is such that an interruption loses nothing: the bundle is written under another name, made durable and verified, and then gets its
name; after that one transaction moves the base of the log and deletes the records. Between these two the records are in
both, and the same command goes on from there.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from msgspec import Struct

from daemon.log.base import Base
from daemon.log.bundle import check_free
from daemon.log.bundle_log import BundleLog
from daemon.log.contents import ObjectRow
from daemon.log.copying import packed_batches
from daemon.log.store import SqlLog
from daemon.log.verify import Progress, verify
from daemon.queries.bundles import export_stretch, facts_before
from daemon.queries.log_state import check_complete
from daemon.queries.moments import At, entry_at, position_from
from events.errors import DamagedLogError, UsageError
from events.record import GENESIS, Head, Record

Step = Callable[[str], None]
"""Called before each step that an interruption may separate from the next: `verify`, `rename`, `delete`, `done`."""


class Archived(Struct, frozen=True):
    """What went from a log into a bundle."""

    begin: int
    """The position of the first record."""
    base: Head
    """The head where the log begins now."""
    objects: int
    """Objects that were deleted with the records; those that the log still refers to stay in both."""


def no_step(name: str) -> None:
    """Nothing is to be done between steps."""


async def archive(
    log: SqlLog, before: At, path: Path, *, replaces: bool = False, on_step: Step = no_step
) -> Archived:
    """Move the whole batches before a moment into a bundle. The last batch of a log always stays.

    A bundle that is there already, and is just what would be written, is used: an archiving that was interrupted goes on.
    Raises UsageError if there is nothing to archive, and for any other file without `replaces`.
    """
    check_complete(log)
    position = await position_from(log, before, "--before")
    if position > log.head.position:
        raise UsageError(f"--before: {log.place} ends at position {log.head.position}")
    cut = (await entry_at(log, position)).record.batch - 1
    if cut <= log.base.position:
        raise UsageError(
            f"--before: no whole batch of {log.place} comes before position {position}; it begins at {log.base.position + 1}"
        )
    record = (await entry_at(log, cut)).record
    head = Head(position=cut, digest=record.digest, epoch=record.epoch)
    begin = log.base.position + 1
    if not await _is_written(path, log.base, head):
        check_free(path, replaces=replaces)
        await _write(log, path, cut, replaces=replaces, on_step=on_step)
    facts = await facts_before(log, head)
    on_step("delete")
    objects = await log.archive_until(Base(head, facts))
    on_step("done")
    return Archived(begin, head, objects)


async def join(log: SqlLog, archived: BundleLog, progress: Progress | None = None) -> Head:
    """Put an archive in front of the log that continues it, after it was verified; return where the log begins now.

    Raises UsageError if the log does not begin where the archive ends.
    """
    base, end = log.base, archived.head
    if archived.header.redacted:
        raise UsageError(f"{archived.place} leaves out objects: the archive itself is needed")
    if (end.position, end.digest) != (base.position, base.digest):
        raise UsageError(
            f"{archived.place} ends at position {end.position} with digest {end.digest[:12]}, but {log.place} begins behind "
            f"position {base.position} with digest {base.digest[:12]}"
        )
    check_complete(archived)
    await verify(archived)
    facts = await facts_before(archived, archived.base)

    async def rows() -> AsyncIterator[tuple[list[Record], list[ObjectRow]]]:
        async for records, objects in packed_batches(archived):
            yield records, objects
            if progress is not None:
                progress(records[-1].position)

    await log.put_in_front(Base(archived.base, facts), rows())
    return archived.base


async def _is_written(path: Path, base: Head, head: Head) -> bool:
    """Return True if a file is the whole and sound bundle of a stretch."""
    if not await asyncio.to_thread(path.is_file):
        return False
    try:
        found = BundleLog(path)
        if (found.base, found.head, found.header.redacted) != (base, head, ()):
            return False
        await verify(found)
    except (UsageError, DamagedLogError):
        return False
    return base == GENESIS or found.facts_version is not None


async def _write(log: SqlLog, path: Path, cut: int, *, replaces: bool, on_step: Step) -> None:
    staged = path.with_name(f".{path.name}.archive")
    # Left by an archiving that was interrupted: the lock on the log keeps a second one out.
    for left in path.parent.glob(f".{staged.name}.*.part"):
        left.unlink(missing_ok=True)
    try:
        await export_stretch(log, staged, last=cut, replaces=True)
        on_step("verify")
        await verify(BundleLog(staged))
        on_step("rename")
        await asyncio.to_thread(_rename, staged, path, replaces=replaces)
    finally:
        staged.unlink(missing_ok=True)


def _rename(staged: Path, path: Path, *, replaces: bool) -> None:
    try:
        if replaces:
            staged.replace(path)
        else:
            os.link(
                staged, path
            )  # Fails where there is a file by now, which a rename would replace.
            staged.unlink()
        directory = os.open(path.parent, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
