"""Incidents as text: a table of all, or for each one a summary, tables and a timeline."""

from typing import Final

from events.amount_text import amounts_text
from replay.incident_answer import (
    Incident,
    IncidentReport,
    IncidentStep,
    JobRestart,
    Move,
)

PODS_MAX: Final = 40
"""Pods of a table that text shows; JSON has all."""

BRIEF_CHARS_MAX: Final = 100
"""Characters of a message in the lines of a restart."""

LIST_HEAD: Final = (
    *("incident", "seen at", "fault", "pods hit", "done", "evicted"),
    *("to decision", "to running", "lost card-hours", "over"),
)
Row = tuple[str | int, ...]


def list_row(one: Incident) -> Row:
    """Return the row of an incident in the table of all, under `LIST_HEAD`."""
    more = len(one.nodes) - 1
    text = one.text + (f" (and {more} more nodes)" if more > 1 else "")
    text += " (and 1 more node)" if more == 1 else ""
    return (
        *(one.name, one.at, text, one.pods_hit, one.done, one.evicted),
        *(span(one.seconds_to_decision), span(one.seconds_to_running)),
        hours(one.lost_card_seconds),
        "yes" if one.is_over else "no",
    )


def span(seconds: float | None) -> str:
    """Return a time for people; `-` for none."""
    return "-" if seconds is None else f"{seconds:,.3f} s"


def summary_lines(report: IncidentReport) -> list[str]:
    """Return the first lines of an incident."""
    one = report.summary
    until = f"over at {one.last_at}" if one.is_over else "not over"
    lines = [
        f"  seen       {one.at}, {until}",
        f"  hit        {_hit(one)}",
        f"  done       {one.done}",
    ]
    lines += [
        f"  nothing    for {reason.pod_group}: {reason.message} ({reason.code})"
        for reason in report.not_moved
    ]
    return lines


def _hit(one: Incident) -> str:
    if not one.pods_hit:
        return "no pods"
    nodes = ", ".join(one.nodes[:5]) + (
        f" and {len(one.nodes) - 5} more" if len(one.nodes) > 5 else ""
    )
    groups = ", ".join(one.pod_groups[:5])
    if len(one.pod_groups) > 5:
        groups += f" and {len(one.pod_groups) - 5} more"
    pods = "1 pod" if one.pods_hit == 1 else f"{one.pods_hit:,} pods"
    return f"{pods} of {groups} on {nodes}"


def hours(card_seconds: float) -> str:
    """Return card-seconds as card-hours."""
    return f"{card_seconds / 3600:,.3f}"


def _brief(message: str) -> str:
    """Return the beginning of a message that the timeline has in full."""
    return message if len(message) <= BRIEF_CHARS_MAX else f"{message[:BRIEF_CHARS_MAX]}..."


FAULT_HEAD: Final = ("fault", "seen at", "gone at", "source", "level", "code", "effect", "pods")


def fault_rows(report: IncidentReport) -> list[Row]:
    """Return the rows of the faults, under `FAULT_HEAD`."""
    return [
        (
            *(one.name, one.at, one.cleared_at or "-", one.source, one.level),
            *(one.code or "-", one.effect, one.pods),
        )
        for one in report.faults
    ]


HIT_HEAD: Final = ("pod hit", "pod group", "rank", "node", "cards", "fault")


def hit_rows(report: IncidentReport) -> list[Row]:
    """Return the rows of the pods that were hit, under `HIT_HEAD`."""
    return [
        (
            *(one.pod, one.pod_group, _rank(one.rank), one.node),
            *(amounts_text(one.cards) or "-", one.fault),
        )
        for one in report.pods[:PODS_MAX]
    ]


def restart_lines(one: JobRestart) -> list[str]:
    """Return the figures of a restart."""
    cards = amounts_text(one.cards)
    outcome = f"{one.outcome}: {one.message}" if one.outcome else "not over"
    lines = [
        f"  outcome    {outcome}",
        f"  evicted    {_pods(one.evicted)}, {one.evicted_healthy} of them healthy, {one.forced} by force",
        f"  from the fault to the decision {span(one.seconds_to_decision)},"
        f" to all bound {span(one.seconds_to_bound)}, to all running {span(one.seconds_to_running)}",
    ]
    if cards:
        lines.append(
            f"  lost       {hours(one.lost_card_seconds)} card-hours ({cards}),"
            f" {hours(one.healthy_card_seconds)} of them of healthy pods that were deleted"
        )
    for decided in one.decisions:
        what = "deletes more" if decided.is_escalation else "deletes"
        faulty, healthy_pods = len(decided.faulty), len(decided.healthy)
        lines.append(
            f"  decision   {decided.position} at {decided.at} {what}: {faulty} faulty and {healthy_pods} healthy pods,"
            f" scope {decided.scope}, mode {decided.mode}: {decided.message}"
        )
    for wait in one.waits:
        leaving = f", {_pods(wait.terminating)} terminating" if wait.terminating else ""
        lines.append(
            f"  waited     {span(wait.seconds)} since {wait.position} at {wait.at}: {wait.action} {wait.code}:"
            f" {_brief(wait.message)}{leaving}"
        )
    if one.waits_left_out:
        lines.append(f"  ... and {one.waits_left_out} more answers")
    return lines


MOVE_HEAD: Final = ("rank", "pod", "from", "to", "what")


def move_rows(one: JobRestart) -> list[Row]:
    """Return the rows of the pods of a restart, those that moved first, under `MOVE_HEAD`."""
    moves = sorted(one.moves, key=lambda move: move.from_node == move.to_node)
    return [
        (_rank(move.rank), move.pod, move.from_node, move.to_node or "-", _what(move))
        for move in moves[:PODS_MAX]
    ]


def _what(move: Move) -> str:
    health = "faulty" if move.was_faulty else "healthy"
    if not move.was_deleted:
        return f"{health}, not deleted"
    if not move.to_node:
        return f"{health}, deleted, no node yet"
    return f"{health}, deleted, " + ("returns" if move.to_node == move.from_node else "moves")


def timeline_lines(report: IncidentReport) -> list[str]:
    """Return the steps, each with its position, its time, and the command that explains it."""
    lines: list[str] = []
    width = max((len(step.at) for step in report.timeline), default=0)
    for step in report.timeline:
        lines += _step(step, width)
    if report.steps_left_out:
        lines.append(f"  ({report.steps_left_out} steps in between are left out)")
    return lines


def _step(step: IncidentStep, width: int) -> list[str]:
    count = f" ({step.count} times, up to {step.last_position})" if step.count > 1 else ""
    margin = f"  {'':>6}  {'':<{width}}    "
    lines = [f"  {step.position:>6}  {step.at:<{width}}  {step.text}{count}"]
    lines += [f"{margin}{detail}" for detail in step.details]
    return [*lines, f"{margin}{step.why}"] if step.why else lines


def _rank(rank: int) -> str | int:
    return rank if rank >= 0 else "-"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count:,} pods"
