"""Runs the migrations on the connection it is handed, one process at a time.

There is no downgrade: the log only grows, and an older release refuses a newer schema.
"""

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection, text

from daemon.log.tables import metadata

ADVISORY_LOCK = 0x6D757374
"""Held on PostgreSQL while a migration runs, so that two processes never migrate at once."""
LOCK_TIMEOUT = "10s"
STATEMENT_TIMEOUT = "600s"


def _bound_the_waits(connection: Connection) -> None:
    """On SQLite the transaction that the caller began is the lock, and `busy_timeout` the bound."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"))
        connection.execute(text(f"SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'"))
        connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))


def _run() -> None:
    connection = context.config.attributes.get("connection")
    if not isinstance(connection, Connection):
        raise CommandError("no connection was given; `muster migrate` hands one over")
    _bound_the_waits(connection)
    context.configure(connection=connection, target_metadata=metadata, compare_type=True)
    context.run_migrations()


_run()
