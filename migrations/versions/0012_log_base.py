"""Where the log begins: one row, which `log archive` moves. Runs before the new code."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table, and write the base of a log that begins with its first record."""
    op.create_table(
        "log_base",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Integer),
        sa.Column("facts", sa.LargeBinary),
        sa.CheckConstraint("id = 1", name="log_base_is_one_row"),
    )
    op.bulk_insert(
        sa.table("log_base", *map(sa.column, ("id", "position", "digest", "epoch"))),
        [{"id": 1, "position": 0, "digest": "0" * 64, "epoch": 0}],
    )
