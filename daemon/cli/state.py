"""`muster state`: what was true at a position of a log."""

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
from daemon.queries.state import state_document
from projections.state import State
from replay.log_time import LogTime

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

    Columns are those of the views in SQL: cpu in milli, memory in bytes, cards as cards. A queue has a
    row for each resource, a node for each card.

    Examples:

    \b
        muster state demo.db
        muster state demo.db --at 500 --output json
    """

    async def ask(opened: ReadableLog) -> tuple[str, State]:
        return opened.place, await state_at(opened, at)

    place, found = ask_log(log, ask)
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
            lines += table(tuple(rows[0]), [[_cell(one) for one in row.values()] for row in shown])
            if len(shown) < len(rows):
                lines.append(f"  ... and {len(rows) - len(shown):,} more (--all shows them)")
    print_lines(lines)


def _count(name: str, rows: int, state: State) -> str:
    """The number of objects; a queue has one row per resource, a node one per card."""
    counts = {"queues": len(state.cluster.queues), "nodes": len(state.cluster.nodes.nodes)}
    count = counts.get(name, rows)
    return f"{count:,}" if count == rows else f"{count:,} ({rows:,} rows)"


def _cell(value: Cell | dict[str, int] | tuple[str, ...]) -> Cell:
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, dict):
        return ", ".join(f"{amount} {card}" for card, amount in value.items())
    return value
