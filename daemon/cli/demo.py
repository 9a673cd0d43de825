"""`muster demo`: schedule a real cluster's inventory and mix, and leave the log for other commands."""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Final

import click
from msgspec import Struct

from daemon.cli.inputs import complete
from daemon.cli.output import (
    Line,
    counted,
    heading,
    output_option,
    print_json,
    print_lines,
    progress,
    table,
    verdict,
)
from daemon.cli.simulate import Run, cards_per_model, run_scenario
from daemon.log.contract import ReadableLog
from daemon.log.opening import ask_log, open_database
from daemon.log.store import Asked
from daemon.log.verify import Verified
from daemon.log.verify import verify as verify_log
from daemon.queries.replay import Replayed, replay_log
from daemon.queries.why import why
from daemon.simulation import HOLDER
from events.cluster import ObjectObserved
from events.codec import event_of
from events.daemon import DaemonStarted
from events.errors import UsageError
from replay.why_text import lines_of
from simulator.scenario import parse_scenario

LOG: Final = "demo.db"

SCENARIO: Final = """
scenario: "openb: a production cluster while it fills up"
workload: openb
until: 120s
"""

QUERY: Final = """\
select resource as card, capability as quota, allocated, request as asked
  from queue_quota where queue = 'ls' and resource not in ('cpu', 'memory')
 order by allocated desc, resource limit 5"""
"""What one queue may use, uses and asks for, as an SQL query."""

TRIED: Final = "select * from queue_quota"

WHY_LINES: Final = 24
NODE_PREFIX: Final = "openb-node-"
"""The prefix of node names in the demo's workload."""

SPREAD: Final = Path("docs/examples/spread.yaml")


class Shown(Struct, frozen=True):
    """The results of the demo."""

    run: Run
    verified: Verified
    replayed: Replayed
    subject: str
    why: list[str]
    asked: Asked

    @property
    def placed(self) -> int:
        """Bound pods."""
        return sum(1 for pod in self.run.simulated.state.cluster.pods.values() if pod.node)

    @property
    def waiting(self) -> int:
        """Pending pods."""
        return len(self.run.simulated.state.cluster.pods) - self.placed


@click.command()
@click.option("--log", "url", metavar="LOG", default=LOG, show_default=True, help="A new log.")
@click.option("--force", is_flag=True, help="Replace the log of an earlier demo.")
@output_option
def demo(url: str, force: bool, as_json: bool) -> int:
    """Schedule a production cluster's inventory and pod mix, and show what can be asked of the log.

    The daemon's own loop writes a real log; the cluster and its clock are simulated. The counts are those
    of a published trace (openb, Alibaba, 2023). The log is kept for the other commands; that of an earlier
    demo is replaced only with --force, and any other file never.

    Example:

    \b
        muster demo && muster tell demo.db --to 100
    """
    path = Path(url)
    is_replaced = "://" not in url and path.suffix != ".muster" and _is_there(path)
    if is_replaced:
        _check_replaceable(path, force=force)
    return asyncio.run(_demo(url, is_replaced=is_replaced, as_json=as_json))


async def _demo(url: str, *, is_replaced: bool, as_json: bool) -> int:
    loaded = complete(parse_scenario(SCENARIO, "demo"), Path())
    assert loaded.notes is not None
    say = _say if not as_json else _say_nothing
    nodes, pods = counted(loaded.notes.nodes, "node"), counted(loaded.notes.pods, "pod")
    say(f"openb, a published production cluster: {nodes}, {pods} that arrive within two minutes")
    if is_replaced:
        say(f"{url}, the log of an earlier demo, is replaced")
    say(f"scheduling it with the daemon's loop into {url} ...")
    run = await run_scenario(loaded, url, replaces=is_replaced)
    log = await open_database(url)
    try:
        say("checking the chain of the log ...")
        with progress("verify", total=log.head.position) as bar:
            verified = await verify_log(log, bar)
        say("deciding all of it again ...")
        with progress("replay", total=log.head.position) as bar:
            replayed = await replay_log(log, progress=bar)
        subject = _one_that_waits(run)
        say(f"asking why {subject} waits ...")
        answer = await why(log, subject)
        asked = await log.ask(QUERY)
    finally:
        await log.close()
    shown = Shown(run, verified, replayed, subject, lines_of(answer), asked)
    if as_json:
        print_json(_document(shown))
    else:
        print_lines(["", *_report(shown, url)])
    return 0 if replayed.divergence is None else 1


def _say(text: str) -> None:
    print_lines([text])


def _say_nothing(text: str) -> None:
    """The report is one JSON document."""


