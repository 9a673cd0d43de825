"""`muster history`: what happened to a pod, pod group, node, queue or card between two moments."""

from typing import TYPE_CHECKING, Final

import click

from daemon.cli.output import (
    AS_FROM,
    Line,
    counted,
    heading,
    log_option,
    moment_option,
    output_option,
    print_json,
    print_lines,
    progress,
)
from replay.log_time import LogTime, format_time

if TYPE_CHECKING:
    from daemon.log.contract import ReadableLog
    from daemon.queries.subject_history import SubjectHistory

LINES_MAX: Final = 20
"""Further lines of one event that are printed; JSON has all of them."""


@click.command()
@click.argument("subject", metavar="SUBJECT")
@log_option
@moment_option("--from", "Begin with the first record at or after this moment.", "first")
@moment_option("--to", "End with the last record at or before this moment.", "last", forms=AS_FROM)
@moment_option("--since", "The same as --from.", "since", forms=AS_FROM)
@output_option
def history(
    subject: str,
    log: str,
    first: LogTime | None,
    last: LogTime | None,
    since: LogTime | None,
    as_json: bool,
) -> None:
    """Print what happened to a pod, pod group, node, queue or card, a line an event: changes, decisions, outcomes.

    SUBJECT is NAMESPACE/NAME of a pod or pod group, or Pod/NAMESPACE/NAME, PodGroup/NAMESPACE/NAME, Node/NAME, Queue/NAME,
    Card/MODEL, Card/NODE/MODEL or Card/NODE/DEVICE. Without --from a pod and a pod group are followed from their first record on, the others through
    the last hour.

    Examples:

    \b
        muster history default/openb-pod-0123 --log demo.db
        muster history Node/openb-node-0001 --log demo.db --from 10:00 --to 10:05
        muster history Queue/ls --log demo.db --since -15m
    """
    if first is not None and since is not None:
        raise click.UsageError("--from and --since exclude each other: give one of them")
    from daemon.log.opening import ask_log
    from daemon.queries.subject_history import subject_history

    begin = first if since is None else since

    async def ask(found: "ReadableLog") -> "SubjectHistory":
        with progress("history", total=found.head.position) as shown:
            return await subject_history(
                found, subject, begin, last, shown, option="--from" if since is None else "--since"
            )

    answer = ask_log(log, ask)
    if as_json:
        print_json(answer)
    else:
        print_lines(_lines(answer))


def _lines(answer: "SubjectHistory") -> list[Line]:
    start, end = (format_time(one, answer.start_ns) for one in (answer.first_ns, answer.last_ns))
    events = counted(len(answer.events), "event")
    head = f"{answer.subject} from {start} to {end} (positions {answer.first} to {answer.last}): {events}"
    lines: list[Line] = [heading(head)]
    width = max((len(str(one.position)) for one in answer.events), default=0)
    for one in answer.events:
        when = format_time(one.recorded_at_ns, answer.start_ns)
        before = f"{when}  {one.position:>{width}}  "
        lines.append(f"{before}{one.what}")
        lines += [f"{' ' * len(before)}  {text}" for text in one.lines[:LINES_MAX]]
        if len(one.lines) > LINES_MAX:
            more = len(one.lines) - LINES_MAX
            lines.append(f"{' ' * len(before)}  and {more} more")
    return lines
