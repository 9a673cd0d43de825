"""Bringing the schema of a log to the present revision. The steps come with the wheel."""

from contextlib import suppress

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log.tables import REVISIONS


async def migrate(connection: AsyncConnection, begin: str) -> None:
    """Run what is missing, in one transaction: all of it stands afterwards, or nothing."""
    await connection.exec_driver_sql(begin)
    try:
        await connection.run_sync(_upgrade)
    except BaseException:
        # An interrupted call may have ended the connection, and the transaction with it.
        with suppress(SQLAlchemyError):
            await connection.exec_driver_sql("ROLLBACK")
        raise
    await connection.exec_driver_sql("COMMIT")


def _upgrade(connection: Connection) -> None:
    # Only here: a command that opens a log of the present revision does without Alembic.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "migrations:")
    config.attributes["connection"] = connection
    command.upgrade(config, REVISIONS[-1])
