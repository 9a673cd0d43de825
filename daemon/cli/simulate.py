"""`muster simulate`: run scenarios in virtual time, and compare them with what they expect."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from msgspec import Struct

from daemon import simulation
from daemon.cli.failure import reason_of
from daemon.cli.inputs import load_scenario, scenario_files
from daemon.cli.output import (
    Line,
    Part,
    counted,
    heading,
    output_option,
    print_error,
    print_json,
    print_lines,
    progress,
    table,
    verdict,
)
from daemon.cli.run_report import pace_line, report_lines
from daemon.clock import WallClock
from daemon.log.contract import ReadableLog
from daemon.log.new_log import new_log
from daemon.simulation import SimulationRun
from events.codec import event_of
from events.errors import MusterError, UsageError
from projections.pod_groups import PodGroup
from projections.state import State
from projections.views.now import card_rows
from replay.run_report import RunReport
from simulator.generated_workload import WorkloadSummary
from simulator.result_document import DecisionEntries, ScenarioResult, scenario_result
from simulator.scenario_sources import LoadedScenario

SHOWN_MAX = 10
"""The most waiting pod groups, errors and differences in a text report."""

SECOND = 1_000_000_000


class Run(Struct, frozen=True):
    """A scenario that was run, and its wall-clock time."""

    loaded: LoadedScenario
    simulated: SimulationRun
    result: ScenarioResult
    elapsed_ns: int


@click.command()
@click.argument(
    "scenarios",
    nargs=-1,
    required=True,
    type=click.Path(allow_dash=True, path_type=Path),
    metavar="SCENARIO...",
)
@click.option("--log", "url", metavar="LOG", help="Keep the log there; by default in memory.")
@output_option
def simulate(scenarios: tuple[Path, ...], url: str | None, as_json: bool) -> int:
    """Run scenarios with the daemon's own loop, in virtual time.

    SCENARIO is a file, `-` for standard input, or a folder in which all scenarios are run. The `expect` of a scenario is compared
    with its result; the exit code is 1 if they differ. A scenario that ends in a bug of muster's, exit code
    70, is reported and does not end the others.

    Examples:

    \b
        muster simulate docs/examples/quota.yaml
        muster simulate tests/scenarios --output json | jq .expected
        muster simulate docs/examples/openb.yaml --log openb.db
    """
    files = scenario_files(scenarios)
    if not files:
        raise UsageError(f"{', '.join(map(str, scenarios))}: no scenario there")
    if url is not None and len(files) > 1:
        raise UsageError("--log keeps the log of one scenario, and there are several")
    if len(files) == 1:
        return _simulate(load_scenario(files[0]), url, as_json=as_json)
    codes: list[int] = []
    loaded: list[LoadedScenario] = []
    for file in files:
        with _going_on(file, codes, as_json=as_json, ends=MusterError):
            loaded.append(load_scenario(file))
    for one in loaded:
        with _going_on(one.scenario.source, codes, as_json=as_json):
            codes.append(_simulate(one, url, as_json=as_json))
    return max(codes)


@contextmanager
def _going_on(
    source: Path | str, codes: list[int], *, as_json: bool, ends: type[MusterError] | None = None
) -> Iterator[None]:
    """Report an error, record its exit code, and go on with the other scenarios, unless it `ends` the command."""
    try:
        yield
    except (BrokenPipeError, MemoryError):
        raise
    except Exception as error:
        if ends is not None and isinstance(error, ends):
            raise
        reason, code = reason_of(error)
        codes.append(code)
        if as_json:
            print_json({"scenario": str(source), "error": reason, "expected": False})
        print_error(f"{source}: {reason}")


def _simulate(loaded: LoadedScenario, url: str | None, *, as_json: bool) -> int:
    """Run one scenario and print its result; returns the exit code."""
    run = asyncio.run(run_scenario(loaded, url))
    if as_json:
        print_json(run.result.document)
        _tell_differences(run, err=True)
    else:
        print_lines(report(run, durable=url is not None))
        _tell_differences(run, err=False)
    return 0 if run.result.is_expected else 1


async def run_scenario(loaded: LoadedScenario, url: str | None, *, replaces: bool = False) -> Run:
    """Run a scenario into a new log, and read its decisions from it. `replaces` puts it in the place of an older one."""
    clock = WallClock()
    why = "a simulation begins a new log"
    async with new_log(url or "memory:", why, replaces=replaces) as log:
        with progress("simulate") as shown:
            began = clock.elapsed_ns()
            simulated = await simulation.simulate(
                loaded.scenario, log, with_views=url is not None, progress=shown
            )
            elapsed_ns = clock.elapsed_ns() - began
        replayed = await _read_back(log, simulated)
    return Run(loaded, simulated, replayed, elapsed_ns)


async def _read_back(log: ReadableLog, simulated: SimulationRun) -> ScenarioResult:
    """Return the decisions and the result that a log holds. In a simulation time begins at 0."""
    decisions, account = DecisionEntries(), RunReport()
    async for entries in log.read(after=log.base.position):
        for entry in entries:
            event = event_of(entry.record)
            decisions.add(entry.record, event)
            account.add(entry.record, event, entry.content)
    return scenario_result(
        scenario=simulated.scenario,
        simulated=simulated.cluster,
        head=simulated.head,
        decisions=decisions,
        state=simulated.state,
        account=account.document(simulated.cluster.now_ns),
    )


def report(run: Run, *, durable: bool) -> list[Line]:
    """The result as lines of text and tables."""
    return [
        (heading(run.loaded.scenario.name), *_verdict(run)),
        *_summary(run),
        *_cards(run.simulated.state),
        *_waiting(run.simulated.state),
        *_faults(run.simulated.state),
        *_account(run),
        *_notes(run.loaded.notes),
        *(_saturated(run, durable=durable) if _is_saturated(run) else ()),
        "",
    ]


def _verdict(run: Run) -> tuple[Part, ...]:
    if run.loaded.scenario.expect is None:
        return ()
    return "  ", verdict(run.result.is_expected, "as expected", "not as expected")


def _summary(run: Run) -> Iterator[str]:
    simulated, document = run.simulated, run.result.document
    kinds = Counter(str(entry["kind"]) for entry in _entries(document["decisions"]))
    phases = Counter(pod.status for pod in simulated.state.cluster.pods.values())
    groups = counted(simulated.groups_examined, "pod group")
    yield f"  decisions  {_counts(kinds)}"
    yield f"  pods       {_counts(phases)}"
    yield f"  examined   {counted(simulated.examined, 'node')} for classes of pods, {groups}"
    yield f"  time       {document['at_seconds']} s simulated in {run.elapsed_ns / SECOND:.2f} s"
    yield f"  log        position {simulated.head.position}, digest {simulated.head.digest}"


def _entries(value: object) -> list[dict[str, object]]:
    assert isinstance(value, list)
    return value


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counter.items())) or "none"


def cards_per_model(state: State) -> list[tuple[str, int, int, int]]:
    """Card name, number of cards, allocated, free."""
    sums: dict[str, list[int]] = {}
    for name in state.cluster.nodes.nodes:
        for _, card, _, _, healthy, allocated, free in card_rows(state.cluster, name):
            assert isinstance(healthy, int)
            assert isinstance(allocated, int)
            assert isinstance(free, int)
            entry = sums.setdefault(str(card), [0, 0, 0])
            entry[0] += healthy
            entry[1] += allocated
            entry[2] += free
    return [(card, *_triple(numbers)) for card, numbers in sorted(sums.items())]


def _triple(numbers: list[int]) -> tuple[int, int, int]:
    healthy, allocated, free = numbers
    return healthy, allocated, free


def _cards(state: State) -> Iterator[Line]:
    if rows := cards_per_model(state):
        yield from table(("card", "there", "allocated", "free"), rows)


def _waiting(state: State) -> Iterator[Line]:
    waiting = sorted(
        (_name_of(group), refusal.code, refusal.message)
        for group in state.cluster.groups.values()
        if (refusal := group.main_refusal) is not None
    )
    if waiting:
        yield from table(("waiting", "code", "reason"), waiting[:SHOWN_MAX])
    if len(waiting) > SHOWN_MAX:
        yield f"  ... and {len(waiting) - SHOWN_MAX:,} more"


def _faults(state: State) -> Iterator[Line]:
    """Errors in objects, as they stand at the end."""
    cluster = state.cluster
    found = [
        (f"Queue/{one.name}", *fault) for one in cluster.queues.values() for fault in one.faults
    ]
    for subject, faults in cluster.config_errors.current.items():
        found += [(subject.replace("//", "/"), *fault) for fault in faults]
    if found:
        yield from table(("faults", "code", "message"), sorted(found)[:SHOWN_MAX])
    if len(found) > SHOWN_MAX:
        yield f"  ... and {len(found) - SHOWN_MAX:,} more"


def _name_of(group: PodGroup) -> str:
    """A pod group without an object is named by its pods: its own name is generated."""
    if group.observed.facts is not None or not group.pods:
        return group.key
    first, *more = (pod.key for pod in group.pods.values())
    return f"{first} and {len(more)} more" if more else first


def _notes(notes: WorkloadSummary | None) -> Iterator[str]:
    if notes is not None and notes.origin:
        yield f"  note       {notes.origin}"
    if notes is not None and notes.shares:
        yield (
            f"  note       {counted(notes.shares, 'pod asks', 'pods ask')} for a fraction of a card: "
            "each counts as a whole card"
        )


def _account(run: Run) -> Iterator[Line]:
    """Figures about a generated workload; the author of a small scenario knows its contents."""
    scenario, account = run.loaded.scenario, run.result.document["account"]
    if isinstance(account, dict) and (scenario.workload is not None or scenario.trace is not None):
        yield from report_lines(account)
        decisions = _entries(run.result.document["decisions"])
        yield pace_line(sum(one["kind"] == "bind" for one in decisions), run.elapsed_ns)


def _is_saturated(run: Run) -> bool:
    trace = run.loaded.scenario.trace
    return trace is not None and trace.order == "saturate"


def _saturated(run: Run, *, durable: bool) -> Iterator[str]:
    """Allocation and throughput. These figures are not comparable with published ones."""
    cards = cards_per_model(run.simulated.state)
    trace = run.loaded.scenario.trace
    has_shares = trace is not None and trace.shares == "thousandths"
    if has_shares:
        cards = [row for row in cards if row[0].endswith("/milli")]
    there, allocated = sum(row[1] for row in cards), sum(row[2] for row in cards)
    decisions = _entries(run.result.document["decisions"])
    bound = sum(1 for entry in decisions if entry["kind"] == "bind")
    pace = bound * SECOND // max(run.elapsed_ns, 1)
    how = "decisions durable" if durable else "log in memory"
    if has_shares:
        rate = allocated * 10_000 // max(there, 1)
        text = f"{allocated:,} of {there:,} thousandths of GPUs: {rate // 100}.{rate % 100:02} %"
        yield f"  filled     {text}, {pace:,} pods/s with the {how}"
        return
    yield f"  filled     {allocated:,} of {there:,} cards, {pace:,} pods/s with the {how}"
    yield (
        "  note       not to be set beside published figures: those share cards among pods, "
        "and here a share counts as a whole card"
    )


def _tell_differences(run: Run, *, err: bool) -> None:
    differences = run.result.differences
    lines = [f"  {run.loaded.scenario.source}: {one}" for one in differences[:SHOWN_MAX]]
    if len(differences) > SHOWN_MAX:
        lines.append(f"  ... and {len(differences) - SHOWN_MAX} more")
    if lines:
        print_lines(lines, to_stderr=err)
