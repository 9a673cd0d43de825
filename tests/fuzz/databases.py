"""Fresh logs for cases: in memory, in SQLite and in PostgreSQL."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Final

from daemon.log.contract import Log
from daemon.log.memory import Memory, MemoryLog
from daemon.log.opening import open_log
from events.record import GENESIS
from tests.fuzz.harness import OpenLog
from tests.integration.postgres.conftest import TEMPLATE, execute, make_template, started

Fresh = Callable[[], OpenLog]
"""Makes an empty log; what it returns opens that log, as often as the daemon starts."""

KINDS: Final = ("memory", "sqlite", "postgresql")


@contextmanager
def databases(kind: str, folder: Path) -> Iterator[Fresh]:
    """Fresh logs of a kind, for as long as the block lasts. SQLite keeps its files in a folder."""
    if kind == "memory":
        yield in_memory
    elif kind == "sqlite":
        yield _in_sqlite(folder)
    else:
        server = started()
        try:
            asyncio.run(make_template(server))
            numbers = count(1)

            def fresh() -> OpenLog:
                name = f"fuzz_{next(numbers)}"
                asyncio.run(execute(server, f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}"))
                return _at(server.url(name))

            yield fresh
        finally:
            server.close()


def in_memory() -> OpenLog:
    """A log in memory."""
    memory = Memory()

    async def opened() -> MemoryLog:
        log = MemoryLog(memory)
        log.base = GENESIS
        return log

    return opened


def _in_sqlite(folder: Path) -> Fresh:
    template = folder / "template.db"

    async def make() -> None:
        await (await open_log(str(template), "write")).close()

    asyncio.run(make())
    numbers = count(1)

    def fresh() -> OpenLog:
        number = next(numbers)
        path = folder / f"case-{number}.db"
        for left in folder.glob(f"case-{number - 1}.db*"):
            left.unlink()
        shutil.copy(template, path)
        return _at(str(path))

    return fresh


def _at(url: str) -> OpenLog:
    async def opened() -> Log:
        return await open_log(url, "write")

    return opened
