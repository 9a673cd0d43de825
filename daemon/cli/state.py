"""`muster state`: what was true at a position of a log."""

from collections.abc import Mapping
from typing import Any, Final

import click

from daemon.cli.output import (
    Cell,
    Line,
    at_option,
    heading,
    log_argument,
    output_option,
    print_json,
    print_lines,
    table,
)
from daemon.cli.watching import watch_option
from daemon.log.contract import ReadableLog
from daemon.log.opening import ask_log
from daemon.queries.log_state import state_at
from daemon.queries.moments import recorded_at_ns
from daemon.queries.state import state_document
from events.amount_text import amount_cell
from projections.state import State
from projections.views.catalogue import DEVICE
from replay.log_time import LogTime, format_time

SHOWN_MAX = 40
"""Rows a table shows in text; JSON has all."""


@click.command()
@log_argument
@at_option
@click.option(
    "--all", "everything", is_flag=True, help="Show every row, not only the first 40 of each table."
)
@output_option
@watch_option
def state(log: str, at: LogTime | None, everything: bool, as_json: bool) -> None:
    """Show queues, nodes with their cards, devices with names, pod groups and pods at a moment.

    A queue has a row for each resource, a node for each card. The columns in JSON are those of the views in SQL: cpu in milli, memory
    in bytes, times in nanoseconds; text has amounts as Kubernetes writes them, and the times of the log.

    Examples:

    \b
        muster state demo.db
        muster state demo.db --at 500 --output json
    """

    async def ask(opened: ReadableLog) -> tuple[str, State, int]:
        found = await state_at(opened, at)
        is_empty = opened.head.position == opened.base.position
        start_ns = 0 if is_empty else await recorded_at_ns(opened, opened.base.position + 1)
        return opened.place, found, start_ns

    place, found, start_ns = ask_log(log, ask)
    document = state_document(found)
    if as_json:
        print_json({"log": place, **document})
        return
    lines: list[Line] = [f"{place} at position {found.position:,}"]
    for name in ("queues", "nodes", "devices", "pod_groups", "pods"):
        rows = document[name]
        assert isinstance(rows, list)
        if name == "devices" and not rows:
            continue
        count = _count(name, len(rows), found)
        lines += ["", heading(f"{name.replace('_', ' ')}: {count}")]
        if rows:
            shown = rows if everything else rows[:SHOWN_MAX]
            lines += table(_COLUMNS[name], [_shown(name, row, start_ns) for row in shown])
            if len(shown) < len(rows):
                lines.append(f"  ... and {len(rows) - len(shown):,} more (--all shows them)")
    print_lines(lines)


def _count(name: str, rows: int, state: State) -> str:
    """The number of objects; a queue has one row per resource, a node one per card."""
    counts = {"queues": len(state.cluster.queues), "nodes": len(state.cluster.nodes.nodes)}
    count = counts.get(name, rows)
    return f"{count:,}" if count == rows else f"{count:,} ({rows:,} rows)"


_COLUMNS: Final = {
    "queues": (
        *("queue", "resource", "capability", "guarantee", "deserved"),
        *("allocated", "inqueue", "request", "elastic"),
    ),
    "nodes": (
        *("node", "pods", "free cpu", "free memory", "card", "resource"),
        *("total", "healthy", "allocated", "free"),
    ),
    "devices": tuple(one.replace("_", " ") for one in DEVICE.column_names),
    "pod_groups": (
        *("pod group", "queue", "phase", "min", "bound", "wanted", "priority", "since", "code"),
    ),
    "pods": ("pod", "pod group", "status", "node", "cards", "devices"),
}
"""Headers of the tables in text."""


def _shown(name: str, row: Mapping[str, Any], start_ns: int) -> tuple[Cell, ...]:
    """Return a row as text shows it."""
    match name:
        case "queues":
            queue, resource, capability, *amounts = row.values()
            most = "none" if capability is None else amount_cell(resource, capability)
            return (queue, resource, most, *(amount_cell(resource, one) for one in amounts))
        case "nodes":
            node, pods, cpu, memory, *card = row.values()
            return (node, pods, amount_cell("cpu", cpu), amount_cell("memory", memory), *card)
        case "pod_groups":
            *cells, since_ns, code = row.values()
            return (*cells, format_time(since_ns, start_ns), code)
        case "pods":
            cards = ", ".join(f"{amount} {card}" for card, amount in row["cards"].items())
            shown = (row["pod"], row["pod_group"], row["status"], row["node"])
            return (*shown, cards, ", ".join(row["devices"]))
        case _:
            return tuple(row.values())
