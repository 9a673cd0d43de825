"""`muster log`: verify, export, import, archive, join, tail and snapshot."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import click
import msgspec

from daemon.cli.kinds import kinds_named
from daemon.cli.output import (
    AS_FROM,
    counted,
    log_argument,
    log_option,
    moment_option,
    output_option,
    print_json,
    print_lines,
    progress,
    verdict,
)
from daemon.log.bundle import Header, check_free
from daemon.log.bundle_log import BundleLog
from daemon.log.contract import ReadableLog
from daemon.log.copying import Exported, copy_whole
from daemon.log.entry import Entry
from daemon.log.opening import ask_log, open_log
from daemon.log.store import SqlLog
from daemon.log.verify import Verified
from daemon.log.verify import verify as verify_log
from daemon.private_files import private_opener
from daemon.queries.archive import Archived
from daemon.queries.archive import archive as archive_log
from daemon.queries.archive import join as join_archive
from daemon.queries.bundles import Redacted, export_redacted, export_stretch, redaction_key
from daemon.queries.history import SNAPSHOT_EVERY, write_snapshots
from daemon.queries.moments import position_from, recorded_at_ns, stretch
from events.errors import UsageError
from replay.log_time import LogTime, format_time
from replay.printable import printable
from replay.redaction import ALL

ResultT = TypeVar("ResultT")

LINES: Final = 10
"""Records that `tail` begins with."""


@click.group()
def log() -> None:
    """Verify, export, import and tail logs, and write their snapshots."""


@log.command()
@log_argument
@output_option
def verify(log: str, as_json: bool) -> None:
    """Check a whole log: positions, batches, chain, objects, head; then tables, indexes, snapshots, views.

    The first error is reported with its position, table or index; exit code 4 means a damaged log, 5 one of a
    newer release. Nothing is repaired in place.

    Example:

    \b
        muster log verify demo.db
    """

    async def ask(source: ReadableLog) -> tuple[str, Verified]:
        with progress("verify", total=source.head.position) as shown:
            return source.place, await verify_log(source, shown)

    place, verified = ask_log(log, ask)
    if as_json:
        print_json({"log": place, **_as_json(verified)})
    else:
        sound = verdict(True, "sound", "")
        print_lines([(f"{place}: ", sound, f": {_counts(verified)}"), _head(verified)])


@log.command()
@log_argument
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The bundle to write; its name ends in .muster.",
)
@moment_option("--from", "Begin with the batch of this moment.", "first")
@moment_option("--to", "End with the batch of this moment.", "last", forms=AS_FROM)
@click.option(
    "--leave-out",
    multiple=True,
    metavar="KIND",
    help="Leave out the objects of a Kubernetes kind, named as for kubectl (Pod, pods, po, "
    "podgroups.scheduling.volcano.sh ...); several times for several kinds. Such a bundle cannot be replayed.",
)
@click.option(
    "--redact",
    multiple=True,
    metavar="KIND",
    help="Replace the names of the objects of a kind by pseudonyms, and labels, annotations and images of all objects; "
    "several times for several kinds, `all` for every kind.",
)
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The key of the pseudonyms, created where there is none; by default beside the bundle, with the ending .key.",
)
@click.option(
    "--names",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a table of pseudonyms and the names that they replace. Keep this file secret.",
)
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@output_option
def export(
    log: str,
    path: Path,
    first: LogTime | None,
    last: LogTime | None,
    leave_out: tuple[str, ...],
    redact: tuple[str, ...],
    key: Path | None,
    names: Path | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a log, or a stretch of it, into a bundle.

    A stretch begins with the facts at its start, so that it can be replayed and asked like a whole log. An existing file is
    replaced only with --force.

    With --redact the bundle holds pseudonyms, and its decisions are those of the log but for the names. The same key gives the same
    pseudonyms but for their ranks. With the key one can check whether a pseudonym replaces a given name: keep it secret.

    Examples:

    \b
        muster log export demo.db --file demo.muster
        muster log export demo.db --file incident.muster --from 500 --to 900
        muster log export demo.db --file incident.muster --from -60s
    """
    if path.suffix != ".muster":
        raise click.BadParameter(f"{path}: the name of a bundle ends in .muster")
    if redact and leave_out:
        raise click.UsageError("--redact and --leave-out exclude each other: give one of them")
    if not redact and (key or names):
        raise click.UsageError("--key and --names belong to --redact")
    if redact:
        named = {name: frozenset(_kinds(name, "--redact")) for name in redact}
        check_free(path, replaces=force)
        if names is not None:
            check_free(names, replaces=force)
        found_key = key or path.with_suffix(".key")
        secret = redaction_key(found_key)

        async def write_redacted(source: ReadableLog) -> Redacted:
            begin, end = await stretch(source, first, last)
            with progress("redact", total=end or source.head.position) as shown:
                return await export_redacted(
                    source,
                    path,
                    named,
                    secret,
                    first=begin,
                    last=end,
                    replaces=force,
                    progress=shown,
                )

        redacted = ask_log(log, write_redacted)
        if names is not None:
            _write_names(names, redacted.names)
        _print_redacted(path, found_key, redacted, as_json=as_json)
        return
    kinds = frozenset(kind for name in leave_out for kind in _kinds(name, "--leave-out"))

    async def write(source: ReadableLog) -> Exported:
        begin, end = await stretch(source, first, last)
        return await export_stretch(
            source, path, first=begin, last=end, leave_out=kinds, replaces=force
        )

    exported = ask_log(log, write)
    header, left_out = exported.header, exported.left_out
    if as_json:
        print_json({**_bundle(path, header), "left_out": left_out})
        return
    lines = [_written(path, header)]
    lines += [f"left out: {counted(count, f'{kind} object')}" for kind, count in left_out.items()]
    print_lines(lines)


