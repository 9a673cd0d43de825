"""Bounds on what strangers can take of the HTTP server, over real sockets on loopback."""

import asyncio
import logging
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from structlog.testing import capture_logs

from daemon.address import Address, parse_address
from daemon.connections import (
    CONNECTIONS_MAX,
    CONNECTIONS_MIN,
    PER_PEER_MAX,
    Bounds,
    available_bounds,
)
from daemon.log_rate_limit import LogRateLimit
from daemon.metrics.export import text_of
from daemon.observability import Observability
from daemon.serving.listening import FIELD_BYTES_MAX, FIELDS_MAX, LINE_BYTES_MAX, listening
from daemon.settings import Settings, Supervision
from daemon.stderr import Teller, say_on_stderr

STRANGERS = 1000
HALF = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
PATIENCE_SECONDS = 30.0


def descriptors() -> int:
    """Descriptors that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def half_sent(address: Address, first: bytes = HALF) -> asyncio.StreamWriter:
    """A connection on which a request is begun."""
    _, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(first)
    return writer


async def answer(address: Address, request: bytes) -> bytes:
    """All that the server says to some bytes, until it closes the connection."""
    reader, writer = await asyncio.open_connection(address.host, address.port)
    writer.write(request)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@asynccontextmanager
async def served(
    bounds: Bounds, allowed_hosts: tuple[str, ...] = (), *, begun: asyncio.Semaphore | None = None
) -> AsyncIterator[tuple[Address, list[str]]]:
    """A server with one page that answers and one that does not, and its refusals by reason."""
    stuck = asyncio.Event()

    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="here")

    async def slow(_request: web.Request) -> web.Response:
        if begun is not None:
            begun.release()
        await stuck.wait()
        return web.Response(text="late")

    app = web.Application()
    app.add_routes([web.get("/livez", page), web.get("/slow", slow)])
    refused: list[str] = []
    async with (
        asyncio.timeout(PATIENCE_SECONDS),
        listening(
            parse_address("127.0.0.1:0"),
            app,
            bounds=bounds,
            allowed_hosts=allowed_hosts,
            observe=refused.append,
        ) as address,
    ):
        try:
            yield address, refused
        finally:
            stuck.set()


async def asked(address: Address, path: str = "/livez", **headers: str) -> int:
    """The status of a whole request on a connection of its own."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{address}{path}", headers=headers) as found,
    ):
        return found.status


async def test_a_thousand_half_sent_requests_take_a_bounded_number_of_descriptors() -> None:
    operation = Observability(lambda: 0, Teller(), "1.2.3", 4)
    operation.health.clear("start")
    strangers: list[asyncio.StreamWriter] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        with capture_logs() as said:
            async with operation.open(Settings(listen="127.0.0.1:0"), Path(), Supervision()):
                address = parse_address(str(said[0]["address"]))
                before, most = descriptors(), 0
                for number in range(STRANGERS):
                    strangers.append(await half_sent(address))
                    if number % 100 == 99:
                        assert await asked(address) == 200
                        assert await asked(address, "/readyz") == 200
                        ours = descriptors() - before
                        open_here = sum(not w.transport.is_closing() for w in strangers)
                        most = max(most, ours - open_here)
                # Both ends are in this process; what is not a stranger's end is the server's.
                assert most <= PER_PEER_MAX + 8
                for writer in strangers:
                    writer.close()
        refusals = [line for line in said if line["event"] == "HTTP refused"]
        assert len(refusals) <= 2, refusals
        figures = text_of(operation.metrics.collect())
        assert b'muster_http_refused_total{reason="peer"}' in figures


async def test_a_request_head_that_never_ends_is_broken_off() -> None:
    async with served(Bounds(head_seconds=0.05)) as (address, refused):
        assert await answer(address, HALF) == b""
        assert refused == ["head"]


