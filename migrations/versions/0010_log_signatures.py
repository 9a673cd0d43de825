"""Signatures of heads of the log. Append only, like the log. Runs before the new code."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table of signatures, and forbid to change what stands in it."""
    op.create_table(
        "log_signature",
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("signed_at_ns", sa.BigInteger, nullable=False),
        sa.Column("signature", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("position", "key"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "CREATE TRIGGER log_signature_no_change BEFORE UPDATE OR DELETE ON log_signature "
            "FOR EACH ROW EXECUTE FUNCTION muster_append_only()"
        )
        return
    for verb in ("update", "delete"):
        op.execute(
            f"CREATE TRIGGER log_signature_no_{verb} BEFORE {verb.upper()} ON log_signature "
            "BEGIN SELECT RAISE(ABORT, 'log_signature is append only'); END"
        )
