"""Connections that are refused, cut or silent, and what each proves."""

import asyncio
import socket
from pathlib import Path

import pytest
from aiohttp import AddrInfoType, web

from daemon.cluster.client import http_client, transport
from daemon.cluster.client.calls import BIND_POD, GET_POD, LIST, WATCH
from daemon.cluster.client.errors import (
    ExpiredError,
    StalledError,
    ThrottledError,
    UnansweredError,
    UnreachableError,
)
from daemon.cluster.client.http_client import Client
from daemon.cluster.client.transport import keeping_alive
from tests.daemon.cluster.client.builders import connected, kubeconfig, talking, wire

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


async def empty(_: web.BaseRequest) -> web.Response:
    """Success."""
    return web.json_response({})


async def watched(client: Client, stall_seconds: float, **query: str) -> bytes:
    """All that a watch of pods shows."""
    text = b""
    async with client.watch(WATCH["Pod"], query, stall_seconds) as chunks:
        async for chunk in chunks:
            text += chunk
    return text


async def bind(client: Client) -> bytes:
    """A write that must not be made twice."""
    return await client.request(BIND_POD, name="a", namespace="ns", body=b"{}")


async def test_nothing_was_asked_of_a_server_that_is_not_there(tmp_path: Path) -> None:
    """K12.2: a refused connection proves that nothing was done; and it is no error before that."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        async with connected(kubeconfig(tmp_path / "config", url)) as client:
            with pytest.raises(
                UnreachableError, match=f"create pods/binding: {url}: Connection refused"
            ):
                await bind(client)


async def test_an_unknown_host_name_is_unreachable(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path / "config", "https://api.invalid:6443")
    async with connected(path) as client:
        with pytest.raises(UnreachableError, match=r"https://api\.invalid:6443"):
            await bind(client)


async def test_a_server_that_comes_later_is_reached_by_a_later_try(tmp_path: Path) -> None:
    """K12.2: connection errors are retried."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    failed = asyncio.Event()
    path = kubeconfig(tmp_path / "config", f"http://127.0.0.1:{port}")
    runner = web.ServerRunner(web.Server(empty))
    await runner.setup()
    async with connected(path, jitter=0.1, observe=lambda *_: failed.set()) as client:
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(client.request(LIST["Pod"], tries=20))
            await failed.wait()
            await web.TCPSite(runner, "127.0.0.1", port).start()
        assert asking.result() == b"{}"
    await runner.cleanup()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 O",
        OK + b"Content-Length: 100\r\n\r\n" + b'{"half',
        OK + b"Transfer-Encoding: chunked\r\n\r\n" + b'6\r\n{"half\r\n',
        b"this is not HTTP at all\r\n\r\n",
    ],
    ids=["nothing", "half a header", "half a body", "half a chunk", "not http"],
)
@pytest.mark.parametrize("is_cut", [False, True], ids=["closed", "reset"])
async def test_what_was_sent_and_not_answered_is_not_known(
    tmp_path: Path, answer: bytes, is_cut: bool
) -> None:
    """K8: connection lost means that the outcome is unknown, never that it failed."""
    async with (
        wire(answer, is_cut=is_cut) as url,
        connected(kubeconfig(tmp_path / "config", url)) as client,
    ):
        with pytest.raises(UnansweredError, match="create pods/binding"):
            await bind(client)


async def test_an_error_whose_body_is_cut_is_still_that_error(tmp_path: Path) -> None:
    """K3.10: the status alone is an answer."""
    text = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 100\r\nRetry-After: 3\r\n\r\nToo m"
    async with wire(text) as url, connected(kubeconfig(tmp_path / "config", url)) as client:
        with pytest.raises(ThrottledError) as caught:
            await bind(client)
    assert caught.value.retry_after_seconds == 3.0


async def test_a_get_on_a_connection_that_died_is_not_sent_twice_unseen(tmp_path: Path) -> None:
    """K3.11: aiohttp itself would send it again, outside the request budget."""
    count = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        while not reader.at_eof():
            try:
                await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            count += 1
            if count > 1:
                break
            writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with connected(kubeconfig(tmp_path / "config", url)) as client:
        await client.request(GET_POD, name="a", namespace="ns")
        with pytest.raises(UnansweredError):
            await client.request(GET_POD, name="a", namespace="ns")
    assert count == 2
    server.close()
    await server.wait_closed()


