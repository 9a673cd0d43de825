"""The view of named devices: health, groups and pods of each.

Runs before the new code, which fills it from the records.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of the view."""
    op.create_table(
        "device",
        *(sa.Column(column, type_, nullable=False) for column, type_ in COLUMNS),
        sa.PrimaryKeyConstraint("node", "device"),
    )


BIG = sa.BigInteger()
TEXT = sa.Text()

COLUMNS: "tuple[tuple[str, sa.BigInteger | sa.Text], ...]" = (
    ("node", TEXT),
    ("device", TEXT),
    ("resource", TEXT),
    ("card", TEXT),
    ("product", TEXT),
    ("device_groups", TEXT),
    ("healthy", BIG),
    ("network_healthy", BIG),
    ("fault", TEXT),
    ("pod", TEXT),
)
"""Column name and type."""
