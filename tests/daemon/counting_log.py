"""A log that counts what is read of it."""

from collections.abc import AsyncIterator

from daemon.log.entry import Entry
from daemon.log.memory import MemoryLog


class CountingLog(MemoryLog):
    """A log in memory that counts the records that are read."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    async def read(self, after: int = 0, until: int | None = None) -> AsyncIterator[list[Entry]]:
        """Read, and count."""
        async for entries in super().read(after, until):
            self.count += len(entries)
            yield entries
