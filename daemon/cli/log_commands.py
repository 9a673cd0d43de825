"""`muster log`: verify, export, import and tail."""

from pathlib import Path

import click
import msgspec

from daemon.cli.kinds import kinds_named
from daemon.cli.output import (
    counted,
    log_argument,
    log_option,
    output_option,
    print_json,
    print_lines,
    progress,
    verdict,
)
from daemon.log.contract import ReadableLog
from daemon.log.copying import copy_whole
from daemon.log.copying import export as export_bundle
from daemon.log.entry import Entry
from daemon.log.opening import ask_log, open_log
from daemon.log.verify import Verified
from daemon.log.verify import verify as verify_log


@click.group()
def log() -> None:
    """Verify, export, import and tail logs."""


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
@click.option(
    "--from", "first", type=int, metavar="P", help="Begin with the batch of this position."
)
@click.option("--to", "last", type=int, metavar="P", help="End with the batch of this position.")
@click.option(
    "--redact",
    multiple=True,
    metavar="KIND",
    help="Leave out the objects of a Kubernetes kind, named as for kubectl (Pod, pods, po, "
    "podgroups.scheduling.volcano.sh ...); several times for several kinds.",
)
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@output_option
def export(
    log: str,
    path: Path,
    first: int | None,
    last: int | None,
    redact: tuple[str, ...],
    force: bool,
    as_json: bool,
) -> None:
    """Write a log, or a range of positions, into a bundle.

    The objects of a redacted kind lose their content; their names stay in the records, and their digests in the
    chain. An existing file is replaced only with --force.

    Examples:

    \b
        muster log export demo.db --file demo.muster
        muster log export demo.db --file incident.muster --from 500 --to 900 --redact Pod
    """
    if path.suffix != ".muster":
        raise click.BadParameter(f"{path}: the name of a bundle ends in .muster")
    kinds = frozenset(kind for name in redact for kind in kinds_named(name))
    exported = ask_log(
        log,
        lambda source: export_bundle(
            source, path, first=first, last=last, redact=kinds, replaces=force
        ),
    )
    header, left_out = exported.header, exported.left_out
    if as_json:
        print_json(
            {
                "bundle": str(path),
                "from": header.base.position + 1,
                "to": header.head.position,
                "digest": header.head.digest,
                "redacted": list(header.redacted),
                "left_out": left_out,
            }
        )
        return
    lines = [f"{path}: positions {header.base.position + 1} to {header.head.position}"]
    lines += [f"left out: {counted(count, f'{kind} object')}" for kind, count in left_out.items()]
    print_lines(lines)


@log.command(name="import")
@click.argument("bundle", metavar="BUNDLE")
@log_option
@output_option
def import_(bundle: str, log: str, as_json: bool) -> None:
    """Copy a whole log, most often a bundle, into a new database, and check it on the way.

    Its views are not written; `muster rebuild` does that.

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
@click.option("-f", "--follow", is_flag=True, help="Print new records until interrupted.")
@click.option("-n", "--lines", type=click.IntRange(min=0), default=10, show_default=True)
@output_option
def tail(log: str, follow: bool, lines: int, as_json: bool) -> None:
    """Print the last records of a log.

    Example:

    \b
        muster log tail -f postgresql://localhost/muster
    """

    async def show(source: ReadableLog) -> None:
        after = max(source.head.position - lines, source.base.position)
        async for entries in source.tail(after) if follow else source.read(after):
            for entry in entries:
                print_json(_record(entry)) if as_json else print_lines([_line(entry)])

    ask_log(log, show)


def _record(entry: Entry) -> dict[str, object]:
    fields = msgspec.structs.asdict(entry.record)
    return {**fields, "body": msgspec.Raw(entry.record.body)}


def _line(entry: Entry) -> str:
    record = entry.record
    return f"{record.position:>9}  {record.kind:<24}  {record.subject:<40}  {record.body.decode()}"


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
