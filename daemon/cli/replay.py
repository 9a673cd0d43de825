"""`muster replay`: decide a recorded past again, and compare."""

import asyncio
from itertools import zip_longest
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from daemon.cli.inputs import read_policy
from daemon.cli.output import (
    Line,
    Progress,
    Styled,
    counted,
    heading,
    log_argument,
    output_option,
    print_json,
    print_lines,
    progress,
    table,
    verdict,
)
from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.log.opening import open_log
from daemon.view_rebuild import batches
from events.errors import UsageError
from events.record import GENESIS
from projections.left_out import LeftOut, folded
from replay.log_replay import Divergence, Replay, Side
from replay.printable import printable
from scheduling.decide import DECIDER

WIDTH = 56
"""Columns of each side of a divergence."""


class Replayed(Struct, frozen=True):
    """What came of a replay."""

    place: str
    first: int
    replay: Replay
    divergence: Divergence | None
    causes: tuple[Entry, ...]
    """The records that fed the divergence."""


@click.command()
@log_argument
@click.option("--from", "first", type=int, metavar="P", help="Compare from this position on.")
@click.option("--to", "last", type=int, metavar="P", help="Stop behind the batch of this position.")
@click.option(
    "--policy",
    "policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Decide under this policy instead of the recorded one.",
)
@output_option
def replay(
    log: str, first: int | None, last: int | None, policy: Path | None, as_json: bool
) -> int:
    """Decide a log again and compare it with the record, to the byte.

    Stops at the first divergence, shows both sides and the records that fed them, and exits with 1.
    Up to the position of --from the log is folded and not compared.

    Examples:

    \b
        muster replay demo.db
        muster replay demo.db --policy spread.yaml
        muster replay incident.muster --from 5000 --to 6000 --output json
    """
    content = read_policy(policy) if policy is not None else None
    replayed = asyncio.run(_replay(log, first, last, content))
    if as_json:
        print_json(as_document(replayed))
    else:
        print_lines(_told(replayed))
    return 0 if replayed.divergence is None else 1


async def _replay(url: str, first: int | None, last: int | None, policy: bytes | None) -> Replayed:
    log = await open_log(url)
    try:
        with progress("replay", total=last or log.head.position) as shown:
            return await replay_log(log, first, last, policy=policy, progress=shown)
    finally:
        await log.close()


async def replay_log(
    log: ReadableLog,
    first: int | None = None,
    last: int | None = None,
    *,
    policy: bytes | None = None,
    progress: Progress | None = None,
) -> Replayed:
    """Replay a whole log, or a stretch of it. Records that State cannot apply are left out."""
    _check_stretch(log, first, last)
    stretch = (first or 1, last or log.head.position)

    async def attempt(left_out: LeftOut) -> Replayed:
        replay = Replay(log.base, policy=policy, left_out=left_out)
        return await _replayed(log, replay, *stretch, progress)

    return await folded(attempt)


async def _replayed(
    log: ReadableLog, replay: Replay, first: int, last: int, progress: Progress | None
) -> Replayed:
    found: Divergence | None = None
    async for batch in batches(log):
        if batch[0].record.position > last:
            break
        if batch[-1].record.position < first:
            for entry in batch:
                replay.fold(entry.record, entry.content)
        else:
            found = _compare(replay, batch)
        if found is not None:
            break
        if progress is not None:
            progress(replay.head.position)
    found = found or replay.finish()
    causes = await _records(log, found.causes) if found is not None else ()
    return Replayed(log.place, first, replay, found, causes)


def as_document(replayed: Replayed) -> dict[str, object]:
    """What came of it, as JSON."""
    replay, found = replayed.replay, replayed.divergence
    return {
        "log": replayed.place,
        "equal": found is None,
        "from": replayed.first,
        "to": replay.head.position,
        "records": replay.counts.records,
        "cycles": replay.counts.cycles,
        "decisions": replay.counts.decisions,
        "digest": replay.head.digest,
        "decider": DECIDER,
        "divergence": None if found is None else _as_json(found),
    }


def _check_stretch(log: ReadableLog, first: int | None, last: int | None) -> None:
    if log.base != GENESIS:
        raise UsageError(
            f"{log.place} begins behind position {log.base.position}: what led there is missing, "
            "and only a whole log can be decided again"
        )
    end = log.head.position
    for name, position in (("--from", first), ("--to", last)):
        if position is not None and not 1 <= position <= end:
            raise UsageError(f"{name} {position}: {log.place} holds positions 1 to {end}")
    if first is not None and last is not None and first > last:
        raise UsageError(f"--from {first} comes after --to {last}")


def _compare(replay: Replay, batch: list[Entry]) -> Divergence | None:
    for entry in batch:
        found = replay.take(entry.record, entry.content)
        if found is not None:
            return found
    return None


async def _records(log: ReadableLog, positions: tuple[int, ...]) -> tuple[Entry, ...]:
    found: list[Entry] = []
    for position in positions:
        async for entries in log.read(after=position - 1, until=position):
            found += entries
    return tuple(found)


def _told(replayed: Replayed) -> list[Line]:
    replay, found = replayed.replay, replayed.divergence
    counts = replay.counts
    done = (
        f"{counted(counts.records, 'record')}, {counted(counts.cycles, 'cycle')}, "
        f"{counted(counts.decisions, 'decision')}"
    )
    if found is None:
        return [
            (verdict(True, "equal", ""), f": {done}"),
            f"position {replay.head.position}, digest {replay.head.digest}",
        ]
    what = f" at position {found.position}: {found.what}"
    lines: list[Line] = [(verdict(False, "", "divergence"), what)]
    if found.is_of_another_version:
        lines.append(
            f"decided then by version {found.decider or 'unknown'} of the deciding code, and now by "
            f"version {DECIDER}: a change of behaviour, not a bug"
        )
    lines += _side_by_side(found.recorded, found.decided)
    if replayed.causes:
        rows = [
            (entry.record.position, entry.record.kind, entry.record.subject)
            for entry in replayed.causes
        ]
        lines += ["records that fed it:", *table(("position", "kind", "subject"), rows)]
    if found.cycle:
        lines.append(f"in the cycle opened at position {found.cycle}")
    lines.append(f"read up to there: {done}")
    return lines


def _side_by_side(recorded: Side | None, decided: Side | None) -> list[Line]:
    left, right = _lines(recorded), _lines(decided)
    lines: list[Line] = [heading(f"    {'recorded':{WIDTH}}  decided now")]
    for one, other in zip_longest(left, right, fillvalue=""):
        mark = "  " if one == other else "| "
        text = f"  {mark}{_cut(one):{WIDTH}}  {_cut(other)}".rstrip()
        lines.append(text if one == other else Styled(text, "yellow"))
    return lines


def _lines(side: Side | None) -> list[str]:
    if side is None:
        return ["(nothing)"]
    body = msgspec.json.format(side.body, indent=2).decode()
    return [side.kind, side.subject, *body.splitlines()]


def _cut(line: str) -> str:
    shown = printable(line)
    return shown if len(shown) <= WIDTH else shown[: WIDTH - 3] + "..."


def _as_json(found: Divergence) -> dict[str, object]:
    return {
        "position": found.position,
        "what": found.what,
        "cycle": found.cycle,
        "causes": list(found.causes),
        "decider": found.decider,
        "is_of_another_version": found.is_of_another_version,
        "recorded": _side_as_json(found.recorded),
        "decided": _side_as_json(found.decided),
    }


def _side_as_json(side: Side | None) -> dict[str, object] | None:
    if side is None:
        return None
    return {"kind": side.kind, "subject": side.subject, "body": msgspec.Raw(side.body)}
