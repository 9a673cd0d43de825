"""`muster reduce`: the smallest scenario that still shows a divergence, a decision, a wait or an error."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import click
from msgspec import Struct, structs

from daemon.cli.inputs import read_duration, read_policy
from daemon.cli.output import (
    AS_FROM,
    counted,
    log_argument,
    moment_option,
    output_option,
    print_document,
    print_json,
    print_lines,
    progress,
)
from daemon.clock import WallClock
from daemon.log.contract import ReadableLog
from daemon.log.memory import MemoryLog
from daemon.log.opening import ask_log
from daemon.private_files import write_whole
from daemon.queries.moments import stretch as positions
from daemon.queries.reduce import (
    Search,
    StartingPoint,
    Stretch,
    reduce_objects,
    reduce_timeline,
    starting_point,
    timeline_of,
)
from daemon.queries.replay import check_stretch
from daemon.simulation import SCHEDULER_NAMES, simulate
from daemon.version import VERSION
from events.codec import event_of
from events.decision import Decision
from events.duration import format_duration
from events.errors import DocumentError, MusterError, UsageError
from replay.log_time import LogTime
from scheduling.decide import DECIDER
from simulator.log_timeline import TimedChange, timeline_scenario
from simulator.reduce_condition import Condition, parse_condition
from simulator.reduce_target import CycleOutcome, Target, shows
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
@moment_option("--from", "Look for it from this moment on.", "first")
@moment_option("--to", "Look for it up to this moment.", "last", forms=AS_FROM)
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
    first: LogTime | None,
    last: LogTime | None,
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

    Where one cycle does not show it, the changes of the log from outside are simulated, and fewer and fewer of them.
    The exit code is 1 if the log does not show the condition, or neither does.

    Examples:

    \b
        muster reduce demo.db
        muster reduce demo.db --keep 'decision kind=evict' --out evicted.yaml
        muster reduce demo.db --keep 'pending pod_group=ml/b' --to 5000
        muster reduce demo.db --keep 'decision pod=ml/a-3' --from 10:00 --to 10:30
    """
    condition = parse_condition(keep)
    limit_ns = read_duration("--time-limit", time_limit)
    if out is not None and out.exists() and not force:
        raise UsageError(f"{out} is there already; --force replaces it")
    if out is not None and not out.parent.is_dir():
        raise UsageError(f"{out}: there is no folder {out.parent}")
    content = read_policy(policy) if policy is not None else None
    pinned = [_subject(one) for one in pins]
    clock = WallClock()
    began = clock.elapsed_ns()

    def is_over() -> bool:
        return clock.elapsed_ns() - began > limit_ns

    async def ask(found: ReadableLog) -> tuple[StartingPoint, Stretch]:
        begin, end = await positions(found, first, last)
        check_stretch(found, begin, end)
        stretch = Stretch(begin or 1, end or found.head.position, content)
        with progress("read", total=stretch.last) as shown:
            start = await starting_point(found, condition, stretch, SCHEDULER_NAMES, shown)
        if start is None:
            raise NotShownError(f"{found.place}: nothing there shows `{condition.text}`")
        return start, stretch

    start, stretch = ask_log(log, ask)
    with progress("objects", total=len(start.objects)) as changed:
        search = reduce_objects(start, pinned, SCHEDULER_NAMES, is_over, changed)
    if search.reduced is not None:
        result = _of_objects(condition, start, search)
    else:
        result = _of_timeline(log, condition, start, stretch, is_over)
    if not _is_shown_by_simulate(result):
        raise NotShownError(
            f"{start.place}: {counted(result.after, result.unit)} show `{condition.text}` in a trial, but not in "
            "`muster simulate`"
        )
    _print(condition, start, result, out, clock.elapsed_ns() - began, as_json=as_json)
    return 0


def _is_shown_by_simulate(result: "_Result") -> bool:
    """Return True if the text of a scenario shows the target when it is run. Raise NotShownError if it cannot be read."""
    try:
        scenario = parse_scenario(result.text, "the reduced scenario")
    except DocumentError as error:
        raise NotShownError(f"no scenario can be made of objects of this log: {error}") from error
    return shows(structs.replace(result.target, is_error=False), _simulated(scenario))


def _subject(text: str) -> str:
    """Return `Node//n1` for `Node/n1`."""
    kind, *names = text.split("/")
    if len(names) not in (1, 2) or not all((kind, *names)):
        raise UsageError(f"--pin {text}: an object is named as Node/n1 or Pod/ml/a-0")
    return f"{kind}/{'/'.join(['', *names][-2:])}"


class _Result(Struct, frozen=True):
    """A reduced scenario."""

    text: str
    target: Target
    unit: str
    """What was counted: `object` or `change`."""
    before: int
    after: int
    subjects: list[str]
    trials: int
    is_complete: bool