def _is_there(path: Path) -> bool:
    """Return True if a file has content; an empty one is what a command left that was stopped at its begin."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def _check_replaceable(path: Path, *, force: bool) -> None:
    """Raise UsageError unless a file is the log of an earlier demo and may be replaced."""
    if not ask_log(str(path), _is_of_a_demo):
        raise UsageError(f"{path} is a log that no demo wrote: name another with --log")
    if not force:
        raise UsageError(
            f"{path}, the log of an earlier demo, is there already: --force replaces it, or name "
            "another with --log"
        )


async def _is_of_a_demo(log: ReadableLog) -> bool:
    """Return True if a log is that of a simulation whose first node is the demo's, or that holds no object yet."""
    has_objects = False
    async for entries in log.read():
        for entry in entries:
            event = event_of(entry.record)
            if isinstance(event, DaemonStarted) and event.holder != HOLDER:
                return False
            if isinstance(event, ObjectObserved) and entry.record.subject.startswith("Node/"):
                return entry.record.subject.startswith(f"Node//{NODE_PREFIX}")
            if entry.record.object is not None:
                has_objects = True
    return not has_objects


def _one_that_waits(run: Run) -> str:
    """The first pod, by name, that no node fits; else the first pod."""
    cluster = run.simulated.state.cluster
    keys = sorted(pod.key for pod in cluster.pods.values())
    refused = [
        pod.key
        for group in cluster.groups.values()
        if any(one.code == "NotEnoughResources" for one in group.decided.refusals.values())
        for pod in group.pods.values()
    ]
    return min(refused, default=keys[0])


def _report(shown: Shown, url: str) -> list[Line]:
    simulated, counts = shown.run.simulated, shown.replayed.replay.counts
    is_equal = shown.replayed.divergence is None
    head = simulated.head
    chain = (
        f"{counted(shown.verified.batches, 'batch', 'batches')}, "
        f"{counted(shown.verified.objects, 'object')}"
    )
    decided_again = (
        f"{counted(counts.records, 'record')}, digest {shown.replayed.replay.head.digest}"
    )
    lines: list[Line] = [
        heading("what came of it"),
        f"  pods       {shown.placed:,} placed, {shown.waiting:,} waiting",
        f"  decisions  {counts.decisions:,} in {counted(counts.cycles, 'cycle')}",
        f"  log        position {head.position}, digest {head.digest}",
        ("  chain      ", verdict(True, "sound", ""), f": {chain}"),
        ("  replay     ", verdict(is_equal, "equal", "not equal"), f": {decided_again}"),
        "",
        *table(("card", "there", "allocated", "free"), cards_per_model(simulated.state)),
    ]
    notes = shown.run.loaded.notes
    if notes is not None and notes.shares:
        lines.append(
            f"  ({notes.shares:,} pods ask for a fraction of a card: each counts as a whole card)"
        )
    lines += ["", heading(f"why {shown.subject}"), *_shortened(shown.why), ""]
    lines += [heading("what the queue `ls` uses, in SQL"), *QUERY.splitlines(), ""]
    lines += [*table(shown.asked.columns, shown.asked.rows), "", *_next(shown, url)]
    return lines


def _shortened(lines: list[str]) -> list[str]:
    if len(lines) <= WHY_LINES:
        return lines
    return [*lines[:WHY_LINES], f"  ... and {len(lines) - WHY_LINES} lines more"]


def _next(shown: Shown, url: str) -> list[Line]:
    """Commands to try on the log."""
    me, end = _program(), shown.run.simulated.head.position
    bound = next(p.key for p in shown.run.simulated.state.cluster.pods.values() if p.node)
    lines: list[Line] = [
        heading("what to try next"),
        f"  {me} why {bound} --log {url}",
        f"  {me} tell {url} --from {end // 2} --to {end // 2 + 30}",
        f"  {me} state {url} --at {end // 2}",
    ]
    if SPREAD.exists():
        lines.append(f"  {me} replay {url} --policy {SPREAD}")
    if shutil.which("sqlite3") and "://" not in url:
        lines.append(f'  sqlite3 -readonly {url} "{TRIED}"')
    lines.append(f"  {me} --help")
    return lines


def _program() -> str:
    """The command as the user types it."""
    if shutil.which("muster"):
        return "muster"
    called = Path(sys.argv[0])
    if called.name != "muster":
        return "python -m daemon"
    here = Path.cwd()
    return str(called.relative_to(here) if called.is_relative_to(here) else called)


def _document(shown: Shown) -> dict[str, object]:
    simulated, replayed = shown.run.simulated, shown.replayed
    return {
        "pods": {"placed": shown.placed, "waiting": shown.waiting},
        "cards": {
            card: {"there": there, "allocated": allocated, "free": free}
            for card, there, allocated, free in cards_per_model(simulated.state)
        },
        "decisions": replayed.replay.counts.decisions,
        "cycles": replayed.replay.counts.cycles,
        "log": {"position": simulated.head.position, "digest": simulated.head.digest},
        "chain": "sound",
        "replay": "equal" if replayed.divergence is None else "not equal",
        "why": {"subject": shown.subject, "lines": shown.why},
        "sql": {
            "query": QUERY,
            "rows": [dict(zip(shown.asked.columns, row, strict=True)) for row in shown.asked.rows],
        },
    }
