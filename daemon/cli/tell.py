"""`muster tell`: a log as text for people."""

from collections.abc import AsyncIterator

import click
import msgspec

from daemon.cli.output import log_argument, output_option, print_json, print_lines
from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.log.opening import ask_log
from events.codec import event_of
from events.errors import UsageError
from replay.narrate import narrate, sentences


@click.command()
@log_argument
@click.option(
    "--from", "first", type=click.IntRange(min=1), metavar="P", help="The first position to print."
)
@click.option(
    "--to", "last", type=click.IntRange(min=1), metavar="P", help="The last position to print."
)
@output_option
def tell(log: str, first: int | None, last: int | None, as_json: bool) -> None:
    """Print a log, or a range of positions, as text for people.

    Example:

    \b
        muster tell demo.db --from 2700 --to 2800
    """
    ask_log(log, lambda found: _print_records(found, first, last, as_json=as_json))


async def _print_records(
    log: ReadableLog, first: int | None, last: int | None, *, as_json: bool
) -> None:
    _check(log, first, last)
    start_ns = await _start_ns(log)
    after = max((first or 1) - 1, log.base.position)
    async for entry in _entries(log, after, last):
        event = event_of(entry.record)
        if as_json:
            print_json(_document(entry, sentences(entry.record, event, entry.content)))
        else:
            print_lines(narrate(entry.record, event, entry.content, start_ns=start_ns))


def _check(log: ReadableLog, first: int | None, last: int | None) -> None:
    """Raise UsageError for a range that holds no record."""
    ends = f"{log.place} ends at position {log.head.position}"
    if first is not None and first > log.head.position:
        raise UsageError(f"--from {first}: {ends}")
    if last is None:
        return
    if first is not None and last < first:
        raise UsageError(f"--to {last} is before --from {first}; {ends}")
    if last <= log.base.position:
        raise UsageError(f"--to {last}: {log.place} begins behind position {log.base.position}")


async def _start_ns(log: ReadableLog) -> int:
    """The time of the first record that the log holds."""
    first = log.base.position
    async for entry in _entries(log, first, first + 1):
        return entry.record.recorded_at_ns
    return 0


async def _entries(log: ReadableLog, after: int, last: int | None) -> AsyncIterator[Entry]:
    async for entries in log.read(after, last):
        for entry in entries:
            yield entry


def _document(entry: Entry, lines: list[str]) -> dict[str, object]:
    record = entry.record
    return {
        "position": record.position,
        "recorded_at_ns": record.recorded_at_ns,
        "cycle": record.cycle,
        "cause": record.cause,
        "kind": record.kind,
        "subject": record.subject,
        "body": msgspec.Raw(record.body),
        "lines": lines,
    }
