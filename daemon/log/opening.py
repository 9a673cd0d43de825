"""From what a user calls a log to an open log."""

from pathlib import Path
from typing import Literal, TypeAlias

from daemon.log.session import Faults
from daemon.log.sqlite import SqliteDatabase
from daemon.log.store import SqlLog, no_faults, open_for_reading, open_for_writing

Mode: TypeAlias = Literal["read", "write"]


async def open_log(url: str, mode: Mode = "read", *, faults: Faults = no_faults) -> SqlLog:
    if mode == "write":
        return await open_for_writing(SqliteDatabase(Path(url.removeprefix("sqlite:///"))), faults)
    return await open_for_reading(SqliteDatabase(Path(url.removeprefix("sqlite:///"))))
