"""Connections for short requests: a binding, a patch, a read of one object. HTTP/1.1, one request at a time on each.

A request is one write, and its response is read whole. aiohttp (`transport.py`) has lists and watches, which stream, and whatever
goes through a proxy: a binding costs it four times as much processor time (`docs/decisions/0016-short-requests.md`).

Every request has a deadline, and all deadlines share one timer. No request is sent twice: a connection that is lost after a
request was written leaves it unanswered.
"""

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

from aiohappyeyeballs import AddrInfoType, start_connection
from msgspec import Struct

from daemon.cluster.client.credentials import Identity
from daemon.cluster.client.errors import UnansweredError, UnreachableError
from daemon.cluster.client.http_response import Response, ResponseError, ResponseReader
from daemon.cluster.client.transport import (
    CONNECT_SECONDS,
    IDLE_SECONDS,
    keeping_alive,
    reason_of,
    untrusted,
)

BODY_BYTES_MAX: Final = 64 * 2**20
"""Bytes of the longest answer that is read to its end: a list is not among them."""
HAPPY_EYEBALLS_SECONDS: Final = 0.25
"""Time after which the next address of a host is tried beside the one before (RFC 8305)."""

_is_plain: Final = re.compile(r"[!-~]*").fullmatch
"""Whether a text has only characters that can stand in a request line or a header, and no space."""


class _Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        """Reads the response that is awaited."""
        self._answer: asyncio.Future[Response] | None = None
        self.is_reusable = False
        """Whether it is open, and nothing is awaited on it."""
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self.is_reusable = True

    async def secure(self, tls: ssl.SSLContext, server_name: str) -> None:
        """Do the TLS handshake. Raises OSError; then, and if cancelled, the connection is closed."""
        assert self._transport is not None
        loop = asyncio.get_running_loop()
        secured = await loop.start_tls(
            self._transport,
            self,
            tls,
            server_hostname=server_name,
            ssl_handshake_timeout=CONNECT_SECONDS,
        )
        if secured is None:
            raise ConnectionResetError("the connection was lost in its TLS handshake")
        self._transport = secured

    def send(self, request: bytes, bytes_max: int) -> asyncio.Future[Response]:
        """Write a request, and return its response to come. Raises ResponseError, or TimeoutError after `expire`."""
        assert self._transport is not None
        self.is_reusable = False
        self._reader = ResponseReader(bytes_max)
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        if self._reader is None:
            self.close()  # Nothing was asked.
            return
        try:
            response = self._reader.feed(data)
        except ResponseError as error:
            self._fail(error)
            return
        if response is not None:
            self._end(response)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_reusable = False
        if self._reader is None:
            return
        try:
            self._end(self._reader.end())
        except ResponseError as error:
            lost = error if exc is None else ResponseError(f"the connection was lost: {exc}")
            self._fail(lost)

    def expire(self) -> None:
        """The deadline of the request has passed."""
        self._fail(TimeoutError())

    def fail(self, reason: str) -> None:
        """Close, with the request unanswered."""
        self._fail(ResponseError(reason))

    def close(self) -> None:
        """Close at once; an answer that is still to come is dropped."""
        self.is_reusable, self._reader = False, None
        if self._transport is not None:
            self._transport.abort()

    def _end(self, response: Response) -> None:
        answer, self._reader, self._answer = self._answer, None, None
        assert self._transport is not None
        self.is_reusable = not response.is_last and not self._transport.is_closing()
        if answer is not None and not answer.done():
            answer.set_result(response)

    def _fail(self, error: Exception) -> None:
        answer, self._answer = self._answer, None
        self.close()
        if answer is not None and not answer.done():
            answer.set_exception(error)


class _Target(Struct, frozen=True, eq=False):
    """A server as one identity reaches it."""

    identity: Identity
    host: str
    port: int
    is_tls: bool
    path: str
    """The path that all paths begin with; empty as a rule."""
    headers: str
    """Those that all requests have, each with its end of line."""
    idle: deque[_Connection]
    """Open connections on which nothing is awaited; the longest idle first."""


