"""`muster usage`: card-hours between two moments, by queue, namespace, pod group, node, owner or label."""

from typing import TYPE_CHECKING, Final

import click

from daemon.cli.output import (
    AS_FROM,
    heading,
    log_option,
    moment_option,
    output_option,
    print_json,
    print_lines,
    table,
)
from daemon.cli.watching import watch_option
from replay.log_time import LogTime, format_time

if TYPE_CHECKING:
    from daemon.queries.usage import Usage


CARDS_MAX: Final = 3
"""Models of cards beside the other columns; more have a table of their own."""


@click.command()
@log_option
@click.option(
    "--by",
    metavar="WHAT",
    default="queue",
    show_default=True,
    help="What the hours are summed up by: queue, namespace, group, node, owner (the top-level controller) or label:KEY.",
)
@moment_option("--from", "Count from this moment on; by default from the first record.", "first")
@moment_option(
    "--to", "Count up to this moment; by default the last record.", "last", forms=AS_FROM
)
@output_option
@watch_option
def usage(log: str, by: str, first: LogTime | None, last: LogTime | None, as_json: bool) -> None:
    """Sum up who used which cards for how long, and how long pods waited.

    Lost are the hours of pods that failed, were evicted or were asked to exit, whatever their checkpoints kept.
    Owners and labels are those of a pod when it was bound; the wait of a pod group counts for its first pod.

    Examples:

    \b
        muster usage --log muster.db
        muster usage --by label:team --from -24h --log muster.db
        muster usage --by namespace --from 2026-01-05T00:00:00Z --log muster.db
    """
    from daemon.log.opening import ask_log
    from daemon.queries.usage import usage as asked

    answer = ask_log(log, lambda found: asked(found, by, first, last))
    if as_json:
        print_json(answer)
        return
    start, end = (format_time(one, answer.start_ns) for one in (answer.start_ns, answer.end_ns))
    cards = sorted({card for row in answer.rows for card in row.card_hours})
    what = by.removeprefix("label:")
    beside = cards if len(cards) <= CARDS_MAX else []
    columns = (what, "card hours", *beside, "lost", "pod hours", "pods", "preempted", "waiting")
    print_lines([heading(f"from {start} to {end}, in hours")])
    print_lines(table(columns, [_cells(one, beside) for one in answer.rows]))
    if len(cards) > CARDS_MAX:
        hours = [[one.name or "(none)", *_card_cells(one, cards)] for one in answer.rows]
        print_lines(["", heading("card hours by card"), *table((what, *cards), hours)])


def _cells(row: "Usage", cards: list[str]) -> tuple[str, ...]:
    """Return the cells of a row."""
    return (
        row.name or "(none)",
        _hours_text(row.total_card_hours),
        *_card_cells(row, cards),
        *map(_hours_text, (row.lost_card_hours, row.pod_hours)),
        str(row.pods),
        str(row.preempted),
        _hours_text(row.waiting_pod_hours),
    )


def _card_cells(row: "Usage", cards: list[str]) -> list[str]:
    return [_hours_text(row.card_hours.get(card, 0)) for card in cards]


def _hours_text(hours: float) -> str:
    return f"{hours:.1f}" if hours >= 1 else f"{hours:.2g}"
