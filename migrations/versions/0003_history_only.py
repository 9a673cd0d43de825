"""Views with a history: only the history is stored, and the plain name is an SQL view of the current rows.

Runs before the new code, which fills the tables again from the records.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the two tables of each view by the history, an index of its current rows, and a view of these."""
    for name, columns in HISTORIED.items():
        op.drop_table(name)
        op.drop_table(f"{name}_history")
        history = op.create_table(
            f"{name}_history",
            *(sa.Column(column, type_, nullable=null) for column, type_, null in columns),
            sa.Column("from_position", BIG, nullable=False),
            sa.Column("to_position", BIG, nullable=True),
            sa.PrimaryKeyConstraint(*KEYS[name], "from_position"),
            sqlite_with_rowid=False,
        )
        is_current = history.c.to_position.is_(None)
        op.create_index(
            f"{name}_current",
            f"{name}_history",
            list(KEYS[name]),
            sqlite_where=is_current,
            postgresql_where=is_current,
        )
        named = ", ".join(column for column, _, _ in columns)
        op.execute(
            f"CREATE VIEW {name} AS SELECT {named} FROM {name}_history WHERE to_position IS NULL"  # noqa: S608  # names of ours
        )


BIG = sa.BigInteger()
TEXT = sa.Text()
Shape = tuple[str, sa.BigInteger | sa.Text, bool]
"""Column name, type, and whether null may stand there."""

KEYS: dict[str, tuple[str, ...]] = {
    "queue_quota": ("queue", "resource"),
    "node_card": ("node", "card"),
    "pod_group": ("pod_group",),
}

HISTORIED: dict[str, tuple[Shape, ...]] = {
    "queue_quota": (
        ("queue", TEXT, False),
        ("resource", TEXT, False),
        ("capability", BIG, True),
        ("guarantee", BIG, False),
        ("deserved", BIG, False),
        ("allocated", BIG, False),
        ("inqueue", BIG, False),
        ("request", BIG, False),
        ("elastic", BIG, False),
    ),
    "node_card": (
        ("node", TEXT, False),
        ("card", TEXT, False),
        ("resource", TEXT, False),
        ("total", BIG, False),
        ("healthy", BIG, False),
        ("allocated", BIG, False),
        ("free", BIG, False),
    ),
    "pod_group": (
        ("pod_group", TEXT, False),
        ("queue", TEXT, False),
        ("phase", TEXT, False),
        ("min_available", BIG, False),
        ("pods_bound", BIG, False),
        ("pods_wanted", BIG, False),
        ("priority", BIG, False),
        ("since_ns", BIG, False),
        ("code", TEXT, False),
    ),
}
