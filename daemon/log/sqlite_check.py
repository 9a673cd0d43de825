"""What of a SQLite file is torn, as a table, an index, or a position of the log. Nothing is written.

SQLite says only "database disk image is malformed". Asked table by table it says which, and a torn log is read
up to the first position that is not there. Functions here block, and read as much as there is.
"""

import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from daemon.log import tables
from daemon.log.sqlite_reading import open_reading
from projections.views.catalogue import VIEWS

BY_TABLE: Final = (3, 33, 0)
"""The first library that checks one table at a time; older ones check the whole file each time."""

SCHEMA: Final = "alembic_version"
TRIGGERS: Final = (
    *("log_no_update", "log_no_delete", "log_no_replace"),
    *("objects_no_update", "objects_no_delete", "objects_no_replace"),
    *("log_signature_no_update", "log_signature_no_delete"),
)
"""What keeps the log append only; a torn schema may have lost one."""

_SOUND: Final = "ok"
_DAMAGE: Final = ("malformed", "corrupt", "not a database", "could not decode", "no such")


def find_damage(path: Path, *, is_thorough: bool) -> str | None:
    """The first thing torn, such as `table placement: ...`, `index log_subject: ...` or `position 17: ...`.

    Thorough is to compare each index with its table, and to look at free pages.
    """
    with closing(open_reading(path)) as connection:
        try:
            missing = missing_names(connection)
        except (sqlite3.Error, UnicodeError) as error:
            if not is_damage(error):
                raise
            return f"table sqlite_schema: {error}"
        if missing:
            return f"table sqlite_schema: {', '.join(missing)} missing"
        return _torn(connection, is_thorough=is_thorough)


def missing_names(connection: sqlite3.Connection) -> list[str]:
    """Tables, indexes and triggers that the schema should have and has not."""
    rows = connection.execute("SELECT name FROM sqlite_master").fetchall()
    return sorted(expected_names() - {str(name) for (name,) in rows})


def expected_names() -> set[str]:
    """What the schema of this release has."""
    found = {SCHEMA, *TRIGGERS, *(name for view in VIEWS for name in tables.sql_views(view))}
    for table in tables.metadata.tables.values():
        found |= {table.name, *(str(index.name) for index in table.indexes)}
    return found


def first_unreadable(path: Path) -> int:
    """The first position that cannot be read. A file that is too short is read all the same."""
    readable = 0
    with closing(open_reading(path)) as connection, suppress(sqlite3.Error, UnicodeError):
        connection.execute("PRAGMA writable_schema = ON")
        readable = _base(connection)
        query = f"SELECT * FROM log WHERE position > {readable} ORDER BY position"  # noqa: S608  # a number
        for position, *_rest in connection.execute(query):
            if position != readable + 1:
                break
            readable = int(position)
    return readable + 1


def is_damage(error: Exception) -> bool:
    """Whether an error of SQLite is about what is in the file, rather than about reaching it."""
    message = str(error).lower()
    return isinstance(error, UnicodeDecodeError) or any(word in message for word in _DAMAGE)


def _torn(connection: sqlite3.Connection, *, is_thorough: bool) -> str | None:
    pragma = "integrity_check" if is_thorough else "quick_check"
    # Small tables first; the two that grow with the log come last.
    names = sorted(tables.metadata.tables, key=lambda name: (name in ("log", "objects"), name))
    for name in (SCHEMA, *names):
        wrong = _checked(connection, pragma, name) or _unread(connection, name)
        if wrong is None:
            continue
        if name == "log" and (position := _unread_position(connection)) is not None:
            return f"position {position}: {wrong}"
        if (index := _torn_index(connection, name)) is not None:
            return f"index {index} of table {name}: {wrong}"
        return f"table {name}: {wrong}"
    if is_thorough and (wrong := _checked(connection, "quick_check", None)) is not None:
        return f"free pages: {wrong}"
    return None


def _checked(connection: sqlite3.Connection, pragma: str, table: str | None) -> str | None:
    """What a check of a table, or of all, says is wrong; None where it is sound."""
    asked = f"('{table}')" if table and sqlite3.sqlite_version_info >= BY_TABLE else ""
    try:
        rows = connection.execute(f"PRAGMA {pragma}{asked}").fetchmany(2)
    except (sqlite3.Error, UnicodeError) as error:
        if not is_damage(error):
            raise
        return str(error)
    message = " ".join(" ".join(str(row[0]).split()) for row in rows)
    return None if message == _SOUND else message.replace("*** in database main *** ", "")


def _unread(connection: sqlite3.Connection, table: str) -> str | None:
    """Why a row of a table cannot be read, such as text that is none; the checks of SQLite do not decode."""
    try:
        for _ in connection.execute(f"SELECT * FROM {table} NOT INDEXED"):  # noqa: S608  # ours
            pass
    except (sqlite3.Error, UnicodeError) as error:
        if not is_damage(error):
            raise
        return str(error)
    return None


def _unread_position(connection: sqlite3.Connection) -> int | None:
    """The first position that the table itself does not give; None where all are there."""
    readable = _base(connection)
    query = f"SELECT * FROM log NOT INDEXED WHERE position > {readable} ORDER BY position"  # noqa: S608  # a number
    try:
        for position, *_rest in connection.execute(query):
            if position != readable + 1:
                return readable + 1
            readable = int(position)
    except (sqlite3.Error, UnicodeError):
        return readable + 1
    return None


def _base(connection: sqlite3.Connection) -> int:
    """The position before the first record; 0 where it cannot be read."""
    try:
        return int(connection.execute("SELECT position FROM log_base").fetchone()[0])
    except (sqlite3.Error, UnicodeError, TypeError, ValueError):
        return 0


def _torn_index(connection: sqlite3.Connection, table: str) -> str | None:
    """The index that is to blame, where the table itself can be read; None where it cannot."""
    if _unread(connection, table) is not None:
        return None
    found = _indexes(connection, table)
    for name, partial in found.items():
        try:
            condition = f"{_key(connection, name)} IS NOT NULL{partial}"
            query = f"SELECT count(*) FROM {table} INDEXED BY {name} WHERE {condition}"  # noqa: S608
            connection.execute(query).fetchall()
        except (sqlite3.Error, UnicodeError):
            return name
    return next(iter(found)) if len(found) == 1 else None


def _indexes(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """Index to the condition that a query needs to use it, where it does not hold every row. The primary key of a
    history is the table itself, which has no row ids."""
    found = connection.execute(f"PRAGMA index_list('{table}')").fetchall()
    is_history = any(table == tables.table_name(view) for view in VIEWS if view.history)
    return {
        str(row[1]): _condition(table) if row[4] else ""
        for row in found
        if not (is_history and row[3] == "pk")
    }


def _condition(table: str) -> str:
    """The condition of the partial index of a table."""
    if table != tables.log.name:
        return " AND to_position IS NULL"
    kinds = " OR ".join(f"kind = '{kind}'" for kind in tables.FOUND_BY_KIND)
    return f" AND ({kinds})"


def _key(connection: sqlite3.Connection, index: str) -> str:
    """The first column of an index."""
    return str(connection.execute(f"PRAGMA index_info('{index}')").fetchall()[0][2])