class ConnectionPool:
    """Sends requests on connections that are kept for a while after each answer."""

    def __init__(self, user_agent: str) -> None:
        self._user_agent = user_agent
        self._target: _Target | None = None
        self._deadlines: dict[_Connection, float] = {}
        """Connection to the deadline of the request on it."""
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._wakes_at = float("inf")
        """When `_expire` is called next."""

    async def exchange(
        self,
        what: str,
        identity: Identity,
        line: tuple[str, str],
        *,
        query: Mapping[str, str],
        body: bytes | None,
        content_type: str,
        deadline: float,
        bytes_max: int = BODY_BYTES_MAX,
    ) -> Response:
        """Send a request, `line` its method and path, and return the response. `deadline` is in the event loop's time.

        UnreachableError where nothing can have been sent, UnansweredError where no whole response came.
        """
        if self._is_closed:
            raise UnreachableError(f"{what}: not sent, the client is closed")
        target = self._target
        if target is None or target.identity is not identity:
            target = self._retarget(what, identity)
        request = _request(target, line, query, body, content_type)
        connection = _idle_connection(target) or await self._connect(what, target, deadline)
        if self._is_closed:
            connection.close()
            raise UnreachableError(f"{what}: not sent, the client was closed")
        self._deadlines[connection] = deadline
        self._wake_at(deadline)
        try:
            return await connection.send(request, bytes_max)
        except TimeoutError as error:
            raise UnansweredError(f"{what}: {identity.server}: no answer in time") from error
        except ResponseError as error:
            raise UnansweredError(f"{what}: {identity.server}: {error}") from error
        finally:
            del self._deadlines[connection]
            self._put_back(target, connection)

    def close(self) -> None:
        """Close all connections, for good; what is under way on them is unanswered."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        idle = () if self._target is None else self._target.idle
        for connection in idle:
            connection.close()
        for connection in self._deadlines:
            connection.fail("the client was closed")

    def _put_back(self, target: _Target, connection: _Connection) -> None:
        if self._is_closed or not connection.is_reusable or target is not self._target:
            connection.close()
            return
        connection.idle_since = asyncio.get_running_loop().time()
        target.idle.append(connection)
        self._wake_at(connection.idle_since + IDLE_SECONDS)

    def _retarget(self, what: str, identity: Identity) -> _Target:
        """Return the server as this identity reaches it. Connections are kept if they would be made alike."""
        before = self._target
        target = _target(what, identity, self._user_agent)
        if before is not None:
            if _connects_alike(before, target):
                target.idle.extend(before.idle)
            else:
                for connection in before.idle:
                    connection.close()
        self._target = target
        return target

    async def _connect(self, what: str, target: _Target, deadline: float) -> _Connection:
        loop, server = asyncio.get_running_loop(), target.identity.server
        name = target.identity.server_name or target.host
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + CONNECT_SECONDS)):
                # Not `create_connection(host, port)`: cancelled just when a socket is connected, it loses that socket.
                connected = await start_connection(
                    await _addresses(target.host, target.port),
                    happy_eyeballs_delay=HAPPY_EYEBALLS_SECONDS,
                    socket_factory=keeping_alive,
                )
                _, connection = await loop.create_connection(_Connection, sock=connected)
                if target.is_tls:
                    tls = target.identity.tls or ssl.create_default_context()
                    await connection.secure(tls, name)
        except TimeoutError as error:
            text = f"{what}: {server}: no connection within {CONNECT_SECONDS:g} s"
            raise UnreachableError(text) from error
        except ssl.SSLCertVerificationError as error:
            raise untrusted(what, server, error) from error
        except OSError as error:
            raise UnreachableError(f"{what}: {server}: {reason_of(error)}") from error
        except ValueError as error:
            raise UnreachableError(f"{what}: {server} is no address of a server") from error
        return connection

    def _wake_at(self, moment: float) -> None:
        """Let `_expire` be called at this moment, or before."""
        if moment < self._wakes_at:
            if self._timer is not None:
                self._timer.cancel()
            self._wakes_at = moment
            self._timer = asyncio.get_running_loop().call_at(moment, self._expire)

    def _expire(self) -> None:
        """End requests whose deadline has passed, and close connections that were idle for long."""
        now = max(self._wakes_at, asyncio.get_running_loop().time())
        self._timer, self._wakes_at = None, float("inf")
        for connection, deadline in self._deadlines.items():
            if deadline <= now:
                connection.expire()
        idle = deque[_Connection]() if self._target is None else self._target.idle
        while idle and not _is_fresh(idle[0], now):
            idle.popleft().close()
        moments = [one for one in self._deadlines.values() if one > now]
        if idle:
            moments.append(idle[0].idle_since + IDLE_SECONDS)
        if moments:
            self._wake_at(min(moments))


def _target(what: str, identity: Identity, user_agent: str) -> _Target:
    url = urlsplit(identity.server)
    is_tls = url.scheme == "https"
    try:
        host, port = url.hostname, url.port or (443 if is_tls else 80)
    except ValueError as error:
        raise UnreachableError(f"{what}: {identity.server} is no address of a server") from error
    if not host or url.scheme not in ("http", "https"):
        raise UnreachableError(f"{what}: {identity.server} is no address of a server")
    stated = {
        "Host": url.netloc.rpartition("@")[2],
        "User-Agent": user_agent,
        "Accept": "application/json",
        # Compression costs the server and this event loop more than it saves in one data centre.
        "Accept-Encoding": "identity",
    }
    if identity.authorization:
        stated["Authorization"] = identity.authorization
    for name, value in stated.items():
        if not _is_plain(value.replace(" ", "")):
            raise UnreachableError(f"{what}: {name} has characters that no header may have")
    return _Target(
        identity,
        host,
        port,
        is_tls,
        url.path.rstrip("/"),
        "".join(f"{name}: {value}\r\n" for name, value in stated.items()),
        deque(),
    )


def _connects_alike(one: _Target, other: _Target) -> bool:
    return _way(one) == _way(other)


def _way(target: _Target) -> tuple[object, ...]:
    """Return what decides where a connection leads and whether it is trusted."""
    identity = target.identity
    return target.host, target.port, target.is_tls, identity.tls, identity.server_name


async def _addresses(host: str, port: int) -> Sequence[AddrInfoType]:
    """Return the addresses of a host; those of a literal address without a thread. Raises OSError."""
    kind = socket.SOCK_STREAM
    try:
        return socket.getaddrinfo(host, port, type=kind, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return await asyncio.get_running_loop().getaddrinfo(host, port, type=kind)


def _idle_connection(target: _Target) -> _Connection | None:
    """Return the connection that was used last, if it can be used again."""
    now = asyncio.get_running_loop().time()
    while target.idle:
        connection = target.idle.pop()
        if connection.is_reusable and _is_fresh(connection, now):
            return connection
        connection.close()
    return None


def _is_fresh(connection: _Connection, now: float) -> bool:
    """Whether a connection was idle for so short a time that the server has not closed it unnoticed."""
    return connection.idle_since + IDLE_SECONDS > now


def _request(
    target: _Target,
    line: tuple[str, str],
    query: Mapping[str, str],
    body: bytes | None,
    content_type: str,
) -> bytes:
    method, path = line
    if not _is_plain(path):
        path = quote(path, safe="/:@!$&'()*+,;=~%")
    if query:
        path += "?" + urlencode(query)
    head = f"{method} {target.path}{path} HTTP/1.1\r\n{target.headers}"
    if body is None and method in ("GET", "DELETE"):
        return f"{head}\r\n".encode("latin-1")
    body = body or b""
    head += f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode("latin-1") + body
