"""`muster log`: verify, sign, export, import, archive, join, tail and snapshot."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import click
import msgspec

from daemon.cli.command_list import CommandGroup
from daemon.cli.kinds import kinds_named
from daemon.cli.output import (
    AS_FROM,
    Line,
    counted,
    log_argument,
    log_option,
    moment_option,
    output_option,
    print_json,
    print_lines,
    print_warning,
    progress,
    table,
    verdict,
)
from daemon.cli.record_filters import filter_options, record_filter
from daemon.clock import WallClock
from daemon.log.anchors import is_same, parse_anchor
from daemon.log.bundle import Header, check_free
from daemon.log.bundle_log import BundleLog
from daemon.log.contract import ReadableLog
from daemon.log.copying import Exported, copy_whole
from daemon.log.entry import Entry
from daemon.log.lost_records import accept_loss as record_loss
from daemon.log.lost_records import check_anchors
from daemon.log.new_log import new_log
from daemon.log.opening import ask_log, is_database, open_database, open_log, stored_anchor
from daemon.log.signatures import (
    Signature,
    add_signature,
    anchors_of,
    read_checking_key,
    read_signatures,
    read_signing_key,
    write_keys,
)
from daemon.log.store import SqlLog, stored_signatures
from daemon.log.verify import Verified
from daemon.log.verify import verify as verify_log
from daemon.private_files import write_whole
from daemon.queries.archive import Archived
from daemon.queries.archive import archive as archive_log
from daemon.queries.archive import join as join_archive
from daemon.queries.bundles import Redacted, export_redacted, export_stretch, redaction_key
from daemon.queries.filtered_records import filtered_records, last_records
from daemon.queries.history import SNAPSHOT_EVERY, write_snapshots
from daemon.queries.moments import position_from, recorded_at_ns, stretch
from events.daemon import RecordsLost
from events.errors import UsageError
from replay.log_time import LogTime, format_time
from replay.printable import printable
from replay.redaction import ALL

ResultT = TypeVar("ResultT")

LINES: Final = 10
"""Records that `tail` begins with."""
LINES_MAX: Final = 1_000_000
"""Records that `tail` can begin with, which are in memory at once."""


_bundle_option: Final = click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The bundle to write; its name ends in .muster.",
)


@click.group(cls=CommandGroup)
def log() -> None:
    """Verify, sign, export, import and tail logs, and write their snapshots."""


@log.command()
@log_argument
@click.option(
    "--public-key",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Check the signatures of the log by this key, of which there must be one.",
)
@click.option(
    "--signatures",
    "files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="Check the signatures in a file, too; several times for several files.",
)
@click.option(
    "--expect",
    multiple=True,
    metavar="POSITION:DIGEST",
    help="Compare a head that was saved elsewhere; several times for several heads.",
)
@output_option
def verify(
    log: str,
    public_key: Path | None,
    files: tuple[Path, ...],
    expect: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check a whole log: positions, batches, chain, objects, head; then tables, indexes, snapshots, views.

    The first error is reported with its position, table or index; exit code 4 means a damaged log, 5 one of a
    newer release. Nothing is repaired in place.

    A past that was rewritten as a whole is sound in itself. It is found by --public-key, with the signatures in the log and in files, and
    by --expect, with a head from a metric, an Event, or an earlier verification. What stands behind the last of these is not covered.

    Examples:

    \b
        muster log verify demo.db
        muster log verify demo.db --public-key sign.pem.pub
    """
    saved = [parse_anchor(one, "--expect") for one in expect]
    if (stored := stored_anchor(log)) is not None:
        saved.append(stored)
    key = None if public_key is None else read_checking_key(public_key)
    if files and key is None:
        raise click.UsageError("--signatures needs --public-key, which says whose they are")
    detached = [one for path in files for one in read_signatures(path)]

    async def ask(source: ReadableLog) -> tuple[str, Verified]:
        signatures = [*await stored_signatures(source), *detached]
        anchors = [*anchors_of(signatures, key), *saved]
        with progress("verify", total=source.head.position) as shown:
            return source.place, await verify_log(source, shown, anchors)

    place, verified = ask_log(log, ask)
    if as_json:
        losses = [
            {"position": position, **msgspec.to_builtins(event)}
            for position, event in verified.losses
        ]
        lost = {"losses": losses} if losses else {}
        print_json({"log": place, **_as_json(verified), **_anchored_as_json(verified), **lost})
    else:
        sound = verdict(True, "sound", "")
        lines: list[Line] = [(f"{place}: ", sound, f": {_counts(verified)}"), _head(verified)]
        lines += [_loss(position, event) for position, event in verified.losses]
        print_lines([*lines, *_anchored(verified, is_checked=key is not None)])


def _loss(position: int, event: RecordsLost) -> str:
    return (
        f"position {position}: a loss was accepted: positions {event.first} to {event.last} were written, as {event.source} states, and "
        "are not in this log; their positions are used again"
    )


