"""`muster rebuild`: write the views again from the log, and report what differed."""

import asyncio
from collections import Counter
from pathlib import Path

import click
from msgspec import Struct

from daemon.cli.output import (
    Progress,
    log_option,
    output_option,
    print_json,
    print_lines,
    progress,
    table,
    verdict,
)
from daemon.log.opening import is_database, is_postgresql, open_database
from daemon.log.renewing import renew
from daemon.log.store import SqlLog
from daemon.log.tables import table_name
from daemon.view_rebuild import write_views_anew
from projections.views.catalogue import VIEWS
from projections.views.checksum import checksum_of
from projections.views.rows import Row, View


class Found(Struct, frozen=True):
    """The rows of a view before, compared with the rebuilt ones."""

    view: str
    rows: int
    differing: int
    """Rows that were different, missing or superfluous."""
    was_kept: bool
    """Whether the view stood at the end of the log, with the checksum of its rows."""

    @property
    def is_equal(self) -> bool:
        """Return True if the rebuild changed nothing."""
        return self.was_kept and not self.differing


@click.command()
@log_option
@output_option
def rebuild(log: str, as_json: bool) -> int:
    """Rebuild the views from the log alone, and report what was different before.

    The exit code is 1 if anything was. No daemon may be writing the log. Where a table or an index of a
    SQLite file is torn, the records are copied into a new file first; the old one is kept as LOG.damaged.

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
        print_lines(
            [
                *table(("view", "rows", "differing", "before"), rows, indent=""),
                verdict(is_equal, "equal", "there were differences; the views are right now"),
            ]
        )
    return 0 if is_equal else 1


async def _rebuild(url: str) -> list[Found]:
    await _renew_if_torn(url)
    log = await open_database(url, "write")
    try:
        with progress("rebuild", total=log.head.position) as shown:
            return await rebuild_views(log, shown)
    finally:
        await log.close()


async def _renew_if_torn(url: str) -> None:
    """Copy the records out of a torn SQLite file; a log that is not there is not created."""
    if not is_database(url):
        return
    log = await open_database(url)
    try:
        torn = await log.damage()
        path = Path(log.place)
    finally:
        await log.close()
    if torn is not None and not is_postgresql(url):
        print_lines([f"{path}: {torn}"], to_stderr=True)
        kept = await renew(path)
        note = f"{path}: its records are in a new file; the old one is {kept}"
        print_lines([note], to_stderr=True)


async def rebuild_views(log: SqlLog, progress: Progress | None = None) -> list[Found]:
    """Rebuild the views, and compare them with the rows before, histories included."""
    before = [await _rows(log, view) for view in VIEWS]
    kept = await _kept(log, before)
    await write_views_anew(log, progress)
    found = []
    for view, was in zip(VIEWS, before, strict=True):
        now = await _rows(log, view)
        rows = [*was, *(row for row in now if row not in was)]
        differing = sum(abs(was[row] - now[row]) for row in rows)
        found.append(Found(view.name, now.total(), differing, kept[view.name]))
    return found


async def _rows(log: SqlLog, view: View) -> Counter[Row]:
    """Every stored row of a view, those of the past included."""
    return Counter((await log.ask(f"select * from {table_name(view)}")).rows)  # noqa: S608  # names of ours


async def _kept(log: SqlLog, before: list[Counter[Row]]) -> dict[str, bool]:
    """Return whether each view stood at the end of the log, with the checksum of its rows."""
    stood = {one.name: one for one in await log.projections()}
    kept = {}
    for view, rows in zip(VIEWS, before, strict=True):
        one = stood.get(view.name)
        kept[view.name] = (
            one is not None
            and (one.version, one.position) == (view.version, log.head.position)
            and one.checksum == checksum_of(_current(view, rows))
        )
    return kept


def _current(view: View, rows: Counter[Row]) -> list[Row]:
    """Return the current rows among the stored ones, with the columns of the view."""
    if not view.history:
        return list(rows)
    return [row[: len(view.columns)] for row in rows if row[-1] is None]


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
