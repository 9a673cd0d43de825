"""`muster rebuild` and `muster migrate`: views made anew, and the schema of a log."""

import asyncio

import click
from msgspec import Struct

from daemon.cli.batches import write_views_anew
from daemon.cli.output import (
    Progress,
    log_option,
    output_option,
    print_json,
    progress,
    table,
    verdict,
)
from daemon.log.contract import Log, ReadableLog
from daemon.log.opening import open_log
from projections.views.catalogue import VIEWS
from projections.views.project import row_hash
from projections.views.rows import Row

_MODULUS = 1 << 128


class Found(Struct, frozen=True):
    """What stood in a view before, beside what was made anew."""

    view: str
    rows: int
    differing: int
    """Rows that were other, or missing, or too many."""
    was_kept: bool
    """Whether it stood at the end of the log, and its checksum was that of its rows."""

    @property
    def is_equal(self) -> bool:
        """Whether nothing had to be mended."""
        return self.was_kept and not self.differing


@click.command()
@log_option
@output_option
def rebuild(log: str, as_json: bool) -> int:
    """Make the views anew from the log alone, and report what was other before.

    The exit code is 1 where anything was. No daemon may be writing the log.

    Example:

    \b
        muster rebuild --log demo.db
    """
    found = asyncio.run(_rebuild(log))
    is_equal = all(one.is_equal for one in found)
    if as_json:
        print_json({"equal": is_equal, "views": [_as_json(one) for one in found]})
    else:
        rows = [(one.view, one.rows, one.differing, _standing(one)) for one in found]
        click.echo(table(("view", "rows", "differing", "before"), rows, indent=""))
        click.echo(verdict(is_equal, "equal", "there were differences; the views are right now"))
    return 0 if is_equal else 1


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
        click.echo(f"{place}: the schema is that of this release, the log ends at {position:,}")


async def _migrate(url: str) -> tuple[str, int]:
    log = await open_log(url, "write")
    try:
        return log.place, log.head.position
    finally:
        await log.close()


async def _rebuild(url: str) -> list[Found]:
    await (await open_log(url)).close()  # A log that is not there is not created.
    log = await open_log(url, "write")
    try:
        with progress("rebuild", total=log.head.position) as shown:
            return await rebuild_views(log, shown)
    finally:
        await log.close()


async def rebuild_views(log: Log, progress: Progress | None = None) -> list[Found]:
    """Make the views anew, and compare them with what stood."""
    kept = await _kept(log)
    before = {view.name: await log.view_rows(view.name) for view in VIEWS}
    await write_views_anew(log, progress)
    found = []
    for view in VIEWS:
        rows = await log.view_rows(view.name)
        was, now = _counted(before[view.name]), _counted(rows)
        differing = sum(abs(was.get(row, 0) - now.get(row, 0)) for row in {**was, **now})
        found.append(Found(view.name, len(rows), differing, kept[view.name]))
    return found


async def _kept(log: ReadableLog) -> dict[str, bool]:
    """Whether each view stands at the end of the log, with the checksum of its rows."""
    kept = dict.fromkeys((view.name for view in VIEWS), False)
    shapes = {view.name: view for view in VIEWS}
    for one in await log.projections():
        view = shapes.get(one.name)
        if view is not None and (one.version, one.position) == (view.version, log.head.position):
            width = len(view.columns)
            rows = [row[:width] for row in await log.view_rows(view.name)]
            kept[view.name] = sum(map(row_hash, rows)) % _MODULUS == one.checksum
    return kept


def _counted(rows: list[Row]) -> dict[Row, int]:
    counts: dict[Row, int] = {}
    for row in rows:
        counts[row] = counts.get(row, 0) + 1
    return counts


def _standing(found: Found) -> str:
    return "stood" if found.was_kept else "was behind, or not as its checksum says"


def _as_json(found: Found) -> dict[str, object]:
    return {
        "view": found.view,
        "rows": found.rows,
        "differing": found.differing,
        "was_kept": found.was_kept,
        "equal": found.is_equal,
    }