@log.command("accept-loss")
@log_argument
@click.option(
    "--anchor",
    "anchors",
    multiple=True,
    required=True,
    metavar="POSITION:DIGEST",
    help="What is known to have been written and is lost, as the error of the daemon names it; several times for several.",
)
@output_option
def accept_loss(log: str, anchors: tuple[str, ...], as_json: bool) -> None:
    """Go on with a log that lost its end: record the loss as a gap.

    A daemon ends with exit code 4 if its log ends before a record that is known to have been written: the one that its memory, the
    Lease or the file beside a SQLite log states. Restore the newest database first, if there is one. The decisions in the lost part were carried out: pods
    that they bound stay where they are, and `muster why` says that the decision is not in the log. The record names what was lost; positions go
    on behind it, so those of lost records are used again. Stop the daemons before. The setting accept_loss does the same at a start.

    Examples:

    \b
        muster log accept-loss muster.db --anchor 1450:3f0c...  # all 64 digits
    """
    stated = [parse_anchor(one, "--anchor") for one in anchors]

    async def accept() -> tuple[str, list[RecordsLost]]:
        target = await open_database(log, "write", is_shortened=True)
        try:
            beside = target.stored_anchor()
            if beside is not None and not any(is_same(beside, one) for one in stated):
                await check_anchors(target, [beside])  # Its loss is another one.
            by = "muster log accept-loss"
            lost = await record_loss(target, stated, by=by, now_ns=WallClock().now_ns())
            if beside is not None:
                target.keep_anchor()
            return target.place, lost
        finally:
            await target.close()

    place, lost = asyncio.run(accept())
    if as_json:
        print_json({"log": place, "losses": [msgspec.to_builtins(one) for one in lost]})
    else:
        print_lines(
            [f"{place}: positions {one.first} to {one.last} are recorded as lost" for one in lost]
        )


@log.command()
@log_argument
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The private key, an Ed25519 key in PEM form.",
)
@click.option(
    "--file",
    "path",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Add the signature to this file instead of the log.",
)
@output_option
def sign(log: str, key: Path, path: Path | None, as_json: bool) -> None:
    """Verify a log and sign its head, and with it all of its past.

    The signature is stored in the log, or with --file in a file, which a read-only log and a bundle need. On SQLite the daemon must be
    stopped unless there is --file. The daemon signs by itself at intervals (sign_key in its settings).

    Examples:

    \b
        muster log keygen --key sign.pem
        muster log sign demo.db --key sign.pem
        muster log sign demo.muster --key sign.pem --file demo.signatures
    """
    signer = read_signing_key(key)

    async def write() -> tuple[str, Signature]:
        source = await open_log(log)
        try:
            anchors = anchors_of(await stored_signatures(source), None)
            with progress("verify", total=source.head.position) as shown:
                verified = await verify_log(source, shown, anchors)
            signature = signer.sign(verified.head, WallClock().now_ns())
            if path is not None:
                add_signature(path, signature)
                return source.place, signature
            if not is_database(log):
                raise UsageError(f"{source.place} is read only; --file FILE takes the signature")
        finally:
            await source.close()
        target = await open_database(log, "write")
        try:
            await target.save_signature(signature)
            return target.place, signature
        finally:
            await target.close()

    place, signature = asyncio.run(write())
    if as_json:
        print_json({"log": place, **msgspec.structs.asdict(signature)})
    else:
        where = "" if path is None else f", in {path}"
        print_lines(
            [
                f"{place}: signed up to position {signature.position} by key {signature.key}{where}",
                f"digest {signature.digest}",
            ]
        )


@log.command()
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="The private key to write; the public one is FILE.pub.",
)
@output_option
def keygen(key: Path, as_json: bool) -> None:
    """Make a pair of keys for signing logs. Files that exist are never replaced.

    Keep the private key away from those who can write the log, and the public one with those who check it.

    Example:

    \b
        muster log keygen --key sign.pem
    """
    public = key.with_name(f"{key.name}.pub")
    name = write_keys(key, public)
    if as_json:
        print_json({"key": name, "private_key": str(key), "public_key": str(public)})
    else:
        print_lines([f"{key}: private key {name}; keep it secret", f"{public}: its public key"])


@log.command()
@log_argument
@output_option
def signatures(log: str, as_json: bool) -> None:
    """List the signatures that are stored in a log.

    As JSON it is one a line, which is the form of a file of signatures: a copy for `muster log verify --signatures`.

    Examples:

    \b
        muster log signatures demo.db
        muster log signatures demo.db -o json > demo.signatures
    """
    found = ask_log(log, stored_signatures)
    if as_json:
        for one in found:
            print_json(one)
        return
    if not found:
        print_lines(["no signatures"])
        return
    rows = [
        (one.position, format_time(one.signed_at_ns, one.signed_at_ns), one.key) for one in found
    ]
    print_lines(table(["position", "signed", "key"], rows))


