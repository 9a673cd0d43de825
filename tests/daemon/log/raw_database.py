"""Access to the database of a log by SQL, past the log: to damage it, and to read it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

Rows = list[tuple[object, ...]]
_TRIGGERS = (
    *("log_no_update", "log_no_delete", "log_no_replace"),
    *("objects_no_update", "objects_no_delete", "objects_no_replace"),
    *("log_signature_no_update", "log_signature_no_delete"),
)


class RawDatabase:
    """SQL on the database behind a log."""

    def __init__(self, url: str) -> None:
        """`url` as SQLAlchemy takes it, with an asyncio driver."""
        self._url = url

    async def run(self, sql: str, **parameters: object) -> Rows:
        """Run a statement and commit; its rows."""
        async with self.connection() as connection:
            return await self._on(connection, sql, parameters)

    async def force(self, sql: str, **parameters: object) -> None:
        """Run a statement that the triggers would refuse."""
        async with self.connection() as connection:
            if connection.dialect.name == "postgresql":
                await self._on(connection, "SET LOCAL session_replication_role = replica", {})
                await self._on(connection, sql, parameters)
                return
            kept = await self._on(
                connection, "SELECT sql FROM sqlite_master WHERE type = 'trigger'", {}
            )
            for name in _TRIGGERS:
                await self._on(connection, f"DROP TRIGGER {name}", {})
            await self._on(connection, sql, parameters)
            for (trigger,) in kept:
                await connection.exec_driver_sql(str(trigger))

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction, for this once."""
        engine = create_async_engine(self._url, poolclass=NullPool)
        try:
            async with engine.begin() as connection:
                yield connection
        finally:
            await engine.dispose()

    async def _on(
        self, connection: AsyncConnection, sql: str, parameters: dict[str, object]
    ) -> Rows:
        result = await connection.execute(text(sql), parameters)
        return [tuple(row) for row in result] if result.returns_rows else []
