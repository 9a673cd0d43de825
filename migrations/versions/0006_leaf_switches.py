"""The view of leaf switches and its history: what each switch is for jobs, and which are on it.

Runs before the new code, which fills it from the records.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the history, an index of its current rows, and a view of these."""
    history = op.create_table(
        "switch_state_history",
        *(sa.Column(column, type_, nullable=False) for column, type_ in COLUMNS),
        sa.Column("from_position", BIG, nullable=False),
        sa.Column("to_position", BIG, nullable=True),
        sa.PrimaryKeyConstraint("switch", "from_position"),
        sqlite_with_rowid=False,
    )
    is_current = history.c.to_position.is_(None)
    op.create_index(
        "switch_state_current",
        "switch_state_history",
        ["switch"],
        sqlite_where=is_current,
        postgresql_where=is_current,
    )
    named = ", ".join(column for column, _ in COLUMNS)
    op.execute(
        f"CREATE VIEW switch_state AS SELECT {named} FROM switch_state_history WHERE to_position IS NULL"  # noqa: S608  # names of ours
    )


BIG = sa.BigInteger()
TEXT = sa.Text()

COLUMNS: "tuple[tuple[str, sa.BigInteger | sa.Text], ...]" = (
    ("switch", TEXT),
    ("state", TEXT),
    ("healthy", BIG),
    ("servers", BIG),
    ("nodes", BIG),
    ("crossing", TEXT),
    ("jobs", TEXT),
)
"""Column name and type."""
