"""The rows of views, written in the transaction of the append."""

import asyncio
from collections.abc import Sequence

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log import tables
from daemon.log.database import Script
from daemon.log.entry import Projection, StandingView
from daemon.log.statements import Statements
from events.errors import DamagedLogError
from projections.views.catalogue import VIEWS
from projections.views.checksum import checksum_of
from projections.views.rows import Row, RowChanges, View, ViewChanges

BY_NAME = {view.name: view for view in VIEWS}


def changes_script(
    sql: Statements, changes: Sequence[ViewChanges], *, before: int, after: int
) -> Script:
    """The statements for the changes of batches in a row.

    A view that did not stand at `before` was not kept up; it stays marked as being behind.
    """
    merged = merge(changes)
    script: Script = [(sql.advance_views, [(after, before)])]
    marks: list[tuple[object, ...]] = []
    for view in VIEWS:
        if (change := merged.get(view.name)) is None:
            continue
        words = sql.views[view.name]
        script += [
            (statement, rows)
            for statement, rows in (
                (words.remove, change.removed),
                (words.upsert, change.upserted),
                (words.open, change.opened),
                (words.insert, change.passed),
                (words.close, change.closed),
            )
            if rows
        ]
        marks.append((view.name, view.version, after, f"{change.checksum:016x}"))
    if marks:
        script.append((sql.mark_view, marks))
    return script


async def mark(
    connection: AsyncConnection, sql: Statements, view: View, position: int, checksum: int
) -> None:
    """Write down where a view stands."""
    row = (view.name, view.version, position, f"{checksum:016x}")
    await connection.exec_driver_sql(sql.mark_view, row)


def merge(changes: Sequence[ViewChanges]) -> ViewChanges:
    """One change a view that has the effect of several after one another."""
    if len(changes) == 1:
        return changes[0]
    gathered: dict[str, list[RowChanges]] = {}
    for batch in changes:
        for name, change in batch.items():
            gathered.setdefault(name, []).append(change)
    return {name: _merged(BY_NAME[name], several) for name, several in gathered.items()}


def _merged(view: View, several: list[RowChanges]) -> RowChanges:
    """What came last stands. A row of a history that began and ended within these changes is written once."""
    if len(several) == 1:
        return several[0]
    result = RowChanges(checksum=several[-1].checksum)
    if view.history:
        _merge_history(view.keys, several, result)
        return result
    rows: dict[Row, Row | None] = {}
    for change in several:
        rows.update(dict.fromkeys(change.removed))
        rows.update({row[: view.keys]: row for row in change.upserted})
    result.removed = [key for key, row in rows.items() if row is None]
    result.upserted = [row for row in rows.values() if row is not None]
    return result


def _merge_history(keys: int, several: list[RowChanges], result: RowChanges) -> None:
    """Add the rows that begin and end. One that ends in a batch began in it or in an earlier one."""
    began: dict[Row, Row] = {}
    for change in several:
        began.update({(*row[:keys], row[-1]): row for row in change.opened})
        for ended in change.closed:
            row = began.pop(ended[1:], None)
            if row is None:
                result.closed.append(ended)
            else:
                result.passed.append((*row, ended[0]))
    result.opened = list(began.values())


async def stand(connection: AsyncConnection) -> list[Projection]:
    """Where each view stands."""
    rows = await connection.exec_driver_sql(
        "SELECT name, version, position, checksum FROM projection ORDER BY name"
    )
    try:
        shaped = msgspec.convert([tuple(row) for row in rows], list[tuple[str, int, int, str]])
        return [
            Projection(name=name, version=version, position=position, checksum=int(checksum, 16))
            for name, version, position, checksum in shaped
        ]
    except ValueError as error:  # msgspec's errors are, too.
        raise DamagedLogError(f"table projection: {error}; `muster rebuild` rebuilds it") from error


async def standing_rows(connection: AsyncConnection, view: str) -> list[Row]:
    """The rows of a view that stand now, in any order; with `from_position` behind where it has a history."""
    shape = BY_NAME[view]
    query = tables.current_rows(shape, *(("from_position",) if shape.history else ()))
    return [tuple(row) for row in await connection.execute(query)]


async def now_standing(
    connection: AsyncConnection, begin: str, views: Sequence[str]
) -> list[StandingView]:
    """Where each view stands and, of those named, the rows, as of one moment."""
    await connection.exec_driver_sql(begin)
    try:
        return [
            StandingView(
                projection=one,
                rows=await standing_rows(connection, one.name) if one.name in views else [],
            )
            for one in await stand(connection)
        ]
    finally:
        await connection.exec_driver_sql("ROLLBACK")


async def differing_view(connection: AsyncConnection, begin: str) -> str | None:
    """The table of the first view of which the rows are not those of its checksum, as of one moment.

    A view that is behind, or of other code, is not looked at: a start rebuilds it.
    """
    await connection.exec_driver_sql(begin)
    try:
        head = (await connection.execute(select(tables.log_head.c.position))).scalar()
        for one in await stand(connection):
            view = BY_NAME.get(one.name)
            if view is None or (one.version, one.position) != (view.version, head):
                continue
            found = [tuple(row) for row in await connection.execute(tables.current_rows(view))]
            if await asyncio.to_thread(checksum_of, found) != one.checksum:
                return tables.table_name(view)
    finally:
        await connection.exec_driver_sql("ROLLBACK")
    return None
