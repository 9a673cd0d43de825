"""A new SQLite file out of the records of a torn one.

Everything but records, objects and head can be rebuilt from them. They are read without any index and written into
a new file, which is verified before it takes the place of the old one. The old one is kept, untouched.
"""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote

from daemon.log.sqlite import BESIDE, SqliteDatabase
from daemon.log.store import open_for_reading, open_for_writing
from daemon.log.verify import verify
from events.errors import DamagedLogError, LogError

KEPT: Final = ".damaged"
"""What is added to the name of the old file."""

_NEW: Final = ".renewed"
_COPY: Final = (
    "INSERT INTO log SELECT * FROM old.log NOT INDEXED ORDER BY position",
    "INSERT INTO objects SELECT * FROM old.objects NOT INDEXED",
    "DELETE FROM log_head",
    "INSERT INTO log_head SELECT * FROM old.log_head",
    "DELETE FROM log_base",
    "INSERT INTO log_base SELECT * FROM old.log_base",
)


async def renew(path: Path) -> Path:
    """Put a whole file in the place of a torn one; where the old one is kept.

    `DamagedLogError` where records, objects or the head are damaged themselves: then nothing is changed.
    """
    lock = SqliteDatabase(path)
    await lock.lock()
    new = path.with_name(f"{path.name}{_NEW}")
    try:
        _remove(new)
        # Makes the schema.
        await (await open_for_writing(SqliteDatabase(new))).close()
        await asyncio.to_thread(_copy, path, new)
        log = await open_for_reading(SqliteDatabase(new))
        try:
            await verify(log)
        finally:
            await log.close()
        kept = await asyncio.to_thread(_swap, path, new)
        lock.acquit()
    finally:
        _remove(new)
        await lock.close()
    return kept


def _swap(path: Path, new: Path) -> Path:
    """Put the new file in the place of the old one, with what stands beside each."""
    number = 0
    while (kept := Path(f"{path}{KEPT}{f'-{number}' if number else ''}")).exists():
        number += 1
    for suffix in ("", *BESIDE):
        beside = Path(f"{path}{suffix}")
        if beside.exists():
            beside.replace(f"{kept}{suffix}")
    new.replace(path)
    return kept


def _copy(path: Path, new: Path) -> None:
    name = f"file:{quote(str(path.absolute()))}?mode=ro"
    with closing(sqlite3.connect(f"file:{quote(str(new.absolute()))}?mode=rw", uri=True)) as target:
        try:
            target.execute("ATTACH ? AS old", (name,))
            with target:
                for statement in _COPY:
                    target.execute(statement)
        except (sqlite3.DatabaseError, UnicodeError) as error:
            raise _explained(path, error) from error


def _explained(path: Path, error: Exception) -> LogError:
    message = f"{path}: its records cannot be read: {error}; restore the newest backup"
    return DamagedLogError(message)


def _remove(path: Path) -> None:
    for suffix in ("", *BESIDE, ".lock", ".unsound"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
