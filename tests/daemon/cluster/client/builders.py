"""Servers that answer as a test says, credentials of the test's own, and a client of both."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trustme
import yaml
from aiohttp import web

from daemon.cluster.client.credentials import Access
from daemon.cluster.client.http_client import Client, Observe

USER_AGENT = "muster/0.0.test"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The URL of a server on a free port of this machine."""
    server = web.Server(handler, access_log=None, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


class Gate:
    """Remembers who came; knows which authorization is good."""

    def __init__(self, *good: str) -> None:
        self.good = set(good)
        self.seen: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.Response:
        """Answer 401 to unknown credentials, if any credentials are known."""
        self.seen.append(request.headers.get("Authorization", ""))
        is_good = not self.good or self.seen[-1] in self.good
        return web.json_response({}, status=200 if is_good else 401)


@asynccontextmanager
async def wire(answer: bytes, *, is_cut: bool = False) -> AsyncIterator[str]:
    """The URL of a server that reads a request, sends these bytes whatever it was, and then closes.

    With `is_cut` by a reset, as when the process is killed.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        if is_cut:
            writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


def kubeconfig(
    path: Path,
    server: str,
    user: dict[str, object] | None = None,
    cluster: dict[str, object] | None = None,
) -> Path:
    """A kubeconfig with one context, its user with a token unless told otherwise."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "ours"}}
        ],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": {"token": "first"} if user is None else user}],
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@asynccontextmanager
async def connected(
    path: Path,
    *,
    jitter: float = 0.0,
    observe: Observe | None = None,
    is_read_only: bool = False,
) -> AsyncIterator[Client]:
    """A client by a kubeconfig. With a jitter of 0 it waits for nothing but Retry-After."""
    access = Access(kubeconfig=path)
    client = await Client.connect(
        access, lambda: jitter, USER_AGENT, observe, is_read_only=is_read_only
    )
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def talking(
    handler: Handler, folder: Path, *, observe: Observe | None = None
) -> AsyncIterator[Client]:
    """A client and its server, over plain HTTP."""
    async with (
        served(handler) as url,
        connected(kubeconfig(folder / "config", url), observe=observe) as client,
    ):
        yield client


class Authority:
    """A CA of the test's own, and the certificates it gives."""

    def __init__(self) -> None:
        self._ca = trustme.CA()

    @property
    def pem(self) -> bytes:
        """Its own certificate."""
        return self._ca.cert_pem.bytes()

    def server_context(self, *names: str) -> ssl.SSLContext:
        """What a server with these names needs."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._ca.issue_cert(*names).configure_cert(context)
        return context

    def asks_for_certificates(self, context: ssl.SSLContext) -> None:
        """Let a server accept only clients with a certificate of ours."""
        self._ca.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED

    def client_pair(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Files with a certificate and its key."""
        leaf = self._ca.issue_cert(name)
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        leaf.cert_chain_pems[0].write_to_path(str(certificate))
        leaf.private_key_pem.write_to_path(str(key))
        return certificate, key
