"""A server a session, a database a test."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import asyncpg
import pytest

from daemon.log.opening import open_log
from tests.integration.postgres.server import Server

HERE = Path(__file__).parent
TEMPLATE = "muster_template"
_numbers = count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests of this folder need PostgreSQL."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.postgres)


def started() -> Server:
    """A server, or a skip that says why; on a build machine a missing server is a failure."""
    try:
        return Server()
    except ImportError as error:
        reason = f"no PostgreSQL to test with: {error}"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """The server that most tests share, with a template that holds an empty log."""
    server = started()
    asyncio.run(make_template(server))
    yield server
    server.close()


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that the test may kill."""
    server = started()
    yield server
    server.close()


@pytest.fixture
async def url(server: Server) -> AsyncIterator[str]:
    """The address of a fresh database with an empty log."""
    async with database(server, f"muster_{next(_numbers)}", TEMPLATE) as url:
        yield url


@asynccontextmanager
async def database(server: Server, name: str, template: str = "template1") -> AsyncIterator[str]:
    """The address of a database that is there as long as the block lasts."""
    await execute(server, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield server.url(name)
    await execute(server, f"DROP DATABASE {name} WITH (FORCE)")


async def execute(server: Server, sql: str) -> None:
    """Run a statement as the owner of the server."""
    connection = await asyncpg.connect(server.url("postgres"))
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


async def make_template(server: Server) -> None:
    """Make a database with an empty log, from which others are made."""
    # No test that shares this server is about power cuts.
    await execute(server, "ALTER SYSTEM SET fsync = off")
    await execute(server, "SELECT pg_reload_conf()")
    await execute(server, f"CREATE DATABASE {TEMPLATE}")
    log = await open_log(server.url(TEMPLATE), "write")
    await log.close()
