"""Where a log begins, with records of what stands there in place of a snapshot. Runs before the new code.

What an earlier release left there cannot be read any more: such a log begins without what led there, until its archive is joined.
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table again. Triggers name it, and find it again under its name."""
    kept = ("id", "position", "digest", "epoch", "purging")
    names = ", ".join(kept)
    row = op.get_bind().exec_driver_sql(f"SELECT {names} FROM log_base").one()  # noqa: S608  # names of ours
    op.drop_table("log_base")
    op.create_table(
        "log_base",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("purging", sa.Integer, nullable=False),
        sa.Column("base_digest", sa.Text),
        sa.Column("records", sa.LargeBinary),
        sa.CheckConstraint("id = 1", name="log_base_is_one_row"),
    )
    table = sa.table("log_base", *map(sa.column, kept))
    op.bulk_insert(table, [dict(zip(kept, row, strict=True))])