def _kinds(name: str, option: str) -> list[str]:
    if option == "--redact" and name == ALL:
        return [ALL]
    return kinds_named(name, option)


def _bundle(path: Path, header: Header) -> dict[str, object]:
    return {
        "bundle": str(path),
        "from": header.base.position + 1,
        "to": header.head.position,
        "digest": header.head.digest,
    }


def _written(path: Path, header: Header) -> str:
    return f"{path}: positions {header.base.position + 1} to {header.head.position}"


def _write_names(path: Path, names: dict[str, str]) -> None:
    lines = [f"{pseudonym}\t{printable(name)}\n" for pseudonym, name in sorted(names.items())]
    try:
        with open(path, "w", opener=private_opener, encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error


def _print_redacted(path: Path, key: Path, redacted: Redacted, *, as_json: bool) -> None:
    header = redacted.header
    if as_json:
        print_json(
            {
                **_bundle(path, header),
                "redacted": redacted.objects,
                "key": str(key),
                "different_decisions": redacted.different,
                "first_different": redacted.first_different or None,
            }
        )
        return
    lines = [f"{_written(path, header)}, under pseudonyms"]
    lines += [f"redacted: {counted(n, f'{kind} object')}" for kind, n in redacted.objects.items()]
    lines.append(f"key: {key}; keep it secret")
    if redacted.different:
        lines.append(
            f"{counted(redacted.different, 'decision')}, the first at position {redacted.first_different}, "
            "cannot be made again under pseudonyms: a replay diverges there"
        )
    else:
        lines.append("every decision is made again under pseudonyms")
    print_lines(lines)


@log.command(name="import")
@click.argument("bundle", metavar="BUNDLE")
@log_option
@output_option
def import_(bundle: str, log: str, as_json: bool) -> None:
    """Copy a log, most often a bundle, into a new database, and check it on the way.

    A bundle of a stretch begins with facts: the database then begins with them, too. Views are not written; `muster rebuild` does that.

    Example:

    \b
        muster log import incident.muster --log incident.db && muster rebuild --log incident.db
    """

    async def copy(source: ReadableLog) -> tuple[str, Verified]:
        target = await open_log(log, "write")
        try:
            with progress("import", total=source.head.position) as shown:
                return target.place, await copy_whole(source, target, shown)
        finally:
            await target.close()

    place, verified = ask_log(bundle, copy)
    if as_json:
        print_json({"log": place, **_as_json(verified)})
    else:
        print_lines([f"{place}: {_counts(verified)}", _head(verified)])


@log.command()
@log_argument
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The bundle to write; its name ends in .muster.",
)
@moment_option("--before", "Archive the batches before that of this moment.", required=True)
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@output_option
def archive(log: str, path: Path, before: LogTime, force: bool, as_json: bool) -> None:
    """Move the older part of a log into a bundle.

    The log then begins with the facts at that moment, and its chain goes on from their digest. `muster log join` puts the
    bundle back in front. A command that was killed can be repeated. On SQLite the daemon must be stopped.

    Example:

    \b
        muster log archive muster.db --before 2026-03-01T00:00:00Z --file february.muster
    """
    if path.suffix != ".muster":
        raise click.BadParameter(f"{path}: the name of a bundle ends in .muster")

    async def work(target: SqlLog) -> Archived:
        with progress("archive", total=target.head.position) as shown:
            return await archive_log(target, path, before, replaces=force, progress=shown)

    place, archived = asyncio.run(_change(log, work))
    first, head = archived.base.position + 1, archived.head
    if as_json:
        print_json(
            {
                "log": place,
                "bundle": str(path),
                "from": first,
                "to": head.position,
                "digest": head.digest,
            }
        )
    else:
        print_lines(
            [
                f"{path}: positions {first} to {head.position}",
                f"{place} begins behind position {head.position}, digest {head.digest}",
            ]
        )


