"""The answer of `muster what-if` as a JSON document with stable keys."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from events.duration import SECOND
from events.normalize import Json, JsonObject
from replay.what_if_comparison import Branch, DecisionPair, first_difference, moved_pods
from replay.what_if_figures import RunFigures, TimedDecision, Totals

HOUR: Final = 3600 * SECOND
PERCENTILES: Final = {"p50": 50, "p95": 95, "max": 100}


def what_if_document(branch: Branch, baseline: str) -> JsonObject:
    """Return the runs, and how the one with the change differs from the baseline (`record` or `model`)."""
    base, changed = branch.baseline(baseline), branch.changed
    difference = first_difference(base, changed)
    placements: list[Json] = [
        {"pod": one.pod, baseline: one.one or None, "change": one.other or None}
        for one in moved_pods(base, changed)
    ]
    return {
        "log": branch.place,
        "position": branch.head.position,
        "at_seconds": seconds_of(branch.at_ns - branch.start_ns),
        "end_seconds": seconds_of(branch.end_ns - branch.start_ns),
        "decider": branch.decider,
        "baseline": baseline,
        "equal": difference is None,
        "record": run_document(branch.recorded),
        "model": run_document(branch.model),
        "change": run_document(changed),
        "first_difference": _pair(branch, difference, baseline, "change"),
        "placements": placements,
        "model_difference": _pair(
            branch, first_difference(branch.recorded, branch.model), "record", "model"
        ),
    }


def percentile(sorted_values: list[int], percent: int) -> int:
    """Return the smallest value that at least so many percent are not above; 0 for none."""
    if not sorted_values:
        return 0
    return sorted_values[-(-percent * len(sorted_values) // 100) - 1]


def mean(values: list[int]) -> int:
    """Return the mean, rounded down; 0 for none."""
    return sum(values) // len(values) if values else 0


def card_hours(totals: Totals) -> dict[str, float]:
    """Return the hours for which each card was allocated, to four places."""
    return {card: hours_of(amount) for card, amount in sorted(totals.card_ns.items())}


def hours_of(card_ns: int) -> float:
    """Return hours, to four places."""
    return round(float(Fraction(card_ns, HOUR)), 4)


def goodput(run: RunFigures) -> float:
    """Return the useful card-hours as a part of those of the cluster, to four places; 0 without cards."""
    existing = run.goodput.card_ns
    return round(float(Fraction(run.total().goodput.useful, existing)), 4) if existing else 0.0


def groups_of_queues(runs: Iterable[RunFigures]) -> dict[str, list[str]]:
    """Return the pod groups of each queue, in any of the runs."""
    found: dict[str, dict[str, None]] = {}
    for run in runs:
        for group, queue in run.queue_of.items():
            found.setdefault(queue, {})[group] = None
    return {queue: list(groups) for queue, groups in sorted(found.items())}


def run_document(run: RunFigures) -> JsonObject:
    """Return the figures of a run: in total, by queue and by pod group."""
    queues: JsonObject = {
        queue: _totals(run.total(groups)) for queue, groups in groups_of_queues([run]).items()
    }
    groups: JsonObject = {
        key: {"queue": run.queue_of.get(key, ""), **_totals(totals)}
        for key, totals in sorted(run.groups.items())
    }
    total: JsonObject = {**_totals(run.total()), "goodput": goodput(run)}
    return {"total": total, "queues": queues, "pod_groups": groups}


def _totals(totals: Totals) -> JsonObject:
    waits = sorted(totals.waits_ns)
    waiting: JsonObject = {"pods": len(waits), "mean": seconds_of(mean(waits))}
    for name, percent in PERCENTILES.items():
        waiting[name] = seconds_of(percentile(waits, percent))
    hours: JsonObject = dict(card_hours(totals))
    return {
        "placements": totals.placed,
        "waiting_seconds": waiting,
        "evictions": totals.evicted,
        "card_hours": hours,
        "useful_card_hours": hours_of(totals.goodput.useful),
        "redone_card_hours": hours_of(totals.goodput.redone),
        "interruptions": totals.goodput.interruptions,
        "pending": totals.pending,
        "pending_seconds": seconds_of(totals.pending_ns),
    }


def _pair(branch: Branch, pair: DecisionPair | None, one: str, other: str) -> Json:
    if pair is None:
        return None
    start_ns = branch.start_ns
    return {
        one: decision_document(pair.one, start_ns),
        other: decision_document(pair.other, start_ns),
    }


def decision_document(timed: TimedDecision | None, start_ns: int) -> Json:
    """Return a decision of a log that began at `start_ns`."""
    if timed is None:
        return None
    decision = timed.decision
    return {
        "position": timed.position,
        "at_seconds": seconds_of(timed.at_ns - start_ns),
        "kind": decision.kind,
        "pod_group": decision.pod_group,
        "pod": decision.pod or None,
        "queue": decision.queue,
        "node": decision.node or None,
        "devices": list(decision.devices),
        "in_favour_of": decision.in_favour_of or None,
        "code": decision.code,
        "message": timed.message,
    }


def seconds_of(nanoseconds: int) -> float:
    """Return nanoseconds as seconds."""
    return nanoseconds / SECOND
