"""The SQLite file in which a simulated cluster stores the calls made to it, durable before each response.

Tests compare a log with its table `journal`; it may be read at any time. It uses the rollback journal and not WAL:
each commit flushes one file, and the file stands alone.
"""

import sqlite3
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import astuple

from daemon.private_files import create_private
from events.errors import ClusterError, SettingsError
from simulator.journal import JournalEntry, fingerprint
from simulator.scenario import Scenario

_TABLES = """
create table if not exists world (fingerprint text not null, origin_ns integer not null);
create table if not exists journal (
    id integer primary key, at_ns integer not null, verb text not null, namespace text not null,
    name text not null, uid text not null, value text not null, decision integer not null,
    annotations text not null, result text not null
);
"""
_COLUMNS = "at_ns, verb, namespace, name, uid, value, decision, annotations, result"


class WorldFile:
    """An open journal file. It belongs to one scenario, whose virtual time began at `origin_ns`."""

    def __init__(self, path: Path, scenario: Scenario, now_ns: int) -> None:
        self.path = path
        self._failure: ClusterError | None = None
        self._count = 0
        try:
            create_private(path)
            self._connection = sqlite3.connect(
                path, timeout=5, isolation_level=None, check_same_thread=False
            )
            self._connection.execute("pragma synchronous = full")
            self._connection.executescript(f"begin exclusive; {_TABLES} commit;")
            self.origin_ns = self._claim(fingerprint(scenario), now_ns)
        except (sqlite3.Error, OSError) as error:
            raise SettingsError(f"{path}: not a world that can be opened: {error}") from error

    def calls(self) -> list[JournalEntry]:
        """Return every call, in order."""
        rows = self._connection.execute(f"select {_COLUMNS} from journal order by id")  # noqa: S608  # a constant
        calls = [JournalEntry(*row) for row in rows]
        self._count = len(calls)
        return calls

    def append(self, calls: Iterable[JournalEntry]) -> None:
        """Add calls; when this returns, they are durable. After a failure it always fails.

        The cluster in memory has changed already, and must answer no more calls.
        """
        if self._failure is not None:
            raise self._failure
        marks = ", ".join("?" * (1 + len(_COLUMNS.split(", "))))
        # Explicit numbers: a second process on the same file would give the same ones, and fail.
        rows = [(number, *astuple(call)) for number, call in enumerate(calls, self._count + 1)]
        try:
            self._connection.execute("begin immediate")
            self._connection.executemany(
                f"insert into journal (id, {_COLUMNS}) values ({marks})",  # noqa: S608  # constants
                rows,
            )
            self._connection.execute("commit")
        except sqlite3.Error as error:
            self._failure = ClusterError(f"{self.path}: the world cannot be written: {error}")
            raise self._failure from error
        self._count += len(rows)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _claim(self, fingerprint: str, now_ns: int) -> int:
        row = self._connection.execute("select fingerprint, origin_ns from world").fetchone()
        if row is None:
            self._connection.execute("insert into world values (?, ?)", (fingerprint, now_ns))
            return now_ns
        if row[0] != fingerprint:
            raise SettingsError(f"{self.path}: this world was made by another scenario")
        return int(row[1])
