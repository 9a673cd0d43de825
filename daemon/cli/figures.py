"""Tables of the figures of runs beside one another: placements, waiting, evictions, card-hours."""

from collections.abc import Sequence

from daemon.cli.output import Cell, Line, table
from events.duration import SECOND
from replay.what_if_document import (
    card_hours,
    goodput,
    groups_of_queues,
    hours_of,
    mean,
    percentile,
)
from replay.what_if_figures import RunFigures, Totals


def totals_table(titles: Sequence[str], figures_of: Sequence[RunFigures]) -> list[Line]:
    """Return the figures of whole runs, a column each."""
    runs = [one.total() for one in figures_of]
    rows: list[list[Cell]] = [
        ["pods placed", *(one.placed for one in runs)],
        ["wait, mean", *(duration(mean(one.waits_ns)) for one in runs)],
    ]
    for name, percent in (("median", 50), ("95 %", 95), ("longest", 100)):
        waits = [duration(percentile(sorted(one.waits_ns), percent)) for one in runs]
        rows.append([f"wait, {name}", *waits])
    rows += [
        ["evictions", *(one.evicted for one in runs)],
        ["pending at the end", *(one.pending for one in runs)],
    ]
    hours = [card_hours(one) for one in runs]
    for card in sorted({card for one in hours for card in one}):
        rows.append([f"{card} hours", *(f"{one.get(card, 0.0):.4f}" for one in hours)])
    if any(one.goodput.interruptions for one in runs):
        work = [one.goodput for one in runs]
        rows += [
            ["interrupted jobs", *(f"{one.interruptions:,}" for one in work)],
            ["card hours of work done again", *(f"{hours_of(one.redone):.4f}" for one in work)],
            ["useful card hours", *(f"{hours_of(one.useful):.4f}" for one in work)],
            ["goodput", *(f"{goodput(one):.2%}" for one in figures_of)],
        ]
    return table(("", *titles), rows)


def queue_table(base: RunFigures, changed: RunFigures, title: str) -> list[Line]:
    """Return the figures of two runs by queue."""
    groups = groups_of_queues((base, changed))
    rows = [
        (queue, *figures(base.total(keys), changed.total(keys))) for queue, keys in groups.items()
    ]
    return figure_table(title, rows)


def figure_table(title: str, rows: Sequence[Sequence[Cell]]) -> list[Line]:
    """Return a table of `figures`, each row with a name before them."""
    return table((title, "placed", "mean wait", "evicted", "pending", "card hours"), rows)


def figures(base: Totals, changed: Totals) -> tuple[Cell, ...]:
    """Return figures of two runs, as `before -> after` where they differ."""
    return (
        _arrow(f"{base.placed:,}", f"{changed.placed:,}"),
        _arrow(duration(mean(base.waits_ns)), duration(mean(changed.waits_ns))),
        _arrow(f"{base.evicted:,}", f"{changed.evicted:,}"),
        _arrow(f"{base.pending:,}", f"{changed.pending:,}"),
        _arrow(_hours(base), _hours(changed)),
    )


def _hours(totals: Totals) -> str:
    return f"{sum(card_hours(totals).values()):.4f}"


def _arrow(base: str, changed: str) -> str:
    return base if base == changed else f"{base} -> {changed}"


def more(count: int, shown: int, what: str) -> list[Line]:
    """Return the line that says how many are not shown, if any."""
    return [f"  ... and {count - shown:,} more {what}"] if count > shown else []


def group_name(base: RunFigures, changed: RunFigures, key: str) -> str:
    """Name a pod group without an object by its first pod: its own name is generated."""
    if key in base.named or key in changed.named:
        return key
    return base.first_pod.get(key) or changed.first_pod.get(key) or key


def duration(nanoseconds: int) -> str:
    """Return seconds, to the tenth."""
    return f"{nanoseconds / SECOND:,.1f} s"
