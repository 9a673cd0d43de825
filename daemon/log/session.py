"""The writing connection: transactions, and what is known when one of them fails."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log.database import DRIVER_ERRORS, Append, Database, Script, located
from daemon.log.reading import check_head, head_of
from events.errors import FencedError, LogError, LogUnavailableError, LostRecordsError
from events.record import Head

RECONNECT_SECONDS = 20.0
"""How long to try to learn whether a commit whose answer was lost took place: longer than the
database keeps the transaction of a client that is gone."""
RETRY_SECONDS = 0.25
CLOSE_SECONDS = 5.0
"""The longest that a connection is waited for when it is let go in good order; then it is cut."""

Faults: TypeAlias = Callable[[str], None]
"""Called at `before_commit`, `inside_commit` (all is written, not committed) and `after_commit`."""
Work: TypeAlias = Callable[[AsyncConnection], Awaitable[None]]


class Session:
    """One writing connection at a time. It is thrown away with whatever failed on it."""

    def __init__(self, database: Database, faults: Faults) -> None:
        self._database = database
        self._faults = faults
        self._connection: AsyncConnection | None = None

    @property
    def is_open(self) -> bool:
        """Whether there is a connection to write over."""
        return self._connection is not None

    async def open(self, connection: AsyncConnection) -> Head:
        """Write over this connection from now on, if the log is sound where it ends."""
        self._connection = connection
        return await self._explained(check_head(connection, self._database))

    async def append(
        self, script: Callable[[], Script], size: int, before: Head, after: Head
    ) -> None:
        """Move the head and execute a script in a transaction. Where its answer is lost, the head tells whether it took
        place. The script is made beside the event loop; `size` is the number of objects that are packed for it."""
        connection = self._connection
        assert connection is not None
        step = Append(_move(before, after), script, size, self._faults)
        try:
            self._faults("before_commit")
            is_moved = await self._database.append(connection, step)
        except DRIVER_ERRORS as error:
            await self.discard()
            failure = await located(self._database, error)
            if not step.is_committing or not await self._took_place(after):
                raise failure from error
        except BaseException:
            await self.discard()
            raise
        else:
            if not is_moved:
                raise await self._refused(before)

    async def transaction(self, work: Work) -> None:
        """Do work in a transaction. A lost answer is a failure: the caller finds out whether it took place."""
        connection = self._connection
        assert connection is not None
        try:
            self._faults("before_commit")
            await connection.exec_driver_sql(self._database.statements.begin)
            await work(connection)
            self._faults("inside_commit")
        except LogError:
            await self._roll_back(connection)
            raise
        except DRIVER_ERRORS as error:
            await self.discard()
            raise await located(self._database, error) from error
        except BaseException:
            await self.discard()
            raise
        await self._commit(connection)

    async def reconnect(self, known: Head) -> Head:
        """A new connection, and the head once no transaction of the old one can move it any more.

        LostRecordsError if the log does not hold the head that is known to have been durable.
        """
        await self.discard()
        return await self._explained(self._reconnected(known))

    async def check(self, known: Head) -> None:
        """Raise LostRecordsError if the log does not hold a head that is known to have been durable."""
        connection = self._connection
        assert connection is not None
        async with self._discarding():
            self._database.check_files(known)
            head = await self._head(connection)
            loss = await self._loss(connection, known, head)
        if loss is not None:
            raise loss

    async def close(self) -> None:
        """Let the connection go in good order."""
        if (connection := self._connection) is None:
            return
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await connection.close()
        except TimeoutError:
            await self.discard()
        self._connection = None

    async def discard(self) -> None:
        """Throw the connection away. Whatever it had not committed is undone by the database."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            await connection.invalidate()
            await connection.close()
        except DRIVER_ERRORS:
            return  # It was lost already, which is why it goes.

    async def take_over(self, connection: AsyncConnection, before: Head, after: Head) -> None:
        """Move the head away from the writer that held it, or learn that someone else did."""
        await self._database.end_stalled_writers(connection)
        sql = self._database.statements.swap_head
        if (await connection.exec_driver_sql(sql, _move(before, after))).rowcount != 1:
            raise self._fenced(before)

    async def _reconnected(self, known: Head) -> Head:
        head = await self._reconnect()
        assert self._connection is not None
        if (loss := await self._loss(self._connection, known, head)) is not None:
            raise loss
        return head

    async def _head(self, connection: AsyncConnection) -> Head:
        row = (await connection.exec_driver_sql(self._database.statements.read_head)).one_or_none()
        return head_of(tuple(row or ()), self._database.place)

    async def _refused(self, before: Head) -> LogError:
        """Why the head was not moved: another writer moved it, or the log lost its end."""
        connection = self._connection
        assert connection is not None
        try:
            loss = await self._loss(connection, before, await self._head(connection))
        except DRIVER_ERRORS as error:
            await self.discard()
            return await located(self._database, error)
        return loss or self._fenced(before)

    async def _loss(
        self, connection: AsyncConnection, known: Head, head: Head
    ) -> LostRecordsError | None:
        """Compare a log with a head that was durable in it."""
        place, digest = self._database.place, head.digest
        advice = "the next start says what is lost and how to go on"
        if head.position < known.position:
            return LostRecordsError(
                f"{place}: position {known.position}: lost: the log ends at position {head.position}, but position "
                f"{known.position} was durable while this process wrote it; {advice}"
            )
        if known.position == 0:
            return None
        if head.position > known.position:
            digest = await self._digest_at(known.position) or ""
            base = (await connection.exec_driver_sql(self._database.statements.read_base)).first()
            if not digest and base is not None and base[0] >= known.position:
                return None  # Archived meanwhile.
        if digest == known.digest:
            return None
        return LostRecordsError(
            f"{place}: position {known.position}: lost: the log ends at position {head.position} and has digest "
            f"{digest or '(none)'} at position {known.position}, which was durable with digest {known.digest} while this process "
            f"wrote it; {advice}"
        )

    def _fenced(self, before: Head) -> FencedError:
        return FencedError(
            f"{self._database.place}: its head is no longer at position {before.position} "
            f"of epoch {before.epoch}: someone else writes this log"
        )

    async def _commit(self, connection: AsyncConnection) -> None:
        async with self._discarding():
            await connection.exec_driver_sql("COMMIT")
            self._faults("after_commit")

    @asynccontextmanager
    async def _discarding(self) -> AsyncIterator[None]:
        """Throw the connection away where anything fails."""
        try:
            yield
        except DRIVER_ERRORS as error:
            await self.discard()
            raise await located(self._database, error) from error
        except BaseException:
            await self.discard()
            raise

    async def _took_place(self, after: Head) -> bool:
        """Whether the log goes through `after`. A digest of ours in the log is ours alone."""
        try:
            async with asyncio.timeout(RECONNECT_SECONDS):
                head = await self._reconnect_until_it_works()
        except TimeoutError as error:
            raise LogUnavailableError(
                f"{self._database.place}: the answer to a commit was lost, and the log cannot be "
                f"reached to learn whether it holds position {after.position}"
            ) from error
        return head == after or await self._digest_at(after.position) == after.digest

    async def _reconnect_until_it_works(self) -> Head:
        while True:
            try:
                return await self._reconnect()
            except DRIVER_ERRORS:
                await asyncio.sleep(RETRY_SECONDS)

    async def _digest_at(self, position: int) -> str | None:
        assert self._connection is not None
        rows = await self._connection.exec_driver_sql(
            self._database.statements.digest_at, (position,)
        )
        found: str | None = rows.scalar()
        return found

    async def _reconnect(self) -> Head:
        database = self._database
        connection = await database.connect()
        self._connection = connection
        try:
            await database.end_stalled_writers(connection)
            await connection.exec_driver_sql(database.statements.begin)
            row = (await connection.exec_driver_sql(database.statements.lock_head)).one_or_none()
            await connection.exec_driver_sql("COMMIT")
        except BaseException:
            await self.discard()
            raise
        return head_of(tuple(row or ()), database.place)

    async def _explained(self, work: Awaitable[Head]) -> Head:
        try:
            return await work
        except DRIVER_ERRORS as error:
            await self.discard()
            raise await located(self._database, error) from error
        except BaseException:
            # Also where the log is damaged at its end: the connection is not used any more.
            await self.discard()
            raise

    async def _roll_back(self, connection: AsyncConnection) -> None:
        try:
            await connection.exec_driver_sql("ROLLBACK")
        except DRIVER_ERRORS:
            await self.discard()


def _move(before: Head, after: Head) -> tuple[int, str, int, int, str, int]:
    """The parameters of `swap_head`."""
    return (
        after.position,
        after.digest,
        after.epoch,
        before.position,
        before.digest,
        before.epoch,
    )
