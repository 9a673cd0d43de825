"""Floods of connections from many addresses: descriptors, memory and the answers to probes stay bounded."""

import asyncio
import gc
import resource
import ssl
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import aiohttp
import pytest
import trustme
from aiohttp import web

from daemon.address import Address
from daemon.cluster.client.trust import server_context
from daemon.connections import Bounds, raise_descriptor_limit
from daemon.serving.listening import listening
from tests.daemon.serving.flood import CLIENT_HELLO

PATIENCE_SECONDS: Final = 30.0

ANSWER_SECONDS_MAX: Final = 15.0
"""A probe is answered within this during a flood, on a machine that other tests and the flood itself share: where the kernel's queue
is full, the kernel of the prober tries again after 1, 3, 7 and 15 s."""

LONG_ANSWER_SECONDS_MAX: Final = 32.0
"""The same where the flood lasts for minutes."""

MIB: Final = 1 << 20


def descriptors() -> int:
    """Descriptors that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def memory_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


async def until(is_so: Callable[[], bool]) -> None:
    """Return when something is so; the time-out of the server bounds it."""
    while not is_so():  # noqa: ASYNC110  # nothing announces it
        await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def tls(authority: trustme.CA, tmp_path: Path) -> ssl.SSLContext:
    leaf = authority.issue_cert("127.0.0.1")
    leaf.private_key_pem.write_to_path(str(tmp_path / "key"))
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "certificate"))
    return server_context(tmp_path / "certificate", tmp_path / "key")


@pytest.fixture
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@asynccontextmanager
async def served(
    tls: ssl.SSLContext | None, bounds: Bounds | None = None, patience: float = PATIENCE_SECONDS
) -> AsyncIterator[tuple[Address, list[str]]]:
    """A server with a page, and the reasons of its refusals."""

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="here")

    async def large(_request: web.Request) -> web.Response:
        return web.Response(body=b"x" * (16 * MIB))

    app = web.Application()
    app.add_routes([web.get("/livez", page), web.get("/large", large)])
    refused: list[str] = []
    async with (
        asyncio.timeout(patience),
        listening(
            Address("127.0.0.1", 0), app, bounds=bounds, observe=refused.append, tls=tls
        ) as address,
    ):
        yield address, refused


async def status_of(address: Address, tls: ssl.SSLContext | None) -> int:
    """The status of a whole request on a connection of its own."""
    scheme = "http" if tls is None else "https"
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{scheme}://{address}/livez", ssl=True if tls is None else tls) as found,
    ):
        return found.status


async def test_a_listener_with_tls_answers_whole_requests(
    tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async with served(tls) as (address, refused):
        assert await status_of(address, client_tls) == 200
        reader, writer = await asyncio.open_connection(
            address.host, address.port, ssl=client_tls, server_hostname="127.0.0.1"
        )
        # Requests that come in the same packet as the end of the handshake, or in pieces.
        for request in (b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",) * 3:
            writer.write(request[:10])
            await asyncio.sleep(0)
            writer.write(request[10:])
            assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200")
        writer.close()
    assert refused == []


@pytest.mark.parametrize("first", [b"", CLIENT_HELLO], ids=["nothing", "half-a-hello"])
async def test_a_handshake_that_stalls_is_broken_off(tls: ssl.SSLContext, first: bytes) -> None:
    async with served(tls, Bounds(handshake_seconds=0.05)) as (address, refused):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(first)
        assert await reader.read() == b""
        writer.close()
    assert refused == ["handshake"]


async def test_handshakes_count_from_the_accept_on(tls: ssl.SSLContext) -> None:
    bounds = Bounds(connections=8, per_peer=4)
    async with served(tls, bounds) as (address, refused):
        before = descriptors()
        pairs = [await asyncio.open_connection(address.host, address.port) for _ in range(20)]
        # Each one beyond took the place of the oldest.
        assert [await reader.read() for reader, _ in pairs[:16]] == [b""] * 16
        assert descriptors() - before <= 20 + bounds.per_peer
        assert refused == ["peer"] * 16
        for _, writer in pairs:
            writer.close()


async def test_a_handshake_that_failed_leaves_nothing_to_the_garbage_collector(
    tls: ssl.SSLContext,
) -> None:
    """Each has buffers of half a megabyte, and full collections are rare in a daemon with a large State."""
    gc.collect()
    gc.disable()
    try:
        async with served(tls, Bounds(handshake_seconds=0.2)) as (address, refused):
            for first in (b"", CLIENT_HELLO, b"GET / HTTP/1.1\r\n\r\n"):
                reader, writer = await asyncio.open_connection(address.host, address.port)
                writer.write(first)
                with suppress(ConnectionError):
                    await reader.read()
                writer.close()
                del reader, writer
            await asyncio.sleep(0.1)
            left = [one for one in gc.get_objects() if isinstance(one, SSLProtocol)]
            assert left == []
        assert refused == ["handshake", "handshake"]
    finally:
        gc.enable()


async def test_handshakes_of_a_second_are_bounded(
    tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async with served(tls, Bounds(handshakes_per_second=0)) as (address, refused):
        with pytest.raises(aiohttp.ClientError):
            await status_of(address, client_tls)
    assert refused == ["handshakes"]


@pytest.mark.parametrize("has_tls", [False, True])
async def test_an_answer_that_is_not_read_ends_by_its_time(
    tls: ssl.SSLContext, client_tls: ssl.SSLContext, *, has_tls: bool
) -> None:
    bounds = Bounds(answer_seconds=0.2, idle_seconds=0.2)
    async with served(tls if has_tls else None, bounds) as (address, _):
        before = descriptors()
        reader, writer = await asyncio.open_connection(
            address.host, address.port, ssl=client_tls if has_tls else None
        )
        writer.write(b"GET /large HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        await reader.readexactly(1)
        # Its end of the connection is closed, although this end reads nothing.
        await until(lambda: descriptors() <= before + 1)
        writer.transport.abort()


async def test_heads_in_a_row_do_not_keep_others_waiting() -> None:
    async with served(None) as (address, refused):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 300)
        assert (await reader.readuntil(b"here")).startswith(b"HTTP/1.1 200")
        begun = asyncio.get_running_loop().time()
        assert await status_of(address, None) == 200
        first = asyncio.get_running_loop().time() - begun
        # So many would have been answered in a row, and are not yet.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(first):
                await reader.readuntil(b"HTTP/1.1 200" * 300)
        writer.close()
    assert refused == []


def probed(address: Address) -> int:
    """The status of a probe, from a thread of its own, as from another process."""
    connection = HTTPConnection(address.host, address.port, timeout=60)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status
    finally:
        connection.close()


async def _flooded(
    count: int, tls: ssl.SSLContext, client_tls: ssl.SSLContext, answer_seconds_max: float
) -> None:
    """Flood a listener with TLS and one without beside it, and ask both for a page again and again."""
    raise_descriptor_limit()
    async with AsyncExitStack() as stack, asyncio.TaskGroup() as tasks:
        patience = PATIENCE_SECONDS + count / 50
        secured, _ = await stack.enter_async_context(served(tls, patience=patience))
        plain, _ = await stack.enter_async_context(served(None, patience=patience))
        assert await status_of(secured, client_tls) == await status_of(plain, None) == 200
        files, memory = descriptors(), memory_bytes()
        processes = [
            await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.daemon.serving.flood"),
                *(str(address.port), str(count)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            for address in (secured, plain)
        ]
        opened = [
            tasks.create_task(one.stdout.readline()) for one in processes if one.stdout is not None
        ]
        loop, answers, slowest, most_files, most_memory = asyncio.get_running_loop(), 0, 0.0, 0, 0
        while not all(one.done() for one in opened) or answers < 20:
            begun = loop.time()
            assert await asyncio.to_thread(probed, plain) == 200
            slowest = max(slowest, loop.time() - begun)
            answers += 1
            most_files = max(most_files, descriptors() - files)
            most_memory = max(most_memory, memory_bytes() - memory)
            await asyncio.sleep(0.02)
        assert min([int(await one) for one in opened]) >= count * 9 // 10
        for one in processes:
            one.kill()
            await one.wait()
        # The bounds of two listeners, what is accepted in a turn, and ours.
        assert most_files <= 2 * (128 + 64) + 32, most_files
        assert most_memory <= 256 * MIB, most_memory
        assert slowest <= answer_seconds_max, slowest
        await until(lambda: descriptors() <= files + 8)


async def test_a_flood_from_many_addresses_takes_bounded_descriptors_and_memory(
    tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    await _flooded(1_000, tls, client_tls, ANSWER_SECONDS_MAX)


@pytest.mark.soak
async def test_a_flood_of_20_000_connections_takes_no_more(
    tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    await _flooded(20_000, tls, client_tls, LONG_ANSWER_SECONDS_MAX)
