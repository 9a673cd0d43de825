"""Where a log begins: the head before its first record, and the facts there if earlier records are in an archive.

Records at or before that position may be deleted, and so may objects while `purging` is 1; nothing else. Runs before the
new code.
"""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table with the beginning of a whole log, and let deletions of archived records through."""
    op.create_table(
        "log_base",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("purging", sa.Integer, nullable=False),
        sa.Column("facts_version", sa.Integer),
        sa.Column("facts", sa.LargeBinary),
        sa.CheckConstraint("id = 1", name="log_base_is_one_row"),
    )
    op.bulk_insert(
        sa.table("log_base", *map(sa.column, ("id", "position", "digest", "epoch", "purging"))),
        [{"id": 1, "position": 0, "digest": "0" * 64, "epoch": 0, "purging": 0}],
    )
    if op.get_bind().dialect.name == "postgresql":
        _allow_on_postgresql()
    else:
        _allow_on_sqlite()


def _allow_on_sqlite() -> None:
    for table, condition in (
        ("log", "OLD.position > (SELECT position FROM log_base)"),
        ("objects", "(SELECT purging FROM log_base) = 0"),
    ):
        op.execute(f"DROP TRIGGER {table}_no_delete")
        op.execute(
            f"CREATE TRIGGER {table}_no_delete BEFORE DELETE ON {table} WHEN {condition} "
            f"BEGIN SELECT RAISE(ABORT, '{table} is append only'); END"
        )


def _allow_on_postgresql() -> None:
    op.execute(
        "CREATE OR REPLACE FUNCTION muster_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN "
        "IF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'log' THEN "
        "IF OLD.position <= (SELECT position FROM log_base) THEN RETURN OLD; END IF; "
        "ELSIF TG_OP = 'DELETE' AND TG_TABLE_NAME = 'objects' THEN "
        "IF (SELECT purging FROM log_base) = 1 THEN RETURN OLD; END IF; "
        "END IF; "
        "RAISE EXCEPTION '% is append only', TG_TABLE_NAME; END $$"
    )
