"""The log in PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from daemon.log import postgres
from daemon.log.contract import Log
from daemon.log.opening import open_log
from daemon.log.verify import verify
from events.errors import FencedError, LogUnavailableError, UsageError
from tests.daemon.log.builders import batch, batches, pod
from tests.daemon.log.contract import entries, filled
from tests.daemon.log.raw_database import RawDatabase
from tests.daemon.log.sql_contract import SqlLogContract, Trouble
from tests.integration.postgres.conftest import execute
from tests.integration.postgres.proxy import Proxy
from tests.integration.postgres.server import Server

READY = b"Z\0\0\0\5"


@pytest.fixture
def raw_database(url: str) -> RawDatabase:
    return RawDatabase(url.replace("postgresql://", "postgresql+asyncpg://"))


@pytest.fixture
def trouble() -> Trouble:
    return Trouble()


@pytest.fixture
async def log(url: str, trouble: Trouble) -> AsyncIterator[Log]:
    log = await open_log(url, "write", faults=trouble)
    yield log
    await log.close()


class TestPostgresLog(SqlLogContract):
    pass


async def test_a_second_writer_takes_over_and_the_first_is_fenced(log: Log, url: str) -> None:
    await log.take_over("first")
    head = await filled(log)
    second = await open_log(url, "write")
    await second.take_over("second")
    await second.append(batch(second.head, [pod(7)]))
    with pytest.raises(FencedError):
        await log.append(batch(head, [pod(8)]))
    assert (await verify(second)).head == second.head
    await second.close()


async def test_two_writers_of_one_epoch_never_both_append(log: Log, url: str) -> None:
    second = await open_log(url, "write")
    results = await asyncio.gather(
        *(writer.append(batch(writer.head, [pod(n)])) for n, writer in enumerate((log, second))),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["FencedError", "NoneType"]
    assert len(await entries(second)) == 1
    await second.close()


def message(kind: bytes, *texts: str) -> bytes:
    """A message of the frontend protocol: https://www.postgresql.org/docs/current/protocol-message-formats.html"""
    body = b"".join(text.encode() + b"\0" for text in texts)
    return kind + (len(body) + 4).to_bytes(4, "big") + body


@asynccontextmanager
async def stalled_writer(server: Server, url: str) -> AsyncIterator[None]:
    """A writer that holds the head and stopped inside a statement: it has sent Parse, and never sends Sync."""
    name, version = make_url(url).database or "", b"\0\3\0\0"
    settings = [text for pair in postgres.WRITER_SETTINGS.items() for text in pair]
    start = message(b"", "user", "postgres", "database", name, *settings, "")
    length = int.from_bytes(start[:4], "big") + len(version)
    reader, writer = await asyncio.open_unix_connection(server.socket)
    writer.write(length.to_bytes(4, "big") + version + start[4:])
    for statement in ("BEGIN", "UPDATE log_head SET epoch = epoch"):
        await reader.readuntil(READY)
        writer.write(message(b"Q", statement))
    await reader.readuntil(READY)
    writer.write(message(b"P", "", "SELECT 1", "", ""))
    try:
        yield
    finally:
        writer.close()


@pytest.mark.parametrize("is_connected", [True, False])
async def test_a_writer_that_stopped_inside_a_statement_does_not_hold_the_head(
    log: Log, server: Server, url: str, monkeypatch: pytest.MonkeyPatch, *, is_connected: bool
) -> None:
    """No timeout of the server ends it, so whoever takes over does, over the old connection or a new one."""
    monkeypatch.setattr(postgres, "STALLED_SECONDS", 0)
    async with stalled_writer(server, url):
        if not is_connected:
            await log.reopen()
        await log.take_over("next")
        await log.append(batch(log.head, [pod(1)]))


async def test_a_writer_that_has_not_stood_still_for_long_is_waited_for(
    log: Log, server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres.WRITER_SETTINGS, "lock_timeout", "200ms")
    async with stalled_writer(server, url):
        with pytest.raises(LogUnavailableError, match="lock timeout"):
            await log.reopen()
    await log.reopen()


async def test_the_tables_cannot_be_emptied(log: Log, raw_database: RawDatabase) -> None:
    with pytest.raises(DBAPIError, match="log is append only"):
        await raw_database.run("TRUNCATE log")


async def test_a_commit_whose_answer_the_network_lost_is_found(
    log: Log, server: Server, url: str
) -> None:
    await log.close()
    proxy = Proxy(server.socket)
    port = await proxy.start()
    database = make_url(url).database
    through = await open_log(f"postgresql://postgres@127.0.0.1:{port}/{database}", "write")
    first, second = batches(through.head, count=2)
    proxy.lose_next_commit = True
    await through.append(first)
    await through.append(second)
    assert proxy.lost == 1
    assert (await verify(through)).head == second.after
    await through.close()
    await proxy.close()


async def test_a_server_that_is_down_is_named_without_its_password() -> None:
    with pytest.raises(LogUnavailableError, match=r"127\.0\.0\.1") as caught:
        await open_log("postgresql://someone:secret@127.0.0.1:1/muster", "write")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_database_that_is_not_there_is_named(server: Server) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        await open_log(server.url("nowhere"), "write")


async def test_a_database_without_a_log_is_no_log(server: Server) -> None:
    with pytest.raises(UsageError, match="is not a muster log"):
        await open_log(server.url("postgres"))


async def test_the_log_goes_on_after_a_crash_of_the_server(own_server: Server) -> None:
    await execute(own_server, "CREATE DATABASE mine")
    log = await open_log(own_server.url("mine"), "write")
    await log.take_over("me")
    head = await filled(log)
    own_server.crash()
    with pytest.raises(LogUnavailableError):
        await log.append(batch(head, [pod(1)]))
    with pytest.raises(LogUnavailableError):
        await log.reopen()
    own_server.recover()
    assert await log.reopen() == head
    await filled(log)
    assert (await verify(log)).head == log.head
    await log.close()
