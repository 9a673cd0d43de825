"""Connections for short requests: when one is used again, and what ends the wait for an answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from daemon.cluster.client import connection_pool
from daemon.cluster.client.connection_pool import ConnectionPool
from daemon.cluster.client.credentials import Identity
from daemon.cluster.client.errors import UnansweredError, UnreachableError
from daemon.cluster.client.http_response import Response

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class Server:
    """Answers each request with the next of `answers`, the last for ever; keeps connections open. An empty one never comes."""

    def __init__(self, *answers: bytes) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self.closed = 0
        self._answers = answers
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                answer = self._answers[min(len(self.heads), len(self._answers)) - 1]
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            self.closed += 1
        finally:
            writer.close()


@asynccontextmanager
async def serving(server: Server) -> AsyncIterator[ConnectionPool]:
    """A pool for a server, whose URL it sets."""
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    pool = ConnectionPool("muster/0.0.test")
    try:
        yield pool
    finally:
        pool.close()
        listener.close()
        await listener.wait_closed()


async def ask(
    pool: ConnectionPool, identity: Identity, path: str = "/api/v1/pods", seconds: float = 5.0
) -> Response:
    return await pool.exchange(
        "get pods",
        identity,
        ("GET", path),
        query={},
        body=None,
        content_type="application/json",
        deadline=asyncio.get_running_loop().time() + seconds,
    )


async def test_a_connection_is_used_again_after_a_whole_answer() -> None:
    server = Server(OK)
    async with serving(server) as pool:
        identity = Identity(server.url)
        for _ in range(3):
            assert (await ask(pool, identity)).body == b"{}"
        assert server.connections == 1
        await asyncio.gather(*(ask(pool, identity) for _ in range(4)))
        assert server.connections == 4


async def test_another_identity_uses_the_connections_with_its_own_authorization() -> None:
    server = Server(OK)
    async with serving(server) as pool:
        for token in ("Bearer first", "Bearer second"):
            await ask(pool, Identity(server.url, token))
    assert [b"Bearer first" in one for one in server.heads] == [True, False]
    assert b"Authorization: Bearer second\r\n" in server.heads[1]
    assert server.connections == 1


async def test_another_server_name_is_not_reached_by_connections_of_the_one_before() -> None:
    server = Server(OK)
    async with serving(server) as pool:
        identity = Identity(server.url)
        await ask(pool, identity)
        await ask(pool, structs.replace(identity, server_name="other"))
    assert server.connections == 2


async def test_a_connection_is_not_used_after_an_answer_that_did_not_come() -> None:
    """Its answer would be taken for that of the next request."""
    server = Server(b"", OK)
    async with serving(server) as pool:
        identity = Identity(server.url)
        with pytest.raises(UnansweredError, match="no answer in time"):
            await ask(pool, identity, seconds=0.05)
        assert (await ask(pool, identity)).status == 200
    assert server.connections == 2


async def test_a_request_that_is_cancelled_leaves_no_connection() -> None:
    server = Server(b"", OK)
    async with serving(server) as pool:
        identity = Identity(server.url)
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(ask(pool, identity))
            while not server.heads:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            asking.cancel()
        assert asking.cancelled()
        await ask(pool, identity)
    assert server.connections == 2


async def test_closing_ends_what_is_under_way_and_nothing_is_sent_afterwards() -> None:
    server = Server(b"")
    async with serving(server) as pool:
        identity = Identity(server.url)

        async def end() -> None:
            with pytest.raises(UnansweredError, match="the client was closed"):
                await ask(pool, identity)

        async with asyncio.timeout(5), asyncio.TaskGroup() as tasks:
            tasks.create_task(end())
            while not server.heads:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            pool.close()
        with pytest.raises(UnreachableError, match="the client is closed"):
            await ask(pool, identity)
    assert len(server.heads) == 1


async def test_deadlines_of_several_requests_are_kept_in_their_order() -> None:
    server = Server(b"")
    ended: list[float] = []
    async with serving(server) as pool:
        identity = Identity(server.url)

        async def end(seconds: float) -> None:
            with pytest.raises(UnansweredError, match="no answer in time"):
                await ask(pool, identity, seconds=seconds)
            ended.append(seconds)

        await asyncio.gather(*map(end, (0.3, 0.1, 0.2)))
    assert ended == [0.1, 0.2, 0.3]


async def test_a_connection_that_was_idle_for_long_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0.05)
    server = Server(OK)
    async with serving(server) as pool:
        identity = Identity(server.url)
        await ask(pool, identity)
        async with asyncio.timeout(5):
            while not server.closed:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await ask(pool, identity)
    assert server.connections == 2


async def test_an_answer_to_no_request_closes_the_connection() -> None:
    server = Server(OK + OK, OK)
    async with serving(server) as pool:
        identity = Identity(server.url)
        await ask(pool, identity)
        await ask(pool, identity)
    assert server.connections == 2


@pytest.mark.parametrize("path", ["/a b", "/a\r\nX-Injected: 1\r\n\r\n", "/ä\x00"])
async def test_no_text_of_a_cluster_ends_the_line_of_a_request(path: str) -> None:
    server = Server(OK)
    async with serving(server) as pool:
        await ask(pool, Identity(server.url), path)
    (head,) = server.heads
    line, *headers = head.split(b"\r\n")
    assert line.count(b" ") == 2
    assert not any(one.startswith(b"X-Injected") for one in headers)


@pytest.mark.parametrize(
    "identity",
    [
        Identity("https://"),
        Identity("ftp://127.0.0.1"),
        Identity("http://127.0.0.1:port"),
        Identity("http://127.0.0.1:1", "Bearer a\r\nX: y"),
    ],
)
async def test_nothing_is_sent_with_an_address_or_a_token_that_cannot_be_sent(
    identity: Identity,
) -> None:
    with pytest.raises(UnreachableError):
        await ask(ConnectionPool("muster"), identity)
