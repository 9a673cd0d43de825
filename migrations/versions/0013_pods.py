"""The view of all pods and its history. Runs before the new code, which fills it from the records."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, an index of its current rows, and the SQL views of both."""
    rows = op.create_table(
        "pod_rows",
        *(sa.Column(column, sa.Text(), nullable=False) for column in COLUMNS),
        sa.Column("from_position", sa.BigInteger(), nullable=False),
        sa.Column("to_position", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("uid", "from_position"),
        sqlite_with_rowid=False,
    )
    is_current = rows.c.to_position.is_(None)
    op.create_index(
        "pod_current", "pod_rows", ["uid"], sqlite_where=is_current, postgresql_where=is_current
    )
    named = ", ".join(COLUMNS)
    times = [_recorded("from_position", "from_time"), _recorded("to_position", "to_time")]
    stretch = ", ".join(["from_position", "to_position", *times])
    op.execute(
        sa.text(f"CREATE VIEW pod AS SELECT {named} FROM pod_rows WHERE to_position IS NULL")  # noqa: S608  # names of ours
    )
    op.execute(sa.text(f"CREATE VIEW pod_history AS SELECT {named}, {stretch} FROM pod_rows"))  # noqa: S608


def _recorded(position: str, name: str) -> str:
    """A column with the time of the record at a position."""
    time = _readable("log.recorded_at_ns")
    return f"(SELECT {time} FROM log WHERE log.position = pod_rows.{position}) AS {name}"  # noqa: S608  # names of ours


def _readable(ns: str) -> str:
    if op.get_bind().dialect.name == "postgresql":
        seconds = f"to_timestamp({ns} / 1000000000) AT TIME ZONE 'UTC'"
        rest = f"lpad(({ns} / 1000000 % 1000)::text, 3, '0')"
        return f"to_char({seconds}, 'YYYY-MM-DD\"T\"HH24:MI:SS') || '.' || {rest} || 'Z'"
    seconds = f"strftime('%Y-%m-%dT%H:%M:%S', {ns} / 1000000000, 'unixepoch')"
    return f"{seconds} || printf('.%03dZ', {ns} / 1000000 % 1000)"


COLUMNS = (
    *("uid", "pod", "namespace", "owner", "labels"),
    *("pod_group", "queue", "cards", "evicted_for"),
)
