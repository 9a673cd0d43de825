"""The log, its objects, its head, snapshots, and where each view stands.

Runs before the new code.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

APPEND_ONLY = ("log", "objects")


def upgrade() -> None:
    """Create the tables, forbid to change what was appended, and write the head of an empty log."""
    _create_log()
    _create_beside()
    if op.get_bind().dialect.name == "postgresql":
        _forbid_changes_on_postgresql()
    else:
        _forbid_changes_on_sqlite()
    op.bulk_insert(
        sa.table("log_head", *map(sa.column, ("id", "position", "digest", "epoch", "format"))),
        [{"id": 1, "position": 0, "digest": "0" * 64, "epoch": 0, "format": 2}],
    )


def _create_log() -> None:
    position = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "log",
        sa.Column("position", position, primary_key=True, autoincrement=False),
        sa.Column("batch", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("recorded_at_ns", sa.BigInteger, nullable=False),
        sa.Column("cycle", sa.BigInteger),
        sa.Column("cause", sa.BigInteger),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("object", sa.Text),
        sa.Column("digest", sa.Text, nullable=False),
    )
    op.create_index("log_subject", "log", ["subject", "position"])
    op.create_table(
        "objects",
        sa.Column("digest", sa.Text, primary_key=True),
        sa.Column("codec", sa.Text, nullable=False),
        sa.Column("bytes", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "log_head",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.CheckConstraint("id = 1", name="log_head_is_one_row"),
    )


def _create_beside() -> None:
    op.create_table(
        "snapshot",
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("payload", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("position", "version"),
    )
    op.create_table(
        "projection",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("checksum", sa.Text, nullable=False),
    )


def _forbid_changes_on_sqlite() -> None:
    for table in APPEND_ONLY:
        for verb in ("update", "delete"):
            op.execute(
                f"CREATE TRIGGER {table}_no_{verb} BEFORE {verb.upper()} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table} is append only'); END"
            )
    # INSERT OR REPLACE deletes without asking the triggers above. An object that is there already is
    # passed over, as an append means it.
    op.execute(
        "CREATE TRIGGER log_no_replace BEFORE INSERT ON log "
        "WHEN EXISTS (SELECT 1 FROM log WHERE position = NEW.position) "
        "BEGIN SELECT RAISE(ABORT, 'log is append only'); END"
    )
    op.execute(
        "CREATE TRIGGER objects_no_replace BEFORE INSERT ON objects "
        "WHEN EXISTS (SELECT 1 FROM objects WHERE digest = NEW.digest) "
        "BEGIN SELECT RAISE(IGNORE); END"
    )


def _forbid_changes_on_postgresql() -> None:
    op.execute(
        "CREATE FUNCTION muster_append_only() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN RAISE EXCEPTION '% is append only', TG_TABLE_NAME; END $$"
    )
    for table in APPEND_ONLY:
        op.execute(
            f"CREATE TRIGGER {table}_no_change BEFORE UPDATE OR DELETE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION muster_append_only()"
        )
        op.execute(
            f"CREATE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION muster_append_only()"
        )
