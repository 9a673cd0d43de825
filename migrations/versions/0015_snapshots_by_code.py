"""Snapshots by the code that wrote them. They are a cache: those of earlier releases are thrown away. Runs before the new code."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table again, empty."""
    op.drop_table("snapshot")
    op.create_table(
        "snapshot",
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("position", "code"),
    )
