"""The view of faults and its history: each fault that stands, and what was done about it.

Runs before the new code, which fills it from the records.
"""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the history, an index of its current rows, and a view of these."""
    history = op.create_table(
        "fault_history",
        *(sa.Column(column, type_, nullable=False) for column, type_ in COLUMNS),
        sa.Column("from_position", BIG, nullable=False),
        sa.Column("to_position", BIG, nullable=True),
        sa.PrimaryKeyConstraint("node", "source", "device", "level", "code", "from_position"),
        sqlite_with_rowid=False,
    )
    is_current = history.c.to_position.is_(None)
    op.create_index(
        "fault_current",
        "fault_history",
        ["node", "source", "device", "level", "code"],
        sqlite_where=is_current,
        postgresql_where=is_current,
    )
    named = ", ".join(column for column, _ in COLUMNS)
    op.execute(
        f"CREATE VIEW fault AS SELECT {named} FROM fault_history WHERE to_position IS NULL"  # noqa: S608  # names of ours
    )


BIG = sa.BigInteger()
TEXT = sa.Text()

COLUMNS: "tuple[tuple[str, sa.BigInteger | sa.Text], ...]" = (
    ("node", TEXT),
    ("source", TEXT),
    ("device", TEXT),
    ("level", TEXT),
    ("code", TEXT),
    ("effect", TEXT),
    ("pods", BIG),
    ("done", TEXT),
    ("since_position", BIG),
    ("since_ns", BIG),
)
"""Column name and type."""
