"""The HTTP session, and what its errors prove: that nothing was sent, or nothing at all."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp

from daemon.cluster.client.errors import (
    StalledError,
    UnansweredError,
    UnreachableError,
    UntrustedError,
)

CONNECT_SECONDS: Final = 5.0
"""Seconds for a new connection, with its TLS."""
READ_BYTES: Final = 2**20
"""Bytes read ahead of the consumer of a body."""
IDLE_SECONDS: Final = 30.0
"""Seconds after which an idle connection is closed, before the server or a load balancer does it unnoticed."""
PROBE_AFTER_SECONDS: Final = 30
PROBE_EVERY_SECONDS: Final = 10
PROBES_MAX: Final = 3
"""TCP keep-alive (rule K3.12): a peer that is gone is noticed within a minute."""


class TooLongError(aiohttp.ClientPayloadError):
    """A body has no end in sight."""


def new_session(user_agent: str) -> aiohttp.ClientSession:
    """The one session of a client: no cookies, no redirects, no environment, no time-out of its own."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            # Callers bound what they have under way; a bound here would let watches starve requests.
            limit=0,
            keepalive_timeout=IDLE_SECONDS,
            socket_factory=keeping_alive,
        ),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={
            "User-Agent": user_agent,
            "Accept": "application/json",
            # Compression costs the server and this event loop more than it saves in one data centre.
            "Accept-Encoding": "identity",
        },
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=READ_BYTES,
        auto_decompress=False,
    )
    # The counts of requests (K3.11) and outcomes (K8) include each; aiohttp itself would send
    # a GET or a PUT again where the connection was lost, and has no option that says no.
    session._retry_connection = False  # noqa: SLF001
    return session


@contextmanager
def translated(what: str, server: str) -> Iterator[None]:
    """Errors of aiohttp as ours: unreachable where nothing can have been sent, else unanswered."""
    try:
        yield
    except aiohttp.ClientConnectorCertificateError as error:
        raise untrusted(what, server, error.certificate_error) from error
    except aiohttp.ClientHttpProxyError as error:
        raise UnreachableError(f"{what}: the proxy answered {error.status}") from error
    except aiohttp.ConnectionTimeoutError as error:
        raise UnreachableError(
            f"{what}: {server}: no connection within {CONNECT_SECONDS:g} s"
        ) from error
    except aiohttp.ClientConnectorError as error:
        raise UnreachableError(f"{what}: {server}: {reason_of(error.os_error)}") from error
    except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
        raise UnreachableError(f"{what}: {server} is no address of a server") from error
    except aiohttp.SocketTimeoutError as error:
        raise StalledError(f"{what}: {server} went silent") from error
    except TimeoutError as error:
        raise UnansweredError(f"{what}: {server}: no answer in time") from error
    except (aiohttp.ClientError, OSError) as error:
        raise UnansweredError(f"{what}: {server}: {_lost(error)}") from error


def keeping_alive(address: aiohttp.AddrInfoType) -> socket.socket:
    """A socket whose peer is probed while it is silent."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    probe_while_silent(made)
    return made


def probe_while_silent(made: socket.socket) -> None:
    """Let the peer of a socket be probed while it is silent."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", PROBE_AFTER_SECONDS),
        ("TCP_KEEPINTVL", PROBE_EVERY_SECONDS),
        ("TCP_KEEPCNT", PROBES_MAX),
    ):
        # Not each system has all three.
        if (number := getattr(socket, option, None)) is not None:
            made.setsockopt(socket.IPPROTO_TCP, number, value)


def untrusted(what: str, server: str, error: Exception) -> UntrustedError:
    """Return the error of a certificate that is not trusted."""
    text = getattr(error, "verify_message", "") or error
    return UntrustedError(f"{what}: the certificate of {server} is not trusted: {text}")


def reason_of(error: OSError) -> str:
    """The system's words; asyncio's own name the address once more, and not what is wrong."""
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return error.strerror or str(error) or type(error).__name__


def _lost(error: Exception) -> str:
    """aiohttp's own words where it has any; they may repeat part of a body, so not all of them."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed before an answer"
    if isinstance(error, TooLongError):
        return str(error)
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection was closed within the answer"
    return f"the connection was lost: {' '.join(str(error).split())[:200] or type(error).__name__}"


def timeouts(
    total_seconds: float | None, read_seconds: float | None = None
) -> aiohttp.ClientTimeout:
    """Both of a connection's beginnings are bounded by `CONNECT_SECONDS`, whatever the rest is."""
    return aiohttp.ClientTimeout(
        total=total_seconds,
        connect=CONNECT_SECONDS,
        sock_connect=CONNECT_SECONDS,
        sock_read=read_seconds,
    )


async def whole_body(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """The body, no more than so many bytes of it."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > bytes_max:
            raise TooLongError(f"the answer is longer than {bytes_max} bytes")
    return b"".join(chunks)
