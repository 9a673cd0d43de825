"""The SQL of a log, compiled once for a dialect from its tables.

Rows go to the driver as plain tuples in the order of the parameters: at tens of thousands a second,
nothing may be done to each of them in between.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import (
    ColumnElement,
    Dialect,
    LargeBinary,
    Select,
    Table,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ClauseElement

from daemon.log import tables
from projections.views.catalogue import VIEWS
from projections.views.rows import View


class ViewSql(Struct, frozen=True):
    """How the rows of one view are written: with `remove` and `upsert`, or with `close`, `open` and `insert` if it has a
    history. The others are empty."""

    remove: str = ""
    upsert: str = ""
    close: str = ""
    open: str = ""
    insert: str = ""
    """A row of a history that has ended."""


class Statements(Struct, frozen=True):
    """Every statement that is run often, with its parameters in the order of its docstring."""

    begin: str
    insert_log: str
    """A row of `log`."""
    insert_object: str
    """A row of `objects`; one that is there already stays as it is."""
    swap_head: str
    """New position, digest, epoch; expected position, digest, epoch."""
    read_head: str
    """The head and format."""
    read_end: str
    """The head and format, position and digest of the last record, then position and digest of the base."""
    read_base: str
    """Position, digest and epoch of the base, and the version of its facts."""
    lock_head: str
    """The head and format, once no other transaction is about to move it."""
    digest_at: str
    """A position."""
    position_at: str
    """A time in nanoseconds."""
    read_rows: str
    """After position, until position. Columns of `log`, then codec and bytes of the object."""
    advance_views: str
    """New position, expected position: a view that was behind stays behind."""
    mark_view: str
    """A row of `projection`."""
    views: dict[str, ViewSql]


def statements(dialect: Dialect) -> Statements:
    """The statements in the words of one database."""
    on_postgresql = dialect.name == "postgresql"
    head = tables.log_head
    fields = (head.c.position, head.c.digest, head.c.epoch)
    expected = [column == bindparam(f"expected_{column.name}") for column in fields]
    read_head = select(*fields, head.c.format)
    log = tables.log
    base = tables.log_base
    begin = select(base.c.position).scalar_subquery()
    begin_digest = select(base.c.digest).scalar_subquery()
    last = select(func.max(log.c.position)).where(log.c.position > begin).scalar_subquery()
    last_digest = select(log.c.digest).where(log.c.position == last).scalar_subquery()
    projection = tables.projection
    advance = update(projection).values(position=bindparam("to"))

    def sql(statement: ClauseElement, names: Sequence[str] = ()) -> str:
        return _compiled(statement, dialect, names)

    return Statements(
        begin="BEGIN" if on_postgresql else "BEGIN IMMEDIATE",
        insert_log=sql(insert(tables.log), tables.log.c.keys()),
        insert_object=sql(_insert_new(tables.objects, dialect), tables.objects.c.keys()),
        swap_head=sql(
            update(head)
            .values({column.name: bindparam(f"new_{column.name}") for column in fields})
            .where(*expected),
            [f"{which}_{column.name}" for which in ("new", "expected") for column in fields],
        ),
        read_head=sql(read_head),
        read_end=sql(read_head.add_columns(last, last_digest, begin, begin_digest)),
        read_base=sql(select(base.c.position, base.c.digest, base.c.epoch, base.c.base_digest)),
        lock_head=sql(read_head.with_for_update() if on_postgresql else read_head),
        digest_at=sql(select(log.c.digest).where(log.c.position == bindparam("at")), ("at",)),
        position_at=sql(
            select(log.c.position)
            .where(log.c.recorded_at_ns <= bindparam("at"))
            .order_by(log.c.recorded_at_ns.desc(), log.c.position.desc()),
            ("at",),
        )
        + " LIMIT 1",
        read_rows=_read_rows(dialect),
        advance_views=sql(
            advance.where(projection.c.position == bindparam("expected")), ("to", "expected")
        ),
        mark_view=sql(_upsert(projection, dialect), projection.c.keys()),
        views={view.name: _view_sql(view, dialect) for view in VIEWS},
    )


def _compiled(statement: ClauseElement, dialect: Dialect, names: Sequence[str]) -> str:
    """The text of a statement, whose parameters must come in the order of `names`."""
    compiled = statement.compile(dialect=dialect)
    assert isinstance(compiled, SQLCompiler)
    found = compiled.positiontup or []
    assert list(names) == found, f"parameters {found}, not {names}"
    return str(compiled)


def _insert_new(table: Table, dialect: Dialect) -> ClauseElement:
    if dialect.name == "postgresql":
        return postgresql.insert(table).on_conflict_do_nothing()
    return sqlite.insert(table).on_conflict_do_nothing()


def _upsert(table: Table, dialect: Dialect) -> ClauseElement:
    key = list(table.primary_key.columns)
    rest = [column.name for column in table.columns if not column.primary_key]
    if dialect.name == "postgresql":
        put = postgresql.insert(table)
        return put.on_conflict_do_update(
            index_elements=key, set_={n: put.excluded[n] for n in rest}
        )
    place = sqlite.insert(table)
    return place.on_conflict_do_update(
        index_elements=key, set_={n: place.excluded[n] for n in rest}
    )


def select_entries(dialect: Dialect) -> Select[Any]:
    """Select records with codec and bytes of their objects, in order.

    The body comes undecoded: it is hashed, and in a damaged file it may be anything.
    """
    log, objects = tables.log, tables.objects
    utf8: ColumnElement[str] = literal_column("'UTF8'")
    on_sqlite = dialect.name == "sqlite"
    body = cast(log.c.body, LargeBinary) if on_sqlite else func.convert_to(log.c.body, utf8)
    columns = [body if column.name == "body" else column for column in log.columns]
    return (
        select(*columns, objects.c.codec, objects.c.bytes)
        .select_from(log.outerjoin(objects, log.c.object == objects.c.digest))
        .order_by(log.c.position)
    )


def _read_rows(dialect: Dialect) -> str:
    position = tables.log.c.position
    rows = select_entries(dialect).where(
        position > bindparam("after"), position <= bindparam("until")
    )
    return _compiled(rows, dialect, ("after", "until"))


def _view_sql(view: View, dialect: Dialect) -> ViewSql:
    table = tables.table_of(view)
    keys = view.column_names[: view.keys]
    if not view.history:
        remove = delete(table).where(*(table.c[name] == bindparam(f"key_{name}") for name in keys))
        return ViewSql(
            remove=_compiled(remove, dialect, [f"key_{name}" for name in keys]),
            upsert=_compiled(_upsert(table, dialect), dialect, view.column_names),
        )
    named = (*keys, "from_position")
    close = (
        update(table)
        .values(to_position=bindparam("to"))
        .where(*(table.c[name] == bindparam(f"key_{name}") for name in named))
    )
    whole = [*view.column_names, "from_position"]
    begin = insert(table).values({name: bindparam(name) for name in whole})
    ended = [*whole, "to_position"]
    return ViewSql(
        close=_compiled(close, dialect, ["to", *(f"key_{name}" for name in named)]),
        open=_compiled(begin, dialect, whole),
        insert=_compiled(insert(table), dialect, ended),
    )
