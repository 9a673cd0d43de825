"""Move the older part of a log into a bundle, and put it back in front.

An archive is a bundle of whole batches. The order makes a kill harmless: the bundle is written beside its place, put on disk,
verified and named; then one transaction lets the log begin behind it, with what stands there; then the records before that are deleted.
Killed before that transaction, the log is as before, and killed after it, the log is whole without them: repeating the command
finishes the work.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from daemon.log.base_records import objects_of
from daemon.log.bases import Pause
from daemon.log.bundle import check_free
from daemon.log.bundle_log import BundleLog
from daemon.log.copying import bounds, export, stored_batches
from daemon.log.entry import Base
from daemon.log.store import SqlLog
from daemon.log.verify import Checker, Progress, Verified
from daemon.private_files import publish
from daemon.queries.bundles import base_before
from daemon.queries.log_state import check_complete
from daemon.queries.moments import At, position_from
from events.errors import MusterError, UsageError
from events.record import GENESIS, Head


class Archived(Struct, frozen=True):
    """A part of a log that is in a bundle, and not in the log any more."""

    base: Head
    """The head before its first record."""
    head: Head
    """Its last record, behind which the log begins now."""


def no_stop(step: str) -> None:
    """Do nothing at a step; a test ends the process there."""


async def archive(
    log: SqlLog,
    path: Path,
    before: At,
    *,
    replaces: bool = False,
    progress: Progress | None = None,
    reached: Callable[[str], None] = no_stop,
) -> Archived:
    """Move the batches before the batch of a moment into a bundle.

    Raises UsageError if there are none, or if the file exists, unless it is the archive that a command that was killed has written.
    `reached` is called behind each step: `written`, `verified`, `named`, `moved`, `deleted`.
    """
    check_complete(log, ", and an archive leaves what stands at its end behind")
    await log.purge()  # What a command that was killed has left.
    try:
        until = await _cut(log, await position_from(log, before, "--before"))
    except UsageError:
        found = await asyncio.to_thread(_there, path)
        if found is not None and _is_end(found.head, log.base):
            return Archived(found.base, found.head)  # A command that was killed has moved it.
        raise
    base = await base_before(log, until)
    assert base is not None
    return await archive_until(
        log, path, base, replaces=replaces, progress=progress, reached=reached
    )


async def archive_until(
    log: SqlLog,
    path: Path,
    standing: Base,
    *,
    replaces: bool = False,
    progress: Progress | None = None,
    pause: Pause | None = None,
    reached: Callable[[str], None] = no_stop,
) -> Archived:
    """Move all batches up to the end of one into a bundle; `standing` is what stands there. `pause` is awaited between small steps."""
    until, base, found = standing.head, log.base, await asyncio.to_thread(_there, path)
    is_there = found is not None and found.base == base and _is_end(found.head, until)
    if not is_there:
        check_free(path, replaces=replaces)
        part = path.with_name(f".{path.name}.archive")
        for left in path.parent.glob(f".{part.name}.*.part"):
            left.unlink(missing_ok=True)
        before = await log.read_base()
        await export(log, part, last=until.position, base=before, replaces=True, pause=pause)
        reached("written")
        await _verify(BundleLog(part), base, until, progress, pause)
        reached("verified")
        await asyncio.to_thread(_name, part, path, replaces=replaces)
        reached("named")
    else:
        await _verify(BundleLog(path), base, until, progress, pause)
    earlier = await log.read_base()
    objects = [] if earlier is None else await asyncio.to_thread(objects_of, earlier, log.place)
    await log.move_base(until, standing)
    reached("moved")
    await log.purge(pause, frozenset(one.digest for one in objects))
    reached("deleted")
    return Archived(base, until)


async def join(log: SqlLog, bundle: BundleLog, progress: Progress | None = None) -> Verified:
    """Put an archive back in front of the log that it was taken from. Raises UsageError if it does not end where the log begins."""
    base = log.base
    if base == GENESIS:
        raise UsageError(f"{log.place} begins with its first record: nothing can be put in front")
    if bundle.header.redacted:
        raise UsageError(f"{bundle.place} leaves objects out; an archive holds all of them")
    if not _is_end(bundle.head, base):
        raise UsageError(
            f"{bundle.place} ends at position {bundle.head.position} with digest {bundle.head.digest[:12]}, and "
            f"{log.place} begins behind position {base.position} with digest {base.digest[:12]}"
        )
    before = await bundle.read_base()
    if bundle.base != GENESIS and before is None:
        raise UsageError(
            f"{bundle.place} begins behind position {bundle.base.position} without what stands there"
        )
    await log.purge()
    checker = Checker(bundle.base)
    async for entries, objects in stored_batches(bundle):
        for entry in entries:
            checker.take(entry)
        await log.insert_archived([entry.record for entry in entries], objects)
        if progress is not None:
            progress(entries[-1].record.position)
    verified = checker.finish(bundle.head)
    if before is not None:
        await log.insert_objects(before)
    await log.move_base(bundle.base, before)
    return verified


async def _cut(log: SqlLog, position: int) -> Head:
    """Return the head before the batch of a position. Raises UsageError if the log begins with that batch."""
    first = log.base.position + 1
    begin, _ = await bounds(log, position, None)
    if begin.position < first:
        raise UsageError(
            f"--before {position}: {log.place} has no batch before it; it begins at {first}"
        )
    return begin


async def _verify(
    bundle: BundleLog, base: Head, until: Head, progress: Progress | None, pause: Pause | None
) -> None:
    """Read a bundle from the disk, whole; what stands at its start, too. Raises DamagedLogError."""
    await bundle.read_base()
    checker = Checker(base)
    async for entries in bundle.read():
        for entry in entries:
            checker.take(entry)
        if progress is not None:
            progress(entries[-1].record.position)
        if pause is not None:
            await pause()
    checker.finish(until)


def _there(path: Path) -> BundleLog | None:
    """Return the bundle at a path; None if there is none, or something else."""
    if not path.exists():
        return None
    try:
        return BundleLog(path)
    except MusterError:
        return None


def _is_end(one: Head, other: Head) -> bool:
    return (one.position, one.digest) == (other.position, other.digest)


def _name(part: Path, path: Path, *, replaces: bool) -> None:
    """Give a file its name, durably, and replace no other file unless told to."""
    try:
        publish(part, path, replaces=replaces)
    except FileExistsError:
        check_free(path, replaces=False)
        raise