def _of_objects(condition: Condition, start: StartingPoint, search: Search) -> _Result:
    """Return the scenario of one cycle over the objects that were found."""
    reduced = search.reduced
    assert reduced is not None
    before, after = len(start.objects), len(reduced.objects)
    count = f"{after} of the {before:,} objects that were there, after {counted(search.trials, 'trial')}"
    scenario = Scenario(
        name="reduce", cycles=1, cluster=tuple(one.located for one in reduced.objects)
    )
    return _Result(
        _text(condition, start, search.target, scenario, count, is_complete=reduced.is_complete),
        search.target,
        "object",
        before,
        after,
        [one.subject for one in reduced.objects],
        search.trials,
        reduced.is_complete,
    )


def _of_timeline(
    log: str,
    condition: Condition,
    start: StartingPoint,
    stretch: Stretch,
    is_over: Callable[[], bool],
) -> _Result:
    """Return the scenario of the changes that led to the condition. Raise NotShownError if a simulation does not."""

    async def ask(found: ReadableLog) -> tuple[list[TimedChange], int]:
        with progress("read changes", total=start.cycle) as shown:
            return await timeline_of(found, start, stretch, SCHEDULER_NAMES, shown)

    changes, until_ns = ask_log(log, ask)
    with progress("changes", total=len(changes)) as changed:
        search = reduce_timeline(start, changes, until_ns, _simulated, is_over, changed)
    if search.changes is None:
        reason = "" if search.is_complete else "; the time limit ended the search"
        raise NotShownError(
            f"{start.place}: `{condition.text}` is shown at position {start.position}, but neither by a cycle over the "
            f"{counted(len(start.objects), 'object')} that were there nor by a simulation of the "
            f"{counted(len(changes), 'change')} before{reason}"
        )
    before, after = len(changes), len(search.changes)
    count = (
        f"{after} of the {before:,} changes before, after {counted(search.trials, 'trial')}: one cycle over the objects "
        "that were there does not show it"
    )
    scenario = timeline_scenario(search.changes, start.period_ns, until_ns, start.policy)
    subjects = list(dict.fromkeys(one.subject for one in search.changes))
    return _Result(
        _text(condition, start, search.target, scenario, count, is_complete=search.is_complete),
        search.target,
        "change",
        before,
        after,
        subjects,
        search.trials,
        search.is_complete,
    )


def _text(
    condition: Condition,
    start: StartingPoint,
    target: Target,
    scenario: Scenario,
    count: str,
    *,
    is_complete: bool,
) -> str:
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
    comments.append(count)
    if not is_complete:
        comments.append("The time limit ended the search: fewer may do.")
    sentence = f"{condition.text}, at position {start.position}"
    return scenario_text(sentence, comments, scenario, bytes(start.policy.policy), target)


def _simulated(scenario: Scenario) -> CycleOutcome:
    """Run a scenario as `muster simulate` does, and return its decisions and State at the end."""

    async def run() -> CycleOutcome:
        log = MemoryLog()
        simulated = await simulate(scenario, log, with_views=False)
        events = [event_of(one.record) async for entries in log.read() for one in entries]
        decisions = tuple(one for one in events if isinstance(one, Decision))
        return CycleOutcome(simulated.state, decisions)

    try:
        return asyncio.run(run())
    except (
        ExceptionGroup
    ):  # of the tasks of the loop: a part of a log need not be a scenario that ends
        return CycleOutcome(None, is_bug=True)


def _print(
    condition: Condition,
    start: StartingPoint,
    result: _Result,
    out: Path | None,
    elapsed_ns: int,
    *,
    as_json: bool,
) -> None:
    if out is not None:
        write_whole(out, result.text)
    if as_json:
        print_json(
            {
                "log": start.place,
                "condition": condition.text,
                "position": start.position,
                "cycle": start.cycle,
                "reduced": f"{result.unit}s",
                "before": result.before,
                "after": result.after,
                "objects": result.subjects,
                "trials": result.trials,
                "is_complete": result.is_complete,
                "elapsed_seconds": round(elapsed_ns / 1_000_000_000, 3),
                "file": None if out is None else str(out),
                "scenario": result.text,
            }
        )
        return
    if out is None:
        print_document(result.text)
    summary = (
        f"{counted(result.before, result.unit)} reduced to {result.after} in "
        f"{counted(result.trials, 'trial')}, {format_duration(elapsed_ns)}"
    )
    if out is not None:
        summary = f"{out}: {summary}"
    if not result.is_complete:
        summary += "; the time limit ended the search"
    print_lines([summary], to_stderr=out is None)
