"""`muster topology`: the network, with what is on it."""

from collections.abc import Iterator, Sequence
from typing import Any

import click

from daemon.cli.output import (
    Line,
    at_option,
    counted,
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
from daemon.queries.topology import topology_document
from projections.state import State
from replay.log_time import LogTime

SHOWN_MAX = 40
"""Nodes of a switch or SuperPoD, and names, that text shows; JSON has all."""

JOBS_MAX = 4
"""Jobs that a line of text names."""

Part = dict[str, Any]


@click.command()
@log_argument
@at_option
@click.option("--brief", is_flag=True, help="Show no single nodes.")
@output_option
@watch_option
def topology(log: str, at: LogTime | None, brief: bool, as_json: bool) -> None:
    """Draw the network: leaf switches, SuperPoDs and HyperNodes, with free cards and jobs of each.

    A node of a leaf switch has its position in front. The state of a switch is what it is for jobs that
    are placed by leaf switches: idle, shared or exclusive.

    Examples:

    \b
        muster topology demo.db
        muster topology demo.db --at 500 --brief
        muster topology demo.db --at -5m
    """

    async def ask(opened: ReadableLog) -> tuple[str, State]:
        return opened.place, await state_at(opened, at)

    place, found = ask_log(log, ask)
    document: Part = topology_document(found)
    if as_json:
        print_json({"log": place, **document})
        return
    lines: list[Line] = [f"{place} at position {found.position:,}"]
    for title, parts, name_of in (
        ("leaf switches", document["switches"], _switch),
        ("SuperPoDs", document["super_pods"], _super_pod),
        ("HyperNodes", document["hyper_nodes"], _hyper_node),
    ):
        if parts:
            lines += ["", heading(f"{title}: {len(parts):,}")]
        for one in parts:
            has_nodes = not brief and title != "HyperNodes"
            lines += _drawn(name_of(one), one["nodes"], has_nodes=has_nodes)
    elsewhere = document["elsewhere"]
    if elsewhere:
        names = ", ".join(elsewhere[:SHOWN_MAX])
        more = f" and {len(elsewhere) - SHOWN_MAX:,} more" if len(elsewhere) > SHOWN_MAX else ""
        lines += ["", f"{counted(len(elsewhere), 'node')} in none of them: {names}{more}"]
    print_lines(lines)


def _switch(one: Part) -> str:
    health = "" if one["healthy"] else ", unhealthy"
    return f"{one['switch']}  {one['state']}{health}"


def _super_pod(one: Part) -> str:
    return f"SuperPoD {one['super_pod']}"


def _hyper_node(one: Part) -> str:
    above = f" in {', '.join(one['in'])}" if one["in"] else ""
    return f"{one['hyper_node']}  tier {one['tier']}{above}"


def _drawn(name: str, nodes: Sequence[Part], *, has_nodes: bool) -> Iterator[Line]:
    jobs = list(dict.fromkeys(job for node in nodes for job in node["jobs"]))
    yield f"  {name}: {counted(len(nodes), 'node')}{_free(nodes)}{_jobs(sorted(jobs))}"
    if not has_nodes or not nodes:
        return
    shown = nodes[:SHOWN_MAX]
    rows = [
        [
            str(node.get("position", "")),
            node["node"],
            _cards([node]),
            ", ".join(node["jobs"][:JOBS_MAX]),
        ]
        for node in shown
    ]
    yield from table(("", "node", "free", "jobs"), rows, indent="      ")
    if len(shown) < len(nodes):
        yield f"      ... and {len(nodes) - len(shown):,} more"


def _free(nodes: Sequence[Part]) -> str:
    text = _cards(nodes)
    return f", {text} free" if text else ""


def _cards(nodes: Sequence[Part]) -> str:
    """Return how many cards are free, of how many, by card."""
    sums: dict[str, list[int]] = {}
    for node in nodes:
        for card in node["cards"]:
            both = sums.setdefault(card["card"], [0, 0])
            both[0] += card["free"]
            both[1] += card["total"]
    return ", ".join(f"{free:,}/{total:,} {name}" for name, (free, total) in sorted(sums.items()))


def _jobs(jobs: Sequence[str]) -> str:
    if not jobs:
        return ""
    more = f" and {len(jobs) - JOBS_MAX} more" if len(jobs) > JOBS_MAX else ""
    return f", {', '.join(jobs[:JOBS_MAX])}{more}"
