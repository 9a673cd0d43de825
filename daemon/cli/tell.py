"""`muster tell`: a log as text for people."""

from collections.abc import AsyncIterator

import click
import msgspec

from daemon.cli.output import (
    AS_FROM,
    log_argument,
    moment_option,
    output_option,
    print_json,
    print_lines,
)
from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.log.opening import ask_log
from daemon.log.shadow_mode import is_shadow
from daemon.queries.moments import recorded_at_ns, stretch
from events.codec import event_of
from replay.log_time import LogTime
from replay.narrate import narrate, sentences


@click.command()
@log_argument
@moment_option("--from", "Begin with the first record at or after this moment.", "first")
@moment_option("--to", "End with the last record at or before this moment.", "last", forms=AS_FROM)
@output_option
def tell(log: str, first: LogTime | None, last: LogTime | None, as_json: bool) -> None:
    """Print a log, or a stretch of it, as text for people.

    Examples:

    \b
        muster tell demo.db --from 2700 --to 2800
        muster tell demo.db --from 10:05 --to 10:07:30
    """
    ask_log(log, lambda found: _print_records(found, first, last, as_json=as_json))


async def _print_records(
    log: ReadableLog, first: LogTime | None, last: LogTime | None, *, as_json: bool
) -> None:
    begin, end = await stretch(log, first, last)
    base = log.base.position
    start_ns = await recorded_at_ns(log, base + 1) if log.head.position > base else 0
    shadow = await is_shadow(log)
    async for entry in _entries(log, base if begin is None else begin - 1, end):
        event = event_of(entry.record)
        if as_json:
            print_json(
                _document(entry, sentences(entry.record, event, entry.content, is_shadow=shadow))
            )
        else:
            content = entry.content
            print_lines(narrate(entry.record, event, content, start_ns=start_ns, is_shadow=shadow))


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
