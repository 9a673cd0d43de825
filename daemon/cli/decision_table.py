"""Decisions that differ between two runs, as a table and as a JSON document."""

from collections.abc import Sequence

from daemon.cli.figures import group_name, more
from daemon.cli.output import Line, counted, heading, table
from events.json_value import Json
from replay.decision_differences import (
    EARLIER,
    ELSEWHERE,
    LATER,
    OTHERWISE,
    DecisionDifference,
    counts_of,
)
from replay.log_time import format_time
from replay.what_if_document import decision_document, seconds_of
from replay.what_if_figures import RunFigures, TimedDecision


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
    names = {"only in one": f"only in {titles[0]}", "only in other": f"only in {titles[1]}"}
    counts = counts_of(list(differences))
    ways = ", ".join(f"{count:,} {names.get(what, what)}" for what, count in counts.items())
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
            "what": one.what,
            "later_seconds": seconds_of(one.later_ns),
            titles[0]: decision_document(one.one, start_ns[0]),
            titles[1]: decision_document(one.other, start_ns[1]),
        }
        for one in differences
    ]


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