@log.command()
@log_argument
@_bundle_option
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

    A stretch begins with a base, which says what stands at its start, so that it can be replayed and asked like a whole log. An existing file is
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
        write_whole(path, "".join(lines))
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

    A bundle of a stretch begins with a base: the database then begins with it, too. Views are not written; `muster rebuild` does that.

    Example:

    \b
        muster log import incident.muster --log incident.db
        muster rebuild --log incident.db
    """

    async def copy(source: ReadableLog) -> tuple[str, Verified]:
        async with new_log(log, "a log is imported into a new one") as target:
            with progress("import", total=source.head.position) as shown:
                return target.place, await copy_whole(source, target, shown)

    place, verified = ask_log(bundle, copy)
    if as_json:
        print_json({"log": place, **_as_json(verified)})
    else:
        print_lines([f"{place}: {_counts(verified)}", _head(verified)])


@log.command()
@log_argument
@_bundle_option
@moment_option("--before", "Archive the batches before that of this moment.", required=True)
@click.option("--force", is_flag=True, help="Replace an existing FILE.")
@output_option
def archive(log: str, path: Path, before: LogTime, force: bool, as_json: bool) -> None:
    """Move the older part of a log into a bundle.

    The log then begins with a base, which says what stands at that moment, and its chain goes on from there. `muster log join` puts the
    bundle back in front. A command that was killed can be repeated. On SQLite the daemon must be stopped.

    Example:

    \b
        muster log archive muster.db --before 2026-03-01T00:00:00Z --file a.muster
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
        muster log join a.muster --log muster.db
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
    target = await open_database(log, "write")
    try:
        return target.place, await work(target)
    finally:
        await target.close()


@log.command()
@log_argument
@click.option("-f", "--follow", is_flag=True, help="Print new records until interrupted.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, LINES_MAX),
    help="The number of records to begin with; by default 10.",
)
@moment_option("--since", "Begin with the records since a moment.")
@filter_options
@output_option
def tail(
    log: str,
    follow: bool,
    lines: int | None,
    since: LogTime | None,
    subjects: tuple[str, ...],
    kinds: tuple[str, ...],
    queue: str,
    node: str,
    as_json: bool,
) -> None:
    """Print the last records of a log, with their times; with filters, the last ones that pass them.

    A record passes if it passes each kind of filter that is given. --queue and --node find the records of the pods and
    pod groups there, too.

    Examples:

    \b
        muster log tail -f postgresql://localhost/muster
        muster log tail demo.db --since -5s
        muster log tail demo.db --kind decision --queue ls -n 20
    """
    if lines is not None and since is not None:
        raise click.UsageError("--lines and --since exclude each other: give one of them")
    wanted = record_filter(subjects, kinds, queue, node)

    async def show(source: ReadableLog) -> None:
        begin, end = source.base.position, source.head.position
        start_ns = await recorded_at_ns(source, begin + 1) if end > begin else None

        def put(entry: Entry) -> None:
            shown_from = entry.record.recorded_at_ns if start_ns is None else start_ns
            print_json(_record(entry)) if as_json else print_lines([_line(entry, shown_from)])

        if since is None:
            found = await last_records(source, wanted, LINES if lines is None else lines)
            for one in found.records:
                put(one.entry)
            if not found.is_complete:
                print_warning(
                    f"only the last {found.looked_at:,} records were searched: --since finds older ones"
                )
            if not follow:
                return
        after = end if since is None else await position_from(source, since, "--since") - 1
        async for one in filtered_records(source, wanted, after, follows=follow):
            put(one.entry)

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


def _anchored(verified: Verified, *, is_checked: bool) -> list[str]:
    """Return lines on the anchors that agree, and on what no anchor covers."""
    anchored, head = verified.anchored, verified.head
    lines: list[str] = []
    if anchored.last is not None:
        at_ns = anchored.last.at_ns
        signed = "" if at_ns is None else f", signed at {format_time(at_ns, at_ns)}"
        lines.append(
            f"agrees with {counted(anchored.count, 'anchor')}, the last at position {anchored.last.position}{signed}"
        )
        behind = head.position - anchored.last.position
        if behind:
            lines.append(f"not covered: {counted(behind, 'record')} behind it")
        if not is_checked and anchored.last.at_ns is not None:
            lines.append("who made the signatures was not checked: give --public-key")
    if anchored.before_base:
        lines.append(
            f"not compared: {counted(anchored.before_base, 'anchor')} before its first record"
        )
    return lines


def _anchored_as_json(verified: Verified) -> dict[str, object]:
    anchored = verified.anchored
    return {
        "anchors": anchored.count,
        "anchored_position": None if anchored.last is None else anchored.last.position,
        "anchors_before_base": anchored.before_base,
    }


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
