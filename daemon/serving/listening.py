"""Listening for requests, for as long as a block lasts, within bounds on connections and their parts."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from daemon.address import Address
from daemon.clock import WallClock
from daemon.connections import Bounds, Connections, available_bounds
from daemon.serving.hosts import checks_host
from events.errors import MusterError

LEAVE_SECONDS: Final = 1.0
"""How long an answer under way is waited for when the daemon stops."""

LINE_BYTES_MAX: Final = 2048
"""Bytes of a request line; ours are shorter than 50."""

FIELD_BYTES_MAX: Final = 8190
"""Bytes of one header field; a bearer token is the longest that means anything here."""

FIELDS_MAX: Final = 64
"""Header fields of a request."""

BODY_BYTES_MAX: Final = 1024
"""Bytes of a request body that a handler may read. No page reads one."""

LINGER_SECONDS: Final = 1.0
"""How long the rest of a request body is read and dropped after its answer."""

READ_BYTES: Final = 16 * 1024
"""Bytes of a request body that are held before the peer is made to wait."""


class ListenError(MusterError):
    """The address cannot be listened on."""

    exit_code = 3


def served_application() -> web.Application:
    """An application that reads no more of a request body than pages of this daemon need."""
    return web.Application(client_max_size=BODY_BYTES_MAX)


@asynccontextmanager
async def listening(
    address: Address,
    app: web.Application,
    *,
    bounds: Bounds | None = None,
    allowed_hosts: tuple[str, ...] = (),
    observe: Callable[[str], None] | None = None,
    tls: ssl.SSLContext | None = None,
    has_any_host: bool = False,
) -> AsyncIterator[Address]:
    """Answer requests; the address is yielded with the port that was given where 0 was asked for.

    `observe` is called with the reason of each refusal. `has_any_host` is for pages that nothing but a token in a header
    opens: a browser that is misled to this address does not send one.
    """
    bounds = bounds or available_bounds()
    connections = Connections(bounds, WallClock().elapsed_ns, observe)
    hosts = (*allowed_hosts, address.host)
    app.middlewares.insert(0, _timed(connections))
    if not has_any_host:
        app.middlewares.insert(1, checks_host(hosts, connections.refused))
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=LEAVE_SECONDS,
        keepalive_timeout=bounds.idle_seconds or 0.0,
        max_line_size=LINE_BYTES_MAX,
        max_field_size=FIELD_BYTES_MAX,
        max_headers=FIELDS_MAX,
        lingering_time=LINGER_SECONDS,
        read_bufsize=READ_BYTES,
        auto_decompress=False,
    )
    await runner.setup()
    try:
        assert runner.server is not None
        try:
            port = await connections.listen(address.host, address.port, runner.server, tls)
        except OSError as error:
            raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error
        yield Address(host=address.host, port=port)
    finally:
        connections.stop_listening()
        await runner.cleanup()
        connections.close()


def _timed(connections: Connections) -> Middleware:
    """Answer requests of a connection at its pace, and let it know when one is being answered."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        await connections.pace(request.transport)
        with connections.answering(request.transport):
            return await handler(request)

    return answer