async def test_an_answer_that_takes_too_long_is_broken_off() -> None:
    async with served(Bounds(answer_seconds=0.05)) as (address, refused):
        request = b"GET /slow HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        assert await answer(address, request) == b""
        assert refused == ["answer"]


async def test_a_connection_that_is_kept_for_nothing_is_closed_and_is_no_refusal() -> None:
    async with served(Bounds(idle_seconds=0.05)) as (address, refused):
        request = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        assert (await answer(address, request)).startswith(b"HTTP/1.1 200")
        # The next head on the same connection has the same time, however slowly it comes.
        assert (await answer(address, request + HALF)).count(b"HTTP/1.1") == 1
        assert refused == []


async def test_one_that_waits_makes_room_and_one_that_is_answered_does_not() -> None:
    begun = asyncio.Semaphore(0)
    async with (
        served(Bounds(connections=2, per_peer=2), begun=begun) as (address, refused),
        asyncio.TaskGroup() as tasks,
    ):
        slow = [tasks.create_task(asked(address, "/slow")) for _ in range(2)]
        for _ in slow:
            await begun.acquire()
        assert await answer(address, HALF[:4]) == b""
        for task in slow:
            task.cancel()
    assert refused == ["peer"]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /livez?" + b"x" * LINE_BYTES_MAX + b" HTTP/1.1\r\nHost: [::1]\r\n\r\n", b"400"),
        (b"GET /livez HTTP/1.1\r\nA: " + b"x" * (FIELD_BYTES_MAX + 1) + b"\r\n\r\n", b"400"),
        (
            b"GET /livez HTTP/1.1\r\n"
            + b"".join(b"A%d: x\r\n" % number for number in range(FIELDS_MAX + 1))
            + b"\r\n",
            b"400",
        ),
        (b"POST /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999999\r\n\r\nx", b"405"),
        (b"\x00\xff\r\n\r\n", b"400"),
    ],
)
async def test_a_request_that_is_too_large_or_none_is_refused(
    request_: bytes, status: bytes
) -> None:
    async with served(Bounds(idle_seconds=0.2)) as (address, _refused):
        assert (await answer(address, request_)).split()[1] == status


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8080", 200),
        ("10.1.2.3:8080", 200),
        ("[fd00::7]:8080", 200),
        ("LocalHost:8080", 200),
        ("Muster.Example.:8080", 200),
        ("rebound.example", 421),
        ("127.0.0.1.rebound.example:8080", 421),
        ("localhost.rebound.example", 421),
    ],
)
async def test_only_names_of_ours_are_answered(host: str, status: int) -> None:
    async with served(Bounds(), ("muster.example",)) as (address, refused):
        assert await asked(address, Host=host) == status
        assert refused == ["host"] * (status == 421)


async def test_a_request_of_http_1_0_names_no_host() -> None:
    async with served(Bounds()) as (address, _refused):
        assert b"200 OK" in await answer(address, b"GET /livez HTTP/1.0\r\n\r\n")


@contextmanager
def soft_limit(soft: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize(
    ("soft", "most"), [(1024, CONNECTIONS_MAX), (300, 44), (100, CONNECTIONS_MIN)]
)
def test_descriptors_are_kept_for_the_log_and_the_api_client(soft: int, most: int) -> None:
    with soft_limit(soft):
        assert available_bounds().connections == most


def test_lines_of_one_sort_are_written_sparsely_with_a_count() -> None:
    now = [0]
    sparsely = LogRateLimit(lambda: now[0], window_seconds=1.0, burst=2)
    assert [sparsely.allows("a") for _ in range(5)] == [0, 0, None, None, None]
    assert sparsely.allows("b") == 0
    now[0] = 1_000_000_000
    assert sparsely.allows("a") == 3


def test_a_library_cannot_fill_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    say_on_stderr(Teller())
    for number in range(STRANGERS):
        logging.getLogger("asyncio").error(
            "socket.accept() out of system resource\nsocket: %s", number
        )
    assert len(capsys.readouterr().err.splitlines()) == 10
