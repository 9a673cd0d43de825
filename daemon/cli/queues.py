"""`muster queue`: quota, use and waiting pod groups of queues, and the operations of `muster group`."""

import click

from daemon.cli.command_list import CommandGroup
from daemon.cli.groups import OPERATIONS
from daemon.cli.output import (
    Line,
    at_option,
    counted,
    heading,
    log_option,
    output_option,
    print_json,
    print_lines,
    table,
)
from daemon.cli.watching import watch_option
from daemon.log.opening import ask_log
from daemon.queries.queues import all_queues, one_queue
from events.amount_text import amount_cell, amounts_text
from replay.log_time import LogTime, format_time
from replay.queue_answer import InLine, QueueAnswer, Resource

LINE_MAX = 40
"""Waiting pod groups shown as text; JSON has all."""


@click.group(cls=CommandGroup)
def queue() -> None:
    """Show queues: quota, use, demand, and waiting pod groups in the order in which they are served; change jobs in them.

    The commands that change jobs are those of `muster group`.
    """


for _operation in OPERATIONS:
    queue.add_command(_operation)


@queue.command("list")
@log_option
@at_option
@output_option
@watch_option
def list_queues(log: str, at: LogTime | None, as_json: bool) -> None:
    """List all queues: quota, use and demand, one row per resource or card.

    The numbers are those of the view `queue_quota`.

    Examples:

    \b
        muster queue list --log demo.db
        muster queue list --log demo.db --at 500 --output json
    """
    answers = ask_log(log, lambda found: all_queues(found, at))
    if as_json:
        for one in answers:
            print_json(one)
        return
    headers = ("queue", "state", "in line", *_COLUMNS)
    rows = [
        (
            *((one.queue, _state(one), _waits(one)) if index == 0 else ("", "", "")),
            *_cells(resource),
        )
        for one in answers
        for index, resource in enumerate(one.resources)
    ]
    print_lines(table(headers, rows))


@queue.command("show")
@click.argument("name")
@log_option
@at_option
@output_option
@watch_option
def show_queue(name: str, log: str, at: LogTime | None, as_json: bool) -> None:
    """Show one queue: quota and use, the pod groups that hold it, and the waiting ones with place and reason.

    Example:

    \b
        muster queue show q1 --log demo.db
    """
    answer, position = ask_log(log, lambda found: one_queue(found, name, at))
    if as_json:
        print_json(answer)
    else:
        print_lines(_lines(answer, position))


_COLUMNS = ("resource", "quota", "guarantee", "deserved", "used", "reserved", "waiting", "limit")


def _cells(one: Resource) -> tuple[str, ...]:
    amounts = (one.guarantee, one.deserved, one.allocated, one.inqueue, one.waiting)
    limits = ["none" if most is None else amount_cell(one.resource, most)
              for most in (one.capability, one.limit)]  # fmt: skip
    shown_amounts = [amount_cell(one.resource, amount) for amount in amounts]
    return (one.resource, limits[0], *shown_amounts, limits[1])


def _state(one: QueueAnswer) -> str:
    return one.state.lower() or ("open" if one.is_open else "closed")


def _waits(one: QueueAnswer) -> int:
    return len({each.pod_group for each in one.line})


def _lines(answer: QueueAnswer, position: int) -> list[Line]:
    phases = ", ".join(f"{count} {phase}" for phase, count in answer.pod_groups.items())
    lines: list[Line] = [
        f"{answer.queue} at position {position}: {answer.message or 'open'}",
        f"  priority {answer.priority}, weight {answer.weight}"
        + (f", below {answer.parent}" if answer.parent else "")
        + ("" if answer.has_object else "; it has no object"),
        f"  pod groups: {phases or 'none'}",
        *(f"  {fault}" for fault in answer.faults),
        "",
        *table(_COLUMNS, [_cells(one) for one in answer.resources]),
    ]
    if answer.holders:
        lines += ["", heading(f"held by {counted(len(answer.holders), 'pod group')}:")]
        shown_holders = sorted(answer.holders, key=lambda one: one.pod_group)[:LINE_MAX]
        lines += [
            f"  {one.pod_group} ({one.phase}): {amounts_text(one.allocated)}"
            for one in shown_holders
        ]
        lines += _more(len(answer.holders))
    for action in dict.fromkeys(one.action for one in answer.line):
        line = [one for one in answer.line if one.action == action]
        lines += ["", heading(f"line for {action}:")]
        for one in line[:LINE_MAX]:
            lines += _in_line(one)
        lines += _more(len(line))
    return lines


def _in_line(one: InLine) -> list[str]:
    pods = f", {counted(one.waiting, 'pod')}" if one.waiting else ""
    since = format_time(one.since_ns, one.since_ns)
    reason = f"{one.code} since record {one.position}" if one.code else "not answered yet"
    head = f"  {one.place}. {one.pod_group}, priority {one.priority}{pods}, of {since}: {reason}"
    return [head, f"     {one.message}"] if one.message else [head]


def _more(count: int) -> list[str]:
    return [f"  ... and {count - LINE_MAX} more"] if count > LINE_MAX else []
