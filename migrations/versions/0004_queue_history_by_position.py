"""The history of `queue_quota` is stored by queue, position and resource, so that a batch writes one page a queue.

Runs before the new code. The rows stay as they are.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Replace the table by one with the same rows and another order of its primary key."""
    op.execute("DROP VIEW queue_quota")
    op.drop_index("queue_quota_current", "queue_quota_history")
    op.rename_table("queue_quota_history", "queue_quota_before")
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "ALTER INDEX queue_quota_history_pkey RENAME TO queue_quota_before_pkey",
        )
    history = op.create_table(
        "queue_quota_history",
        *(sa.Column(column, type_, nullable=null) for column, type_, null in COLUMNS),
        sa.PrimaryKeyConstraint("queue", "from_position", "resource"),
        sqlite_with_rowid=False,
    )
    named = ", ".join(column for column, _, _ in COLUMNS)
    op.execute(
        f"INSERT INTO queue_quota_history ({named}) SELECT {named} FROM queue_quota_before "  # noqa: S608  # names of ours
        "ORDER BY queue, from_position, resource"
    )
    op.drop_table("queue_quota_before")
    is_current = history.c.to_position.is_(None)
    op.create_index(
        "queue_quota_current",
        "queue_quota_history",
        ["queue", "resource"],
        sqlite_where=is_current,
        postgresql_where=is_current,
    )
    shown = ", ".join(column for column, _, _ in COLUMNS[:-2])
    op.execute(
        f"CREATE VIEW queue_quota AS SELECT {shown} FROM queue_quota_history WHERE to_position IS NULL"  # noqa: S608  # names of ours
    )


BIG = sa.BigInteger()
TEXT = sa.Text()

COLUMNS: "tuple[tuple[str, sa.BigInteger | sa.Text, bool], ...]" = (
    ("queue", TEXT, False),
    ("resource", TEXT, False),
    ("capability", BIG, True),
    ("guarantee", BIG, False),
    ("deserved", BIG, False),
    ("allocated", BIG, False),
    ("inqueue", BIG, False),
    ("request", BIG, False),
    ("elastic", BIG, False),
    ("from_position", BIG, False),
    ("to_position", BIG, True),
)
"""Column name, type, and whether null may stand there."""
