"""Decisions that differ between two runs, as a table and as a JSON document."""

from collections.abc import Sequence

from daemon.cli.figures import group_name, more
from daemon.cli.output import Line, counted, heading, table
from events.json_value import Json
from replay.decision_differences import (
    EARLIER,
    ELSEWHERE,
    LATER,
    ONLY_IN_ONE,
    ONLY_IN_OTHER,
    OTHERWISE,
    DecisionDifference,
    counts_of,
)
from replay.log_time import format_time
from replay.what_if_comparison import Branch, first_difference
from replay.what_if_document import decision_document, seconds_of
from replay.what_if_figures import RunFigures, TimedDecision
from scheduling.decide import DECIDER


def decision_lines(
    differences: Sequence[DecisionDifference],
    runs: tuple[RunFigures, RunFigures],
    titles: tuple[str, str],
    start_ns: tuple[int, int],
    shown: int,
) -> list[Line]:
    """Return the decisions that differ: how many in which way, and the first `shown` of them. `titles` name the runs."""
    if not differences:
        return ["no decision differs"]
    counts = counts_of(list(differences))
    ways = ", ".join(f"{count:,} {_way(what, titles)}" for what, count in counts.items())
    rows: list[tuple[str, ...]] = []
    for one in differences[:shown]:
        decision = one.shown.decision
        side = 0 if one.one is not None else 1
        run, first = runs[side], start_ns[side]
        subject = decision.pod or group_name(run, run, decision.pod_group)
        rows.append(
            (
                format_time(one.shown.at_ns, first),
                decision.kind,
                subject or decision.queue,
                _result(one, one.one),
                _result(one, one.other),
            )
        )
    return [
        heading(f"{counted(len(differences), 'decision differs', 'decisions differ')}: {ways}"),
        *table(("at", "kind", "pod or group", *titles), rows),
        *more(len(differences), shown, "that differ"),
    ]


def decision_documents(
    differences: Sequence[DecisionDifference], titles: tuple[str, str], start_ns: tuple[int, int]
) -> list[Json]:
    """Return the decisions that differ as JSON; `titles` are the keys of the two sides."""
    return [
        {
            "what": _way(one.what, titles),
            "later_seconds": seconds_of(one.later_ns),
            titles[0]: decision_document(one.one, start_ns[0]),
            titles[1]: decision_document(one.other, start_ns[1]),
        }
        for one in differences
    ]


def _way(what: str, titles: tuple[str, str]) -> str:
    """Return how a decision differs, with the names of the runs."""
    names = {ONLY_IN_ONE: f"only in {titles[0]}", ONLY_IN_OTHER: f"only in {titles[1]}"}
    return names.get(what, what)


def _result(difference: DecisionDifference, side: TimedDecision | None) -> str:
    """Return what to show of one side."""
    if side is None:
        return "-"
    decision = side.decision
    if difference.what == ELSEWHERE:
        devices = f" {','.join(decision.devices)}" if decision.devices else ""
        return f"{decision.node or 'no node'}{devices}"
    if difference.what == OTHERWISE:
        return decision.code or decision.in_favour_of or decision.queue
    if difference.what in (EARLIER, LATER):
        if side is difference.one:
            return "at that time"
        return f"{abs(difference.later_ns) / 1_000_000_000:,.1f} s {difference.what}"
    return decision.node or decision.code or "decided"


def model_lines(branch: Branch) -> list[Line]:
    """Return what the run without the change differs in from the record: what is the error of the simulation."""
    pair = first_difference(branch.recorded, branch.model)
    if pair is None:
        return ["without the change the simulated cluster decides as recorded"]
    at = pair.one or pair.other
    assert at is not None
    when = format_time(at.at_ns, branch.start_ns)
    lines: list[Line] = []
    if branch.decider != DECIDER:
        lines.append(
            f"the log was decided by version {branch.decider} of the deciding code, and the runs by "
            f"version {DECIDER}"
        )
    return [
        *lines,
        f"without the change the simulated cluster decides otherwise than recorded from {when} on: "
        f"{_short(pair.one)} was recorded, {_short(pair.other)} is simulated",
    ]


def _short(timed: TimedDecision | None) -> str:
    if timed is None:
        return "nothing"
    one = timed.decision
    return f"{one.kind} {one.pod or one.pod_group}" + (f" on {one.node}" if one.node else "")
