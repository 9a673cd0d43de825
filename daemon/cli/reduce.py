"""`muster reduce`: the smallest scenario that still shows a divergence, a decision, a wait or an error."""

import asyncio
from pathlib import Path

import click
from msgspec import structs

from daemon.cli.inputs import read_policy
from daemon.cli.output import (
    counted,
    log_argument,
    output_option,
    print_json,
    print_lines,
    progress,
)
from daemon.clock import WallClock
from daemon.log.contract import ReadableLog
from daemon.log.memory import MemoryLog
from daemon.log.opening import ask_log
from daemon.private_files import private_opener
from daemon.queries.reduce import (
    Search,
    StartingPoint,
    Stretch,
    reduce_objects,
    starting_point,
)
from daemon.queries.replay import check_stretch
from daemon.simulation import SCHEDULER_NAMES, simulate
from daemon.version import VERSION
from events.codec import event_of
from events.decision import Decision
from events.errors import MusterError, UsageError
from projections.duration import format_duration, nanoseconds
from scheduling.decide import DECIDER
from simulator.reduce_condition import Condition, parse_condition
from simulator.reduce_target import CycleOutcome, shows
from simulator.reduced_scenario import item_text, scenario_text
from simulator.scenario import Scenario, parse_scenario


class NotShownError(MusterError):
    """The log does not show the condition, or no scenario does."""

    exit_code = 1


