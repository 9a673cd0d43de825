"""`muster what-if`: run the rest of a log once more with a change, and compare."""

import asyncio
from contextlib import AsyncExitStack
from itertools import zip_longest
from pathlib import Path

import click

from daemon.cli.decision_table import model_lines
from daemon.cli.figures import figure_table, figures, group_name, more, queue_table, totals_table
from daemon.cli.inputs import load_change, read_duration
from daemon.cli.output import (
    Line,
    Styled,
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
from daemon.log.contract import Log
from daemon.log.new_log import new_log
from daemon.log.opening import open_log
from daemon.queries import what_if as what_if_query
from daemon.text_file import read_input
from events.errors import UsageError
from replay.log_time import LogTime, format_time
from replay.what_if_comparison import Branch, DecisionPair, first_difference, moved_pods
from replay.what_if_document import what_if_document
from replay.what_if_figures import RunFigures, TimedDecision, Totals

SHOWN_MAX = 10
"""The most queues, pod groups, and pods placed otherwise, in the text report."""

_TITLES = {"record": "happened", "model": "no change"}


@click.command("what-if")
@log_argument
@moment_option("--at", "Where the branch begins.", required=True)
@click.option(
    "--change",
    type=click.Path(path_type=Path),
    metavar="FILE",
    required=True,
    help="The change from there on (`-`: standard input): policy, steps, faults, dropped records.",
)
@click.option(
    "--baseline",
    type=click.Choice(["record", "model"]),
    default="record",
    show_default=True,
    help="Compare with what happened, or with the simulated cluster without the change.",
)
@click.option(
    "--out", "kept", metavar="NEW", help="Keep the run with the change there, in a new log."
)
@click.option(
    "--checkpoint",
    metavar="DURATION",
    default="30m",
    show_default=True,
    help="How often jobs make a checkpoint: work since the last one is lost when a pod is.",
)
@output_option
def what_if(
    log: str,
    at: LogTime,
    change: Path,
    baseline: str,
    kept: str | None,
    checkpoint: str,
    as_json: bool,
) -> int:
    """Run the rest of a log once more from a moment on, with a change, and compare it with what happened.

    The batches up to MOMENT stand. Later changes by other clients happen again at their times; what answered
    decisions of muster is simulated: pods start, run as long as recorded, and end. The rest is run without
    the change as well, so that an error of the simulation is not taken for its effect. The exit code is 0, whether
    or not anything differs.

    Examples:

    \b
        muster what-if demo.db --at 812 --change more-quota.yaml
        muster what-if demo.db --at 09:30 --change no-fault.yaml --output json
        muster what-if demo.db --at 90s --change policy.yaml --out branch.db
    """
    checkpoint_ns = read_duration("--checkpoint", checkpoint)
    if not checkpoint_ns:
        raise UsageError("--checkpoint must be longer than nothing")
    branch = asyncio.run(_ask(log, at, change, kept, checkpoint_ns))
    if as_json:
        print_json(what_if_document(branch, baseline))
    else:
        print_lines(_report(branch, baseline))
        if kept is not None:
            print_lines([f"the run with the change is kept in {kept}"])
    return 0


async def _ask(
    url: str, moment: LogTime, change: Path, kept: str | None, checkpoint_ns: int
) -> Branch:
    text, _ = read_input(change)  # Once: it may be a pipe.
    log = await open_log(url)
    try:
        async with AsyncExitStack() as stack:
            target: Log | None = None
            if kept is not None:
                new = new_log(kept, "a branch is kept in a new log")
                target = await stack.enter_async_context(new)
            with progress("what-if") as shown:
                return await what_if_query.what_if(
                    log,
                    moment,
                    lambda history, length_ns: load_change(text, change, history, length_ns),
                    kept=target,
                    checkpoint_ns=checkpoint_ns,
                    progress=shown,
                )
    finally:
        await log.close()


def _report(branch: Branch, baseline: str) -> list[Line]:
    base, changed = branch.baseline(baseline), branch.changed
    difference = first_difference(base, changed)
    begins, ends = (format_time(at, branch.start_ns) for at in (branch.at_ns, branch.end_ns))
    what = "what happened" if baseline == "record" else "the run without the change"
    return [
        (
            verdict(difference is None, "equal", "different"),
            f": the rest of {branch.place} behind position {branch.head.position}, from {begins} to "
            f"{ends}, compared with {what}",
        ),
        *model_lines(branch),
        *totals_table(
            ("happened", "no change", "with the change"),
            (branch.recorded, branch.model, branch.changed),
        ),
        *queue_table(base, changed, f"queue: {_TITLES[baseline]} -> with the change"),
        *_group_table(base, changed, baseline),
        *_difference(branch, difference, base, baseline),
        *_placements(base, changed, baseline),
    ]


def _group_table(base: RunFigures, changed: RunFigures, baseline: str) -> list[Line]:
    keys = [
        key
        for key in dict.fromkeys((*base.groups, *changed.groups))
        if base.groups.get(key, Totals()) != changed.groups.get(key, Totals())
    ]
    if not keys:
        return []
    rows = [
        (group_name(base, changed, key), *figures(base.total([key]), changed.total([key])))
        for key in keys[:SHOWN_MAX]
    ]
    title = f"pod group: {_TITLES[baseline]} -> with the change"
    return figure_table(title, rows) + more(len(keys), SHOWN_MAX, "pod groups that differ")


def _difference(
    branch: Branch, pair: DecisionPair | None, base: RunFigures, baseline: str
) -> list[Line]:
    if pair is None:
        return ["no decision differs"]
    left, right = _sides(branch, base, pair.one), _sides(branch, base, pair.other)
    width = max(40, *(len(line) for line in left))
    lines: list[Line] = [
        "first decision that differs:",
        heading(f"    {_TITLES[baseline]:{width}}  with the change"),
    ]
    for one, other in zip_longest(left, right, fillvalue=""):
        text = f"    {one:{width}}  {other}".rstrip()
        lines.append(text if one == other else Styled(text, "yellow"))
    return lines


def _sides(branch: Branch, base: RunFigures, timed: TimedDecision | None) -> list[str]:
    if timed is None:
        return ["(nothing)"]
    one = timed.decision
    when = format_time(timed.at_ns, branch.start_ns)
    subject = one.pod or group_name(base, branch.changed, one.pod_group)
    lines = [f"position {timed.position}, {when}", f"{one.kind} {subject}"]
    if one.node:
        lines.append(f"node {one.node}")
    if one.devices:
        lines.append(f"devices {', '.join(one.devices)}")
    if one.in_favour_of:
        lines.append(f"in favour of {one.in_favour_of}")
    if one.code:
        lines.append(one.code)
    return lines


def _placements(base: RunFigures, changed: RunFigures, baseline: str) -> list[Line]:
    moved = moved_pods(base, changed)
    if not moved:
        return []
    rows = [(one.pod, one.one or None, one.other or None) for one in moved[:SHOWN_MAX]]
    headers = ("pod placed otherwise", _TITLES[baseline], "with the change")
    return table(headers, rows) + more(len(moved), SHOWN_MAX, "pods placed otherwise")
