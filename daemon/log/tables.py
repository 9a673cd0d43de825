"""The tables of a log, as they stand after every migration.

`log` and `objects` are append only (triggers of the first migration); `log_head` is one row that
every append compares and swaps; `snapshot` only saves time; the rest are views and where they stand. Of a view with a
history only the history is stored; the current rows are an SQL view of it. Views that show times are stored in `<name>_rows`; their
names, and `<name>_history`, are SQL views that add the times of the records (migration 0008).
"""

from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Select,
    Table,
    Text,
    literal_column,
    or_,
    select,
)

from projections.views.catalogue import VIEWS
from projections.views.rows import View

REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
    "0010",
    "0011",
    "0012",
    "0013",
    "0014",
    "0015",
)
"""The schema revisions that this release knows, oldest first."""

metadata = MetaData()

_POSITION = BigInteger().with_variant(Integer(), "sqlite")
"""SQLite makes a column the row id itself only where its type is spelled INTEGER."""

CYCLE_KINDS: Final = ("cycle_opened.v1", "cycle_opened.v2")
"""The kinds of records that open a cycle, those of earlier releases included."""

FOUND_BY_KIND: Final = (
    *CYCLE_KINDS,
    "eviction_decided.v1",
    "release_decided.v1",
    "reschedule_decided.v1",
)
"""Kinds of records with an index: the cycles, and the decisions that a pod group has effects of without being their subject."""

log = Table(
    "log",
    metadata,
    Column("position", _POSITION, primary_key=True, autoincrement=False),
    Column("batch", BigInteger, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("recorded_at_ns", BigInteger, nullable=False),
    Column("cycle", BigInteger),
    Column("cause", BigInteger),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("object", Text),
    Column("digest", Text, nullable=False),
    Index("log_subject", "subject", "position"),
    Index("log_recorded_at", "recorded_at_ns", "position"),
)
"""One row a record. One index serves the history of a subject; one finds the position of a time, and grows at its end only; one holds few
kinds. Each more would cost every append."""

_IS_FOUND_BY_KIND = or_(*(log.c.kind == literal_column(f"'{kind}'") for kind in FOUND_BY_KIND))
Index(
    "log_kind",
    log.c.kind,
    log.c.position,
    sqlite_where=_IS_FOUND_BY_KIND,
    postgresql_where=_IS_FOUND_BY_KIND,
)

objects = Table(
    "objects",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("codec", Text, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
)
"""Kubernetes objects by the digest of their content."""

log_head = Table(
    "log_head",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("format", Integer, nullable=False),
    CheckConstraint("id = 1", name="log_head_is_one_row"),
)
"""Where the log ends, whose turn it is to append, and the format of the log."""

log_base = Table(
    "log_base",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("purging", Integer, nullable=False),
    Column("base_digest", Text),
    Column("records", LargeBinary),
    CheckConstraint("id = 1", name="log_base_is_one_row"),
)
"""The head before the first record, and the records of what stands there (`daemon/log/base_records.py`) with the digest of the last one; none
in a log that begins with the first record.
Records at or before it are archived: they are not read, and are deleted step by step. `purging` is 1 while objects may be deleted."""

snapshot = Table(
    "snapshot",
    metadata,
    Column("position", BigInteger, nullable=False),
    Column("code", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    PrimaryKeyConstraint("position", "code"),
)
"""State at a position, zstd-compressed. `digest` is that of the record at `position`."""

log_signature = Table(
    "log_signature",
    metadata,
    Column("position", BigInteger, nullable=False),
    Column("key", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("signed_at_ns", BigInteger, nullable=False),
    Column("signature", Text, nullable=False),
    PrimaryKeyConstraint("position", "key"),
)
"""Signed heads of the log (`daemon/log/signatures.py`)."""

projection = Table(
    "projection",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("checksum", Text, nullable=False),
)
"""Where each view stands: the code version that wrote it, the position, and the checksum (hex)."""

_INDEXES = {"placement": ("pod",), "decision": ("subject",), "outcome": ("decision",)}
"""View to the column people look it up by, beside its key."""

_HISTORY_KEYS = {"queue_quota": ("queue", "from_position", "resource")}
"""View to the primary key of its history, in the order in which the rows are stored, where that is another than the key
and `from_position`. A pod that comes changes all resources of its queue: their new rows stand on one page."""


_WITH_TIMES = ("placement", "decision", "outcome")
"""Views without a history that show times."""


def table_name(view: View) -> str:
    """Return the name of the table in which the rows of a view are stored."""
    return f"{view.name}_rows" if view.history or view.name in _WITH_TIMES else view.name


def sql_views(view: View) -> tuple[str, ...]:
    """Return the names of the SQL views that show the rows of a view; none if its table has its name."""
    if table_name(view) == view.name:
        return ()
    return (view.name, f"{view.name}_history") if view.history else (view.name,)


def table_of(view: View) -> Table:
    """Return the table in which the rows of a view are stored."""
    return metadata.tables[table_name(view)]


def current_rows(view: View, *more: str) -> Select[Any]:
    """Return a query of the current rows of a view: its columns, and `more` columns of its table."""
    table = table_of(view)
    query = select(*(table.c[name] for name in (*view.column_names, *more)))
    return query.where(table.c.to_position.is_(None)) if view.history else query


def _columns(view: View) -> list[Column[str] | Column[int]]:
    kinds = {"text": Text, "integer": BigInteger}
    columns: list[Column[str] | Column[int]] = []
    for name, type_name in view.columns:
        kind, _, null = type_name.partition(" ")
        columns.append(Column(name, kinds[kind], nullable=null == "null"))
    return columns


def _view_tables(view: View) -> None:
    keys = view.column_names[: view.keys]
    if not view.history:
        indexes = [Index(f"{view.name}_{c}", c) for c in _INDEXES.get(view.name, ())]
        Table(table_name(view), metadata, *_columns(view), PrimaryKeyConstraint(*keys), *indexes)
        return
    history = Table(
        table_name(view),
        metadata,
        *_columns(view),
        Column("from_position", BigInteger, nullable=False),
        Column("to_position", BigInteger),
        PrimaryKeyConstraint(*_HISTORY_KEYS.get(view.name, (*keys, "from_position"))),
        sqlite_with_rowid=False,
    )
    is_current = history.c.to_position.is_(None)
    columns = [history.c[key] for key in keys]
    Index(f"{view.name}_current", *columns, sqlite_where=is_current, postgresql_where=is_current)


for _view in VIEWS:
    _view_tables(_view)
