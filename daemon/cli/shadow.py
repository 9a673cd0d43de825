"""`muster shadow`: what a shadow (`muster run --shadow`) found beside the scheduler of a cluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click
from msgspec import structs

from daemon.cli.command_list import CommandGroup
from daemon.cli.output import (
    Line,
    counted,
    heading,
    log_argument,
    moment_option,
    output_option,
    print_json,
    print_lines,
    progress,
    table,
)
from events.amount_text import amount_text, amounts_text
from replay.log_time import LogTime, format_time

if TYPE_CHECKING:
    from replay.shadow_report import ClassSum, PodAccount, ShadowReport

ROWS_MAX: Final = 20
"""Rows of a table as text; JSON has all."""
SECOND: Final = 1_000_000_000


@click.group(cls=CommandGroup)
def shadow() -> None:
    """Compare the scheduler of a cluster with what muster would have done (`muster run --shadow`)."""


@shadow.command(short_help="Sum up what muster would have done otherwise.")
@log_argument
@moment_option("--to", "Report up to this moment; by default the end of the log.", "last")
@click.option("--pods", "with_pods", is_flag=True, help="List every pod with its class.")
@output_option
def report(log: str, last: LogTime | None, with_pods: bool, as_json: bool) -> None:
    """Sum up what muster would have done otherwise than the scheduler of the cluster.

    Each pod is in exactly one class: it would have started earlier, later or at the same time, would have been
    placed by muster only, or by neither, or had a node from the start. Then come placements on other nodes, overrun
    quota, gangs that stood half placed, and card-hours lost.

    Examples:

    \b
        muster shadow report shadow.db
        muster shadow report shadow.db --pods --output json
    """
    from daemon.log.opening import ask_log
    from daemon.queries.shadow_report import shadow_report

    with progress("shadow report") as shown:
        found = ask_log(log, lambda opened: shadow_report(opened, last, shown))
    if as_json:
        document = structs.asdict(found)
        if not with_pods:
            del document["accounts"]
        print_json(document)
        return
    lines = _lines(found)
    if with_pods:
        lines += ["", heading("pods"), *_pod_rows(found.accounts, found.start_ns)]
    print_lines(lines)


def _lines(found: "ShadowReport") -> list[Line]:
    start, end = (format_time(one, found.start_ns) for one in (found.start_ns, found.end_ns))
    lines: list[Line] = [
        heading(f"shadow of {', '.join(found.schedulers)}"),
        f"from {start} to {end}: {counted(found.pods, 'pod')}",
        "",
        *_classes(found),
        "",
        f"nodes: of {counted(found.same_node + found.other_node, 'pod')} that both placed, "
        f"{found.same_node:,} on the same node, {found.other_node:,} on another",
    ]
    if found.reasons:
        lines.append("why muster left the later pods waiting:")
        lines += [f"  {count:>5,}  {code}" for code, count in found.reasons.items()]
    if found.evictions:
        lines.append(f"evictions: muster would have evicted {counted(found.evictions, 'pod')}")
    lines += ["", *_overruns(found), "", *_gangs(found), ""]
    lost = found.lost_card_hours + found.half_gang_card_hours
    lines += [
        heading(f"card-hours lost: {_hours(lost)}"),
        f"  {_hours(found.lost_card_hours)} waiting for pods that muster would have started earlier",
        f"  {_hours(found.half_gang_card_hours)} held by gangs that stood half placed",
    ]
    return lines


def _classes(found: "ShadowReport") -> list[Line]:
    rows = [(one.name, str(one.pods), str(one.cards), *_figures(one)) for one in found.classes]
    rows.append(("all", str(found.pods), str(sum(one.cards for one in found.classes)), "", "", ""))
    head = ("in muster", "pods", "cards", "median s", "longest s", "card-hours")
    means = [f"  {one.name}: {one.means}" for one in found.classes if one.pods]
    return [*table(head, rows), *means]


def _figures(one: "ClassSum") -> list[str]:
    """Return median and longest gain or delay, and card-hours. A delay is a lower bound."""
    if one.median_seconds is None or one.most_seconds is None:
        return ["", "", ""]
    least = ">= " if one.is_at_least else ""
    texts = (_seconds(one.median_seconds), _seconds(one.most_seconds), _hours(one.card_hours))
    return [f"{least}{text}" for text in texts]


def _overruns(found: "ShadowReport") -> list[Line]:
    if not found.overruns:
        return ["quota overrun: none"]
    rows = [
        (
            one.queue,
            one.resource,
            amount_text(one.resource, one.capability),
            amount_text(one.resource, one.peak),
            format_time(one.from_ns, found.start_ns),
            _seconds((one.to_ns - one.from_ns) / SECOND) + ("+" if one.is_open else ""),
        )
        for one in found.overruns
    ]
    head = ("queue", "resource", "limit", "peak", "from", "seconds")
    return _cut("quota overrun", head, rows)


def _gangs(found: "ShadowReport") -> list[Line]:
    if not found.half_gangs:
        return ["gangs half placed: none"]
    rows = [
        (
            one.pod_group,
            f"{one.most} of {one.min_available}",
            format_time(one.from_ns, found.start_ns),
            _seconds((one.to_ns - one.from_ns) / SECOND),
            _hours(one.card_hours),
            one.ended,
        )
        for one in found.half_gangs
    ]
    head = ("pod group", "pods", "from", "seconds", "card-hours", "ended")
    return _cut("gangs half placed", head, rows)


def _pod_rows(accounts: list["PodAccount"], start_ns: int) -> list[Line]:
    rows = [
        (
            one.pod,
            one.in_class,
            "" if one.would_start_ns is None else format_time(one.would_start_ns, start_ns),
            one.would_node,
            "" if one.placed_ns is None else format_time(one.placed_ns, start_ns),
            one.node,
            amounts_text(one.cards),
        )
        for one in accounts
    ]
    return table(("pod", "class", "in muster", "on", "placed", "on", "cards"), rows)


def _cut(title: str, head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[Line]:
    more = len(rows) - ROWS_MAX
    rest = [f"  ... and {more:,} more (JSON has all)"] if more > 0 else []
    return [heading(f"{title}: {len(rows):,}"), *table(head, rows[:ROWS_MAX]), *rest]


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def _hours(hours: float) -> str:
    return f"{hours:.1f}" if hours >= 1 else f"{hours:.2g}"
