"""`muster state`: what was true at a position of a log."""

import asyncio

import click
import msgspec

from daemon.cli.output import (
    Cell,
    Line,
    heading,
    log_argument,
    output_option,
    print_json,
    print_lines,
    table,
)
from daemon.fold import fold
from daemon.log.opening import open_log
from events.errors import UsageError
from events.record import GENESIS
from projections.state import State
from projections.views import now
from projections.views.catalogue import NODE_CARD, POD_GROUP, QUEUE_QUOTA, TOPOLOGY_NODE
from projections.views.rows import Row, View

SHOWN_MAX = 40
"""Rows a table shows in text; JSON has all."""


@click.command()
@log_argument
@click.option("--at", type=int, metavar="P", help="The position; by default the end of the log.")
@click.option("--all", "everything", is_flag=True, help="Every row, however many there are.")
@output_option
def state(log: str, at: int | None, everything: bool, as_json: bool) -> None:
    """What was true at a position: queues, nodes with their cards, pod groups, pods.

    Columns are those of the views in SQL: cpu in milli, memory in bytes, cards as cards. A queue has a
    row for each resource, a node for each card.

    Examples:

    \b
        muster state demo.db
        muster state demo.db --at 500 --output json
    """
    place, found = asyncio.run(_state_at(log, at))
    document = as_document(found)
    if as_json:
        print_json({"log": place, **document})
        return
    lines: list[Line] = [f"{place} at position {found.position:,}"]
    for name in ("queues", "nodes", "pod_groups", "pods"):
        rows = document[name]
        assert isinstance(rows, list)
        count = _count(name, len(rows), found)
        lines += ["", heading(f"{name.replace('_', ' ')}: {count}")]
        if rows:
            shown = rows if everything else rows[:SHOWN_MAX]
            lines += table(tuple(rows[0]), [[_cell(one) for one in row.values()] for row in shown])
            if len(shown) < len(rows):
                lines.append(f"  ... and {len(rows) - len(shown):,} more (--all shows them)")
    print_lines(lines)


async def _state_at(url: str, at: int | None) -> tuple[str, State]:
    log = await open_log(url)
    try:
        end = log.head.position
        if log.base != GENESIS:
            raise UsageError(
                f"{log.place} begins behind position {log.base.position}: what led there is missing"
            )
        if at is not None and not 0 <= at <= end:
            raise UsageError(f"--at {at}: {log.place} ends at position {end}")
        return log.place, await fold(log, at)
    finally:
        await log.close()


def as_document(state: State) -> dict[str, object]:
    """State as rows with the columns of the views."""
    cluster = state.cluster
    nodes = sorted(cluster.nodes.nodes)
    topology = {name: _rows(TOPOLOGY_NODE, now.topology_rows(cluster, name)) for name in nodes}
    return {
        "position": state.position,
        "cycle": state.cycle,
        "policy": state.policy_position,
        "commitments": len(state.commitments),
        "queues": [
            row
            for name in sorted(cluster.queues)
            for row in _rows(QUEUE_QUOTA, now.queue_rows(cluster, name))
        ],
        "nodes": [row for name in nodes for row in _node(state, name)],
        "topology": [row for name in nodes for row in topology[name]],
        "pod_groups": [
            row
            for key in sorted(cluster.groups)
            for row in _rows(POD_GROUP, now.group_rows(cluster, key))
        ],
        "pods": [
            {
                "pod": pod.key,
                "uid": uid,
                "pod_group": pod.group_key,
                "status": pod.status,
                "node": pod.node,
                "cards": msgspec.json.decode(now.cards_of(cluster, pod)),
            }
            for uid, pod in sorted(cluster.pods.items(), key=lambda item: (item[1].key, item[0]))
        ],
    }


def _count(name: str, rows: int, state: State) -> str:
    """How many there are; a queue has a row for each of its resources, a node for each of its cards."""
    counts = {"queues": len(state.cluster.queues), "nodes": len(state.cluster.nodes.nodes)}
    count = counts.get(name, rows)
    return f"{count:,}" if count == rows else f"{count:,} ({rows:,} rows)"


def _node(state: State, name: str) -> list[dict[str, Cell]]:
    """A row for each card of the node: whole cards, MPS shares, MIG slices; one row without any."""
    node = state.cluster.nodes.nodes[name]
    cards = _rows(NODE_CARD, now.card_rows(state.cluster, name))
    return [
        {
            "node": name,
            "pods": len(node.pods),
            "cpu_free": node.allocatable("cpu") - node.occupied.get("cpu", 0),
            "memory_free": node.allocatable("memory") - node.occupied.get("memory", 0),
            **{column: card[column] for column in NODE_CARD.column_names if column != "node"},
        }
        for card in cards or [dict.fromkeys(NODE_CARD.column_names)]
    ]


def _cell(value: Cell | dict[str, int]) -> Cell:
    if isinstance(value, dict):
        return ", ".join(f"{amount} {card}" for card, amount in value.items())
    return value


def _rows(view: View, rows: list[Row]) -> list[dict[str, Cell]]:
    return [dict(zip(view.column_names, row, strict=True)) for row in rows]
