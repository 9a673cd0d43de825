"""A connection for short requests that does not come about leaves no socket, wherever the attempt ends."""

import asyncio
import gc
import socket
import ssl
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache

import pytest
from msgspec import Struct
from msgspec.structs import replace

from daemon.cluster.client.connection_pool import ConnectionPool
from daemon.cluster.client.credentials import Identity
from daemon.cluster.client.errors import UnansweredError, UnreachableError, UntrustedError
from daemon.cluster.server.simulated_api_server import BOUNDS
from daemon.connections import Connections
from tests.daemon.cluster.client.builders import Authority

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
TURNS_MAX = 200
"""Turns of the event loop within which each attempt ends by itself."""
ours, other = cache(Authority), cache(lambda: Authority())


class Way(Struct, frozen=True):
    """How a server is reached."""

    host: str
    is_tls: bool = False
    is_trusted: bool = True


WAYS = {
    "plain": Way("127.0.0.1"),
    "several addresses": Way("localhost"),
    "TLS": Way("127.0.0.1", is_tls=True),
    "TLS, several addresses": Way("localhost", is_tls=True),
    "untrusted": Way("127.0.0.1", is_tls=True, is_trusted=False),
    "untrusted, several addresses": Way("localhost", is_tls=True, is_trusted=False),
}
each_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())


class Answering(asyncio.Protocol):
    """Answers each request, as a server that counts them."""

    def __init__(self, attempt: "Attempt") -> None:
        self._attempt = attempt
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        assert data.endswith(b"\r\n\r\n")
        self._attempt.requests += 1
        self._transport.write(OK)


class Attempt:
    """A request on a new connection to a server of the test."""

    def __init__(self, way: Way) -> None:
        trusted, tls = ours() if way.is_trusted else other(), None
        if way.is_tls:
            tls = ssl.create_default_context(cadata=trusted.pem.decode())
        self.pool = ConnectionPool("muster/0.0.test")
        self.requests = 0
        self.connections = Connections(BOUNDS, lambda: 0)
        self._way = way
        self._identity = Identity("", tls=tls)

    async def listen(self) -> None:
        """Start the server."""
        way = self._way
        tls = ours().server_context(way.host) if way.is_tls else None
        self.reach(await self.connections.listen("127.0.0.1", 0, lambda: Answering(self), tls))

    def reach(self, port: int) -> None:
        """Let the request go to a server on this port."""
        server = f"{'https' if self._way.is_tls else 'http'}://{self._way.host}:{port}"
        self._identity = replace(self._identity, server=server)

    def begin(self, seconds: float = 5.0) -> asyncio.Task[object]:
        """Start the request."""
        exchange = self.pool.exchange(
            "get pods",
            self._identity,
            ("GET", "/api/v1/pods"),
            query={},
            body=None,
            content_type="application/json",
            deadline=asyncio.get_running_loop().time() + seconds,
        )
        return asyncio.get_running_loop().create_task(exchange)


@asynccontextmanager
async def attempting(way: Way) -> AsyncIterator[Attempt]:
    """An attempt this way. At the end of the block the pool is closed, and then the server holds no connection."""
    attempt = Attempt(way)
    await attempt.listen()
    try:
        yield attempt
        attempt.pool.close()
        async with asyncio.timeout(5):
            while attempt.connections.count:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    finally:
        attempt.connections.close()
        await turns(4)


@contextmanager
def leaves_no_socket() -> Iterator[None]:
    """Nothing that the block leaves behind had to be closed by the garbage collector."""
    gc.collect()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
        gc.collect()
    assert [str(one.message) for one in found] == []


async def turns(count: int) -> None:
    """Let the event loop make so many turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def ended(task: asyncio.Task[object]) -> None:
    """Wait until an attempt has ended, in whatever way."""
    with suppress(asyncio.CancelledError, UnreachableError, UnansweredError, UntrustedError):
        await task


def at_each_turn(way: Way, end: Callable[[Attempt, asyncio.Task[object]], Awaitable[None]]) -> None:
    """Let an attempt go on for one turn of the event loop, for two, and so on, and then end as given."""

    async def run(count: int) -> bool:
        async with attempting(way) as attempt:
            task = attempt.begin()
            await turns(count)
            is_over = task.done()
            await end(attempt, task)
        return is_over

    for count in range(TURNS_MAX):
        with leaves_no_socket():
            is_over = asyncio.run(run(count))
        if is_over:
            assert count > 3
            return
    pytest.fail(f"not over within {TURNS_MAX} turns")


@each_way
def test_cancelled_at_any_turn(way: Way) -> None:
    async def cancel(_: Attempt, task: asyncio.Task[object]) -> None:
        task.cancel()
        await ended(task)

    at_each_turn(way, cancel)


@each_way
def test_the_pool_is_closed_at_any_turn(way: Way) -> None:
    async def close(attempt: Attempt, task: asyncio.Task[object]) -> None:
        attempt.pool.close()
        await ended(task)

    at_each_turn(way, close)


@each_way
def test_the_event_loop_ends_at_any_turn(way: Way) -> None:
    async def ask(attempt: Attempt) -> None:
        try:
            await ended(attempt.begin())
        finally:
            attempt.pool.close()

    async def run(count: int) -> bool:
        attempt = Attempt(way)
        await attempt.listen()
        task = asyncio.get_running_loop().create_task(ask(attempt))
        await turns(count)
        attempt.connections.close()
        return task.done()

    for count in range(TURNS_MAX):
        with leaves_no_socket():
            is_over = asyncio.run(run(count))
        if is_over:
            return
    pytest.fail(f"not over within {TURNS_MAX} turns")


@each_way
@pytest.mark.parametrize("milliseconds", [0, 0.2, 0.5, 1, 2, 3, 5])
def test_its_deadline_passes_at_any_moment(way: Way, milliseconds: float) -> None:
    async def run() -> None:
        async with attempting(way) as attempt:
            await ended(attempt.begin(milliseconds / 1000))

    with leaves_no_socket():
        asyncio.run(run())


def test_an_untrusted_server_is_named() -> None:
    async def run() -> None:
        async with attempting(WAYS["untrusted"]) as attempt:
            with pytest.raises(UntrustedError):
                await attempt.begin()

    with leaves_no_socket():
        asyncio.run(run())


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["deadline", "cancelled"])
def test_a_server_that_says_nothing_in_the_handshake(*, is_cancelled: bool) -> None:
    async def run() -> None:
        attempt = Attempt(WAYS["TLS"])
        with socket.create_server(("127.0.0.1", 0)) as silent:
            attempt.reach(silent.getsockname()[1])
            task = attempt.begin(5.0 if is_cancelled else 0.05)
            if is_cancelled:
                await turns(20)
                task.cancel()
                await ended(task)
            else:
                with pytest.raises(UnreachableError, match="no connection within"):
                    await task

    with leaves_no_socket():
        asyncio.run(run())
