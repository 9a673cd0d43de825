"""`muster migrate`: bring the schema of a log to that of this release."""

import asyncio

import click

from daemon.cli.output import log_option, output_option, print_json, print_lines
from daemon.log.opening import open_log


@click.command()
@log_option
@output_option
def migrate(log: str, as_json: bool) -> None:
    """Bring the schema of a log to that of this release; create it where there is none.

    Opening a log for writing does the same.

    Example:

    \b
        muster migrate --log postgresql://localhost/muster
    """
    place, position = asyncio.run(_migrate(log))
    if as_json:
        print_json({"log": place, "position": position})
    else:
        print_lines([f"{place}: the schema is that of this release, the log ends at {position:,}"])


async def _migrate(url: str) -> tuple[str, int]:
    log = await open_log(url, "write")
    try:
        return log.place, log.head.position
    finally:
        await log.close()