async def test_a_watch_gives_chunks_and_ends_in_order(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert (request.query["watch"], request.query["resourceVersion"]) == ("1", "7")
        response = web.StreamResponse(headers={"Content-Type": "application/json;stream=watch"})
        await response.prepare(request)
        for line in (b'{"type":"ADDED"}\n', b'{"type":"BOOK', b'MARK"}\n'):
            await response.write(line)
        await response.write_eof()
        return response

    async with talking(answer, tmp_path) as client:
        text = await watched(client, 5.0, resourceVersion="7")
    assert text == b'{"type":"ADDED"}\n{"type":"BOOKMARK"}\n'


@pytest.mark.parametrize("is_cut", [False, True], ids=["closed", "reset"])
async def test_a_truncated_watch_differs_from_one_that_ended(tmp_path: Path, is_cut: bool) -> None:
    """K3.6: only a clean end is one."""
    answer = OK + b'Transfer-Encoding: chunked\r\n\r\n8\r\n{"half":\r\n'
    async with (
        wire(answer, is_cut=is_cut) as url,
        connected(kubeconfig(tmp_path / "config", url)) as client,
    ):
        with pytest.raises(UnansweredError) as caught:
            await watched(client, 5.0)
    assert not isinstance(caught.value, StalledError)


async def test_a_watch_that_goes_silent_is_stalled(tmp_path: Path) -> None:
    """K3.12: neither event nor bookmark for so long; and there is no total time-out."""
    over = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b"{}\n")
        await over.wait()
        return response

    async with talking(answer, tmp_path) as client:
        with pytest.raises(StalledError, match="watch pods"):
            await watched(client, 0.2)
        over.set()


async def test_a_watch_that_does_not_begin_to_answer_is_stalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even a watch has a deadline for its beginning."""
    monkeypatch.setattr(http_client, "HEADERS_SECONDS", 0.1)
    over = asyncio.Event()

    async def answer(_: web.BaseRequest) -> web.Response:
        await over.wait()
        return web.json_response({})

    async with talking(answer, tmp_path) as client:
        with pytest.raises(StalledError, match=r"no answer in 0\.1 s"):
            await watched(client, 60.0)
        over.set()


async def test_an_object_of_five_mebibytes_arrives_whole(tmp_path: Path) -> None:
    """K3.2: an object may be several MiB, in an answer as in a watch."""
    text = b'{"x":"' + b"y" * 5 * 2**20 + b'"}\n'

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(body=text, content_type="application/json")

    async with talking(answer, tmp_path) as client:
        assert await client.request(LIST["Pod"]) == text
        assert await watched(client, 5.0) == text


async def test_an_answer_that_does_not_end_is_not_read_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_client, "BODY_BYTES_MAX", 1000)

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.Response(body=b" " * 1001, content_type="application/json")

    async with talking(answer, tmp_path) as client:
        with pytest.raises(UnansweredError, match="longer than 1000 bytes"):
            await client.request(LIST["Pod"])


async def test_the_observer_gets_a_request_without_an_answer(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []
    async with (
        wire(b"") as url,
        connected(
            kubeconfig(tmp_path / "config", url),
            observe=lambda what, status, _: seen.append((what, status)),
        ) as client,
    ):
        with pytest.raises(UnansweredError):
            await bind(client)
    assert seen == [("create pods/binding", 0)]


async def test_a_watch_that_is_refused_says_so_on_the_way_in(tmp_path: Path) -> None:
    """K3.7: 410 as the status of the request."""

    async def answer(_: web.BaseRequest) -> web.Response:
        return web.json_response({"kind": "Status", "reason": "Expired"}, status=410)

    async with talking(answer, tmp_path) as client:
        with pytest.raises(ExpiredError):
            await watched(client, 5.0)


async def test_leaving_a_watch_closes_its_connection(tmp_path: Path) -> None:
    """K3.12: a watch that is cancelled does not stay open at the server."""
    left = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b"{}\n")
        try:
            await asyncio.Event().wait()
        finally:
            # aiohttp cancels the handler of a connection that was closed.
            left.set()
        return response

    async with talking(answer, tmp_path) as client:
        async with client.watch(WATCH["Pod"], {}, 60.0) as chunks:
            async for _ in chunks:
                break
        async with asyncio.timeout(5):
            await left.wait()


async def test_connections_are_probed_while_they_are_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """K3.12: TCP keep-alive on."""
    made: list[socket.socket] = []

    def keep(address: AddrInfoType) -> socket.socket:
        made.append(keeping_alive(address))
        return made[-1]

    monkeypatch.setattr(transport, "keeping_alive", keep)
    async with talking(empty, tmp_path) as client:
        await client.get("/version")
        (one,) = made
        assert one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert one.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60
