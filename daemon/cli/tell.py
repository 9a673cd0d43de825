"""`muster tell`: a log as text for people."""

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
from daemon.cli.record_filters import filter_options, record_filter
from daemon.log.contract import ReadableLog
from daemon.log.entry import Entry
from daemon.log.opening import ask_log
from daemon.log.shadow_mode import is_shadow
from daemon.queries.filtered_records import filtered_records
from daemon.queries.moments import recorded_at_ns, stretch
from replay.log_time import LogTime
from replay.narrate import narrate, sentences


@click.command()
@log_argument
@moment_option("--from", "Begin with the first record at or after this moment.", "first")
@moment_option("--to", "End with the last record at or before this moment.", "last", forms=AS_FROM)
@moment_option("--since", "The same as --from.", "since", forms=AS_FROM)
@filter_options
@click.option("-f", "--follow", is_flag=True, help="Go on with new records until interrupted.")
@output_option
def tell(
    log: str,
    first: LogTime | None,
    last: LogTime | None,
    since: LogTime | None,
    subjects: tuple[str, ...],
    kinds: tuple[str, ...],
    queue: str,
    node: str,
    follow: bool,
    as_json: bool,
) -> None:
    """Print a log, or a stretch of it, as text for people.

    A record passes the filters if it passes each kind of filter that is given. --queue and --node find the records of the pods
    and pod groups there, too. `muster history` finds the records of one subject faster.

    Examples:

    \b
        muster tell demo.db --from 2700 --to 2800
        muster tell demo.db --from 10:05 --to 10:07:30
        muster tell demo.db --since -1h --kind eviction_decided --queue ls
        muster tell postgresql://localhost/muster --since -1m --node n1 -f
    """
    if first is not None and since is not None:
        raise click.UsageError("--from and --since exclude each other: give one of them")
    if follow and last is not None:
        raise click.UsageError("--follow and --to exclude each other: give one of them")
    wanted = record_filter(subjects, kinds, queue, node)
    begin = first if since is None else since
    option = "--from" if since is None else "--since"

    async def show(found: ReadableLog) -> None:
        base = found.base.position
        start, end = await stretch(found, begin, last, option)
        start_ns = await recorded_at_ns(found, base + 1) if found.head.position > base else None
        after = base if start is None else start - 1
        shadow = await is_shadow(found)
        async for one in filtered_records(found, wanted, after, end, follows=follow):
            record, content = one.entry.record, one.entry.content
            start_ns = record.recorded_at_ns if start_ns is None else start_ns
            if as_json:
                lines = sentences(record, one.event, content, is_shadow=shadow)
                print_json(_document(one.entry, lines))
            else:
                print_lines(
                    narrate(record, one.event, content, start_ns=start_ns, is_shadow=shadow)
                )

    ask_log(log, show)


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
