"""The log in a SQLite file."""

# ruff: noqa: S608, ASYNC240
# The SQL names tables and columns of ours, and a test may wait for a disk.

import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.ext.asyncio import AsyncConnection

from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.store import SqlLog
from daemon.log.verify import verify
from engine.batch import Batch
from events.errors import (
    DamagedLogError,
    LogLockedError,
    LogUnavailableError,
    MusterError,
    UsageError,
)
from tests.daemon.log.builders import batch, batches, pod
from tests.daemon.log.contract import entries, filled
from tests.daemon.log.raw_database import RawDatabase
from tests.daemon.log.sql_contract import SqlLogContract, Trouble

MIGRATED = {
    "queue_quota_history": ("'q', 'cpu', null, 0, 0, 5, 0, 5, 0, 1, 2", 2),
    "pod_group_history": ("'d/g', 'q', 'Inqueue', 1, 0, 1, 0, 1500000000, '', 2, null", 2),
    "placement": ("'u', 1, 'd/p', 'd/g', 'q', 'n', '[]', '{}', 1500000000, null, null, ''", 2),
    "decision": ("2, 0, 1, 'bind', 'Pod/d/p', 'd/g', 'q', 'n', '', ''", 1),
    "outcome": ("2, 1, 'Pod/d/p', 'n', 'bound', '', 1, 0", 1),
}
"""View to cells of a row as it was stored before migration 0008, and the number of columns with times since."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some log.db"


@pytest.fixture
def url(path: Path) -> str:
    return f"sqlite:///{path}"


@pytest.fixture
def raw_database(path: Path) -> RawDatabase:
    return RawDatabase(f"sqlite+aiosqlite:///{path}")


@pytest.fixture
def trouble() -> Trouble:
    return Trouble()


@pytest.fixture
async def log(url: str, trouble: Trouble) -> AsyncIterator[Log]:
    log = await open_log(url, "write", faults=trouble)
    yield log
    await log.close()


class TestSqliteLog(SqlLogContract):
    pass


async def test_a_row_cannot_be_replaced_either(log: Log, path: Path) -> None:
    await filled(log)
    with sqlite3.connect(path) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="log is append only"):
            connection.execute("INSERT OR REPLACE INTO log SELECT * FROM log WHERE position = 2")
        [(digest, content)] = connection.execute("SELECT digest, bytes FROM objects LIMIT 1")
        connection.execute("INSERT OR REPLACE INTO objects VALUES (?, 'zstd.1', x'00')", (digest,))
        kept = connection.execute("SELECT bytes FROM objects WHERE digest = ?", (digest,))
        assert kept.fetchall() == [(content,)]
    connection.close()
    await verify(log)


async def test_a_byte_that_is_no_text_is_found_at_its_position(
    log: Log, raw_database: RawDatabase, url: str
) -> None:
    await filled(log)
    await log.close()
    for column in ("kind", "subject", "body", "object", "digest"):
        ((kept,),) = await raw_database.run(f"SELECT {column} FROM log WHERE position = 4")
        torn = f"CAST(X'FF' || substr(CAST({column} AS BLOB), 2) AS TEXT)"
        await raw_database.force(f"UPDATE log SET {column} = {torn} WHERE position = 4")
        with pytest.raises(DamagedLogError, match="position 4"):
            await verified(url)
        await raw_database.force(f"UPDATE log SET {column} = :kept WHERE position = 4", kept=kept)


async def test_a_second_process_gets_the_pid_of_the_lock_holder(log: Log, url: str) -> None:
    with pytest.raises(LogLockedError, match=f"is held by process {os.getpid()}"):
        await open_log(url, "write")
    await log.close()
    await (await open_log(url, "write")).close()


async def test_a_full_disk_stops_the_log_until_there_is_room(
    log: Log, path: Path, url: str
) -> None:
    """SQLite counts pages against a bound, as it would against the end of the disk."""
    head = await filled(log)
    await pragma(log, "max_page_count=60")
    with pytest.raises(LogUnavailableError, match="full"):
        await append_all(log, batches(head, count=50, size=40))
    with pytest.raises(LogUnavailableError):
        await log.append(batch(log.head, [pod(1)]))
    head = await log.reopen()
    assert (await verify(log)).head == head
    await log.append(batch(head, [pod(1)]))


async def test_a_torn_file_is_named_with_the_position(log: Log, path: Path, url: str) -> None:
    await filled(log, count=5, size=200)
    await log.close()
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DamagedLogError, match=r"position \d+: .*malformed"):
        await verified(url)


async def test_a_changed_byte_anywhere_in_the_file_is_an_error_of_ours_or_none(
    log: Log, path: Path, url: str
) -> None:
    """Views, indexes and free space are in the file too: a change of those is no damage to the log."""
    await filled(log, count=2, size=10)
    await log.close()
    whole = path.read_bytes()
    damaged = 0
    for index in range(0, len(whole), 1009):
        path.write_bytes(whole[:index] + bytes([whole[index] ^ 0x90]) + whole[index + 1 :])
        try:
            await verified(url)
        except MusterError as error:
            damaged += error.exit_code in (4, 5)
    assert damaged > 5


@pytest.mark.parametrize("content", [b"", b"not a database at all, but a note", b"SQLite format 3"])
async def test_a_file_that_is_no_log_is_refused(path: Path, url: str, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is not a muster log"):
        await open_log(url)
    assert path.read_bytes() == content


@pytest.mark.parametrize("mode", ["read", "write"])
async def test_a_database_of_others_is_refused_and_not_touched(
    path: Path, url: str, mode: str
) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE accounts (id integer)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match="is not a muster log"):
        await open_log(url, "write") if mode == "write" else await open_log(url)
    assert path.read_bytes() == before


async def test_a_log_that_is_not_there_is_not_created_by_reading(path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="there is no such log"):
        await open_log(url)
    assert list(path.parent.iterdir()) == []


async def test_what_a_daemon_left_that_died_creating_the_log_is_used(path: Path, url: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    log = await open_log(url, "write")
    await filled(log)
    await log.close()


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        await open_log(str(tmp_path / "nowhere" / "log.db"), "write")


async def test_only_the_writer_checkpoints(log: Log, path: Path, url: str) -> None:
    await filled(log, count=3, size=10)
    wal = path.with_name(path.name + "-wal")
    size = wal.stat().st_size
    reader = await open_log(url)
    await entries(reader)
    await reader.close()
    assert wal.stat().st_size == size
    await log.close()
    assert not wal.exists()


async def test_a_commit_is_on_disk_before_it_is_answered(log: Log) -> None:
    assert await pragma(log, "synchronous") == 2
    assert await pragma(log, "journal_mode") == "wal"


async def append_all(log: Log, made: list[Batch]) -> None:
    """One after the other."""
    for item in made:
        await log.append(item)


async def verified(url: str) -> None:
    """Open a log, verify it, close it."""
    log = await open_log(url)
    try:
        await verify(log)
    finally:
        await log.close()


async def pragma(log: Log, name: str) -> object:
    """A setting of the writing connection."""
    assert isinstance(log, SqlLog)
    found: list[object] = []

    async def ask(connection: AsyncConnection) -> None:
        found.append((await connection.exec_driver_sql(f"PRAGMA {name}")).scalar())

    await log.run(ask)
    return found[0]


def migrate_to(path: Path, revision: str) -> None:
    """Bring a file to a revision of the schema."""
    config = Config()
    config.set_main_option("script_location", "migrations:")
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
    engine.dispose()


def test_views_keep_their_rows_and_get_times_in_migration_0008(path: Path) -> None:
    migrate_to(path, "0007")
    with closing(sqlite3.connect(path)) as connection, connection:
        for position, time in ((1, 1_767_225_600_000_000_000), (2, 1_767_225_661_250_999_999)):
            cells = f"{position}, 1, 1, {time}, null, null, 'k', 's', '{{}}', null, 'd'"
            connection.execute(f"insert into log values ({cells})")
        for view, (cells, _) in MIGRATED.items():
            connection.execute(f"insert into {view} values ({cells})")
        before = {view: connection.execute(f"select * from {view}").fetchall() for view in MIGRATED}
    migrate_to(path, "0008")
    first, second = "2026-01-01T00:00:00.000Z", "2026-01-01T00:01:01.250Z"
    since = "1970-01-01T00:00:01.500Z"
    expected = {
        "queue_quota_history": (first, second),
        "pod_group_history": (second, None),
        "placement": (since, None),
        "decision": (second,),
        "outcome": (second,),
    }
    with closing(sqlite3.connect(path)) as connection:
        for view, (_, times) in MIGRATED.items():
            [row] = connection.execute(f"select * from {view}").fetchall()
            assert row[-times:] == expected[view]
            kept = [cell for cell in row[:-times] if cell != since]
            assert kept == list(before[view][0])
        assert connection.execute("select * from queue_quota").fetchall() == []
        [group] = connection.execute("select * from pod_group").fetchall()
        assert group == ("d/g", "q", "Inqueue", 1, 0, 1, 0, 1_500_000_000, "", since)
