"""`muster diff`: compare two logs."""

import asyncio
from itertools import takewhile

import click
from msgspec import to_builtins

from daemon.cli.decision_table import decision_documents, decision_lines
from daemon.cli.figures import more, queue_table, totals_table
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
from daemon.log.opening import open_log
from daemon.queries.diff import ComparedLog, Equal, LogDiff, ObjectDifference, diff_logs
from events.json_value import Json, JsonObject
from events.record import Record
from replay.log_time import format_time
from replay.object_diff import FieldDiff
from replay.what_if_document import run_document, seconds_of

SHOWN_MAX = 20
"""The most decisions, and objects, that the text shows."""

FIELDS_SHOWN_MAX = 5
"""The most fields of an object that the text shows."""

WIDTH = 80
"""Columns that a line about a field takes, if the name of the field leaves room for its values."""

VALUE_CHARS_MIN = 12
"""Characters of a value of a field that the text shows in any case."""

SAME_CHARS = 4
"""Characters of what two long values have in common that stand before the difference."""

ELLIPSIS = "..."

TITLES = ("one", "other")


@click.command()
@click.argument("one", metavar="ONE")
@click.argument("other", metavar="OTHER")
@output_option
def diff(one: str, other: str, as_json: bool) -> int:
    """Compare two logs: where they part, which objects and decisions differ, and what came of it.

    ONE and OTHER are logs or bundles. Decisions are compared by what they are about: the n-th time that a pod was bound,
    evicted, ... in one with the n-th time in the other; times count from the beginning of each log. The exit code is 0 if both
    hold the same records, and 1 if not.

    Examples:

    \b
        muster diff monday.db tuesday.db
        muster what-if demo.db --at 90s --change policy.yaml --out branch.db
        muster diff demo.db branch.db --output json
    """
    found = asyncio.run(_ask(one, other))
    if isinstance(found, Equal):
        records = found.head.position - found.begins
        if as_json:
            print_json(
                {
                    "equal": True,
                    "records": records,
                    "position": found.head.position,
                    "digest": found.head.digest,
                }
            )
        else:
            print_lines(
                [
                    (verdict(True, "equal", ""), f": {counted(records, 'record')}"),
                    f"position {found.head.position}, digest {found.head.digest}",
                ]
            )
        return 0
    if as_json:
        print_json(_document(found))
    else:
        print_lines(_report(found))
    return 1


async def _ask(one: str, other: str) -> LogDiff | Equal:
    left = await open_log(one)
    try:
        right = await open_log(other)
        try:
            with progress("diff") as shown:
                return await diff_logs(left, right, shown)
        finally:
            await right.close()
    finally:
        await left.close()


def _report(found: LogDiff) -> list[Line]:
    one, other = found.one, found.other
    runs, starts = (one.figures, other.figures), (one.start_ns, other.start_ns)
    return [
        *_parting_lines(found),
        *_object_lines(found.objects),
        *decision_lines(found.decisions, runs, TITLES, starts, SHOWN_MAX),
        heading(f"the account{_until(one, other)}"),
        *totals_table(TITLES, runs),
        heading("by queue, one -> other"),
        *queue_table(*runs, "queue"),
    ]


def _until(one: ComparedLog, other: ComparedLog) -> str:
    """Say up to when the figures of both are."""
    if one.end_ns - one.start_ns != other.end_ns - other.start_ns:
        return ", each up to its last record"
    return f", up to {format_time(one.end_ns, one.start_ns)}"


def _parting_lines(found: LogDiff) -> list[Line]:
    parting = found.parting
    if parting is None:
        where = ": the logs have no beginning in common"
    else:
        record = parting.one or parting.other
        assert record is not None
        at = format_time(record.recorded_at_ns, found.one.start_ns)
        where = f": the logs part at position {parting.position}, {at}"
    sides = (found.one, found.other)
    lines: list[Line] = [(verdict(False, "", "different"), where)]
    for title, log in zip(TITLES, sides, strict=True):
        records = counted(log.head.position - found.begins, "record")
        lines.append(f"  {title:5}  {log.place}: {records}")
    if parting is None:
        return lines
    rows = []
    for title, side in zip(TITLES, (parting.one, parting.other), strict=True):
        if side is None:
            rows.append((title, "(the log ends)", "", ""))
        else:
            at = format_time(side.recorded_at_ns, found.one.start_ns)
            rows.append((title, at, side.kind, side.subject))
    return [
        *lines,
        heading("the first records that differ"),
        *table(("", "at", "kind", "subject"), rows),
    ]


def _object_lines(objects: list[ObjectDifference]) -> list[Line]:
    if not objects:
        return ["no object differs at the end"]
    count = counted(len(objects), "object differs", "objects differ")
    lines: list[Line] = [heading(f"{count} at the end")]
    for one in objects[:SHOWN_MAX]:
        name = one.subject.replace("//", "/").rstrip("/")
        lines.append(f"  {name}" if one.fields else f"  {name}: {one.what}")
        lines += map(_field_line, one.fields[:FIELDS_SHOWN_MAX])
        if len(one.fields) > FIELDS_SHOWN_MAX:
            lines.append(f"    ... and {len(one.fields) - FIELDS_SHOWN_MAX:,} more fields")
    return [*lines, *more(len(objects), SHOWN_MAX, "objects")]


def _field_line(field: FieldDiff) -> str:
    head = f"    {field.field}: "
    chars = max(VALUE_CHARS_MIN, (WIDTH - len(head) - len(" -> ")) // 2)
    before, after = field.before, field.after
    if max(len(before), len(after)) > chars:
        # What both begin with says nothing.
        equal = takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False))
        same = len(list(equal)) - SAME_CHARS
        if same > len(ELLIPSIS):
            before, after = (f"{ELLIPSIS}{one[same:]}" for one in (before, after))
    return f"{head}{_cut(before, chars)} -> {_cut(after, chars)}"


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: chars - len(ELLIPSIS)]}{ELLIPSIS}"


def _document(found: LogDiff) -> JsonObject:
    starts = (found.one.start_ns, found.other.start_ns)
    parting = found.parting
    return {
        "equal": False,
        "parted": None
        if parting is None
        else {
            "position": parting.position,
            "one": _record(parting.one, starts[0]),
            "other": _record(parting.other, starts[1]),
        },
        "objects": to_builtins(found.objects),
        "decisions": decision_documents(found.decisions, TITLES, starts),
        "one": _log(found.one),
        "other": _log(found.other),
    }


def _log(log: ComparedLog) -> JsonObject:
    return {
        "log": log.place,
        "position": log.head.position,
        "digest": log.head.digest,
        "end_seconds": seconds_of(log.end_ns - log.start_ns),
        **run_document(log.figures),
    }


def _record(record: Record | None, start_ns: int) -> Json:
    if record is None:
        return None
    return {
        "at_seconds": seconds_of(record.recorded_at_ns - start_ns),
        "kind": record.kind,
        "subject": record.subject,
        "cycle": record.cycle,
    }