@click.command()
@log_argument
@click.option(
    "--keep",
    "keep",
    default="divergence",
    show_default=True,
    metavar="CONDITION",
    help="What the scenario must still show: divergence, decision, pending or error, with KEY=VALUE.",
)
@click.option("--from", "first", type=int, metavar="P", help="Look for it from this position on.")
@click.option("--to", "last", type=int, metavar="P", help="Look for it up to this position.")
@click.option(
    "--policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Decide under this policy instead of the recorded one, as in `muster replay`.",
)
@click.option(
    "--pin",
    "pins",
    multiple=True,
    metavar="SUBJECT",
    help="Never remove this object, such as Node/n1 or Pod/ml/a-0. May be repeated.",
)
@click.option(
    "--time-limit",
    default="5m",
    show_default=True,
    metavar="TIME",
    help="End the search after this time, with the smallest scenario found.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write it there.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@output_option
def reduce(
    log: str,
    keep: str,
    first: int | None,
    last: int | None,
    policy: Path | None,
    pins: tuple[str, ...],
    time_limit: str,
    out: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Reduce a log to the smallest scenario that still shows a condition.

    The first cycle of the log that shows it is held again over fewer and fewer of the objects that were there (delta
    debugging). The scenario is run by the simulator before it is printed. What `expect` says of a divergence is the
    recorded decision, so `muster simulate` exits with 1 as long as muster decides otherwise.

    \b
    CONDITION is one of
        divergence [KEY=VALUE...]   a decision differs from the record
        decision KEY=VALUE...       a decision with these fields is recorded
        pending KEY=VALUE...        a pod group waits at the end
        error [KEY=VALUE...]        deciding raised an exception (InternalError)
    with the keys kind, pod, pod_group, queue, node, code, in_favour_of, message.

    The exit code is 1 if the log does not show the condition, or no scenario of one cycle does.

    Examples:

    \b
        muster reduce demo.db
        muster reduce demo.db --keep 'decision kind=evict pod=ml/a-3' --out evicted.yaml
        muster reduce demo.db --keep 'pending pod_group=ml/b code=NotEnoughResources' --to 5000
    """
    condition = parse_condition(keep)
    limit_ns = _limit(time_limit)
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} is there already; --force replaces it")
    content = read_policy(policy) if policy is not None else None
    pinned = [_subject(one) for one in pins]
    clock = WallClock()
    began = clock.elapsed_ns()

    async def ask(found: ReadableLog) -> StartingPoint | None:
        check_stretch(found, first, last)
        stretch = Stretch(first or 1, last or found.head.position, content)
        with progress("read", total=stretch.last) as shown:
            return await starting_point(found, condition, stretch, SCHEDULER_NAMES, shown)

    start = ask_log(log, ask)
    if start is None:
        raise NotShownError(f"{log}: nothing there shows `{condition.text}`")
    with progress("objects", total=len(start.objects)) as changed:
        search = reduce_objects(
            start,
            pinned,
            SCHEDULER_NAMES,
            lambda: clock.elapsed_ns() - began > limit_ns,
            changed,
        )
    if search.reduced is None:
        raise NotShownError(
            f"{start.place}: `{condition.text}` is shown at position {start.position}, but not by a cycle over the "
            f"{counted(len(start.objects), 'object')} that were there: it depends on what happened before"
        )
    text = _text(condition, start, search)
    scenario = parse_scenario(text, str(out or "the reduced scenario"))
    if not shows(structs.replace(search.target, is_error=False), _simulated(scenario)):
        raise NotShownError(
            f"{start.place}: {counted(len(search.reduced.objects), 'object')} show `{condition.text}` in a trial, but "
            "not in `muster simulate`"
        )
    elapsed_ns = clock.elapsed_ns() - began
    _print(condition, start, search, text, out, elapsed_ns, as_json=as_json)
    return 0


def _limit(text: str) -> int:
    try:
        return nanoseconds(text)
    except ValueError as error:
        raise UsageError(f"--time-limit: {error}") from error


def _subject(text: str) -> str:
    """Return `Node//n1` for `Node/n1`."""
    kind, *names = text.split("/")
    if len(names) not in (1, 2) or not all((kind, *names)):
        raise UsageError(f"--pin {text}: an object is named as Node/n1 or Pod/ml/a-0")
    return f"{kind}/{'/'.join(['', *names][-2:])}"


def _text(condition: Condition, start: StartingPoint, search: Search) -> str:
    reduced = search.reduced
    assert reduced is not None
    target = search.target
    comments = [
        f"Made by `muster reduce` {VERSION} (decider version {DECIDER}) out of {start.place}.",
        f"Kept: {condition.text}",
        f"Position {start.position}, in the cycle at position {start.cycle}: {start.what}",
    ]
    if target.recorded is not None or target.decided is not None:
        comments.append(f"recorded: {item_text(target.recorded)}")
        comments.append(f"decided now: {item_text(target.decided)}")
    if start.decider not in (0, DECIDER):
        comments.append(f"The cycle was recorded by decider version {start.decider}.")
    before, after = len(start.objects), len(reduced.objects)
    comments.append(
        f"{after} of the {before:,} objects that were there, after {search.trials} trials"
    )
    if not reduced.is_complete:
        comments.append("The time limit ended the search: fewer objects may do.")
    return scenario_text(
        f"{condition.text}, at position {start.position}",
        comments,
        bytes(start.policy.policy),
        [one.located for one in reduced.objects],
        target,
    )


def _simulated(scenario: Scenario) -> CycleOutcome:
    """Run a scenario as `muster simulate` does, and return its decisions and State at the end."""

    async def run() -> CycleOutcome:
        log = MemoryLog()
        simulated = await simulate(scenario, log, with_views=False)
        events = [event_of(one.record) async for entries in log.read() for one in entries]
        decisions = tuple(one for one in events if isinstance(one, Decision))
        return CycleOutcome(simulated.state, decisions)

    return asyncio.run(run())


def _print(
    condition: Condition,
    start: StartingPoint,
    search: Search,
    text: str,
    out: Path | None,
    elapsed_ns: int,
    *,
    as_json: bool,
) -> None:
    reduced = search.reduced
    assert reduced is not None
    if out is not None:
        with open(out, "w", encoding="utf-8", opener=private_opener) as file:
            file.write(text)
    if as_json:
        print_json(
            {
                "log": start.place,
                "condition": condition.text,
                "position": start.position,
                "cycle": start.cycle,
                "objects_before": len(start.objects),
                "objects": [one.subject for one in reduced.objects],
                "trials": search.trials,
                "is_complete": reduced.is_complete,
                "elapsed_seconds": round(elapsed_ns / 1_000_000_000, 3),
                "file": None if out is None else str(out),
                "scenario": text,
            }
        )
        return
    if out is None:
        print_lines(text.splitlines())
    summary = (
        f"{counted(len(start.objects), 'object')} reduced to {len(reduced.objects)} in "
        f"{counted(search.trials, 'trial')}, {format_duration(elapsed_ns)}"
    )
    if out is not None:
        summary = f"{out}: {summary}"
    if not reduced.is_complete:
        summary += "; the time limit ended the search"
    print_lines([summary], to_stderr=out is None)
