"""`muster replay`: decide a recorded log again, and compare."""

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from daemon.cli.inputs import read_policy
from daemon.cli.output import (
    AS_FROM,
    Line,
    Styled,
    counted,
    heading,
    log_argument,
    moment_option,
    output_option,
    print_json,
    print_lines,
    progress,
    table,
    verdict,
)
from daemon.log.contract import ReadableLog
from daemon.log.opening import ask_log
from daemon.log.shadow_mode import is_shadow
from daemon.queries.moments import stretch
from daemon.queries.replay import Replayed, check_stretch, replay_document, replay_log
from daemon.queries.replay_jobs import replay_in_processes
from events.errors import UsageError
from replay.log_replay import Side
from replay.log_time import LogTime
from replay.printable import printable
from scheduling.decide import DECIDER

if TYPE_CHECKING:
    from daemon.queries.replay_rest import ReplayedRest

JOBS_MAX = 256
"""The most processes of a replay."""

WIDTH = 56
"""Columns of each side of a divergence."""


@click.command()
@log_argument
@moment_option("--from", "Compare from this moment on.", "first")
@moment_option("--to", "Stop behind the batch of this moment.", "last", forms=AS_FROM)
@click.option(
    "--policy",
    "policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Decide under this policy instead of the recorded one.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1, JOBS_MAX),
    default=1,
    show_default=True,
    metavar="N",
    help="Replay the stretches between snapshots in so many processes, with the same result. A log without snapshots, or "
    "with --policy, is replayed in one; `muster log snapshot` writes them.",
)
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="Go on behind the first divergence to the end of the log: show all decisions that differ, and the waiting, evictions and "
    "card-hours that come of them. With --from the rest begins at that moment.",
)
@output_option
def replay(
    log: str,
    first: LogTime | None,
    last: LogTime | None,
    policy: Path | None,
    jobs: int,
    is_all: bool,
    as_json: bool,
) -> int:
    """Decide a log again and compare it with the record, to the byte.

    Stops at the first divergence, shows both sides and the records that fed them, and exits with 1.
    Up to the moment of --from the log is folded and not compared, from the newest snapshot on.
    With --all the rest of the log is simulated, as by `muster what-if`.

    Examples:

    \b
        muster replay demo.db
        muster replay demo.db --policy spread.yaml
        muster replay demo.db --policy spread.yaml --all --from 10:05
        muster log snapshot demo.db && muster replay demo.db --jobs 4
        muster replay incident.muster --from 5000 --to 6000 --output json
    """
    if is_all and last is not None:
        raise UsageError("--all goes on to the end of the log: leave out --to")
    content = read_policy(policy) if policy is not None else None
    if is_all:
        return _replay_all(log, first, content, str(policy or ""), as_json)

    async def ask(found: ReadableLog) -> tuple[Replayed, bool]:
        shadow = await is_shadow(found)
        return await replayed_of(found), shadow

    async def replayed_of(found: ReadableLog) -> Replayed:
        begin, end = await stretch(found, first, last)
        with progress("replay", total=end or found.head.position) as shown:
            if jobs > 1 and content is None:
                return await replay_in_processes(found, log, jobs, begin, end, shown)
            return await replay_log(found, begin, end, policy=content, progress=shown)

    replayed, shadow = ask_log(log, ask)
    if as_json:
        print_json(replay_document(replayed))
    else:
        print_lines(_result_lines(replayed, of_shadow=shadow))
    return 0 if replayed.divergence is None else 1


def _replay_all(
    log: str, first: LogTime | None, policy: bytes | None, source: str, as_json: bool
) -> int:
    """Decide the rest of a log again, and print all decisions that differ and what comes of them."""
    # Imported here because a plain replay simulates nothing.
    from daemon.cli.replay_rest import rest_document, rest_lines
    from daemon.queries.replay_rest import replay_rest

    async def ask(found: ReadableLog) -> "tuple[ReplayedRest | Replayed, bool]":
        check_stretch(found, None, None)
        begin, _ = await stretch(found, first, None)
        with progress("replay") as shown:
            rest = await replay_rest(found, begin, policy=policy, source=source, progress=shown)
        return rest, await is_shadow(found)

    found, of_shadow = ask_log(log, ask)
    if isinstance(found, Replayed):
        if as_json:
            print_json({**replay_document(found), "rest": None})
        else:
            print_lines(_result_lines(found, of_shadow=of_shadow))
        return 0
    if as_json:
        print_json(rest_document(found))
    else:
        print_lines(rest_lines(found, source))
    return 0 if found.is_equal else 1


def _result_lines(replayed: Replayed, *, of_shadow: bool) -> list[Line]:
    replay, found = replayed.replay, replayed.divergence
    counts = replay.counts
    done = (
        f"{counted(counts.records, 'record')}, {counted(counts.cycles, 'cycle')}, "
        f"{counted(counts.decisions, 'decision')}"
        f"{' of a shadow, not carried out' if of_shadow else ''}"
    )
    if found is None:
        return [
            (verdict(True, "equal", ""), f": {done}"),
            f"position {replay.head.position}, digest {replay.head.digest}",
        ]
    what = f" at position {found.position}: {found.what}"
    lines: list[Line] = [(verdict(False, "", "divergence"), what)]
    if found.is_of_another_version:
        versions = f"version {found.decider or 'unknown'} of the deciding code, and now by version {DECIDER}"
        lines.append(
            f"decided then by {found.plugins or versions}: a change of behaviour, not a bug"
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