@log.command()
@click.argument("bundle", metavar="BUNDLE")
@log_option
@output_option
def join(bundle: str, log: str, as_json: bool) -> None:
    """Put an archive back in front of the log that it was taken from.

    Several archives are joined from the newest to the oldest. A command that was killed can be repeated. On SQLite the
    daemon must be stopped.

    Example:

    \b
        muster log join february.muster --log muster.db
    """
    if not bundle.endswith(".muster"):
        raise click.BadParameter(f"{bundle}: the name of a bundle ends in .muster")

    async def work(target: SqlLog) -> Verified:
        source = BundleLog(Path(bundle))
        with progress("join", total=source.head.position) as shown:
            return await join_archive(target, source, shown)

    place, verified = asyncio.run(_change(log, work))
    if as_json:
        print_json({"log": place, **_as_json(verified)})
    else:
        first = verified.head.position - verified.records + 1
        print_lines([f"{place}: {_counts(verified)} in front, from position {first}"])


async def _change(log: str, work: Callable[[SqlLog], Awaitable[ResultT]]) -> tuple[str, ResultT]:
    """Work on a log in a database that is there, and return its name with the result."""
    await (await open_log(log)).close()  # It must be there, and of this release.
    target = await open_log(log, "write")
    try:
        if not isinstance(target, SqlLog):
            raise UsageError(f"{target.place} is no database")
        return target.place, await work(target)
    finally:
        await target.close()


@log.command()
@log_argument
@click.option("-f", "--follow", is_flag=True, help="Print new records until interrupted.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    help="The number of records to begin with; by default 10.",
)
@moment_option("--since", "Begin with the records since a moment.")
@output_option
def tail(log: str, follow: bool, lines: int | None, since: LogTime | None, as_json: bool) -> None:
    """Print the last records of a log, with their times.

    Examples:

    \b
        muster log tail -f postgresql://localhost/muster
        muster log tail demo.db --since -5s
    """
    if lines is not None and since is not None:
        raise click.UsageError("--lines and --since exclude each other: give one of them")

    async def show(source: ReadableLog) -> None:
        begin, end = source.base.position, source.head.position
        after = max(end - (LINES if lines is None else lines), begin)
        if since is not None:
            after = await position_from(source, since, "--since") - 1
        start_ns = await recorded_at_ns(source, begin + 1) if end > begin else None
        async for entries in source.tail(after) if follow else source.read(after):
            for entry in entries:
                if start_ns is None:
                    start_ns = entry.record.recorded_at_ns
                print_json(_record(entry)) if as_json else print_lines([_line(entry, start_ns)])

    ask_log(log, show)


@log.command()
@log_argument
@click.option(
    "--every",
    type=click.IntRange(min=1),
    default=SNAPSHOT_EVERY,
    show_default=True,
    metavar="N",
    help="Records between two snapshots.",
)
@output_option
def snapshot(log: str, every: int, as_json: bool) -> None:
    """Write the snapshots that a log lacks, so that questions about its past are answered quickly.

    The daemon writes snapshots as it goes; a log that is simulated, imported or of an earlier release has none. They
    only save time. Far from the end of the log fewer are kept, and together they take at most a twelfth of its bytes, or 64 MiB.
    On SQLite the daemon must be stopped.

    Example:

    \b
        muster log snapshot demo.db
    """

    async def write() -> tuple[str, list[int]]:
        await (await open_log(log)).close()  # It must be there, and of this release.
        target = await open_log(log, "write")
        try:
            with progress("snapshot", total=target.head.position) as shown:
                return target.place, await write_snapshots(target, every, shown)
        finally:
            await target.close()

    place, positions = asyncio.run(write())
    if as_json:
        print_json({"log": place, "snapshots": positions})
        return
    between = f", at positions {positions[0]:,} to {positions[-1]:,}" if positions else ""
    print_lines([f"{place}: {counted(len(positions), 'snapshot')}{between}"])


def _record(entry: Entry) -> dict[str, object]:
    fields = msgspec.structs.asdict(entry.record)
    return {**fields, "body": msgspec.Raw(entry.record.body)}


def _line(entry: Entry, start_ns: int) -> str:
    record = entry.record
    time = format_time(record.recorded_at_ns, start_ns)
    return f"{record.position:>9}  {time:<9}  {record.kind:<24}  {record.subject:<40}  {record.body.decode()}"


def _head(verified: Verified) -> str:
    return f"position {verified.head.position}, digest {verified.head.digest}"


def _as_json(verified: Verified) -> dict[str, object]:
    return {
        "position": verified.head.position,
        "digest": verified.head.digest,
        "epoch": verified.head.epoch,
        "records": verified.records,
        "batches": verified.batches,
        "objects": verified.objects,
        "redacted": verified.redacted,
    }


def _counts(verified: Verified) -> str:
    parts = [
        counted(verified.records, "record"),
        counted(verified.batches, "batch", "batches"),
        counted(verified.objects, "object"),
    ]
    if verified.redacted:
        parts.append(f"{verified.redacted:,} redacted")
    return ", ".join(parts)
