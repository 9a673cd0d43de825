"""The client: connections to one API server, the credentials of the moment, and answers as bytes or typed errors.

It decodes nothing but errors. How many requests are under way at a time is its caller's affair.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPMethod, HTTPStatus
from typing import Final
from urllib.parse import quote

import aiohttp
import structlog
from msgspec import Struct

from daemon.cluster.client.answers import api_error, is_json
from daemon.cluster.client.availability import NO_ANSWER, Availability
from daemon.cluster.client.backoff import Backoff
from daemon.cluster.client.calls import READING, Call
from daemon.cluster.client.connection_pool import ConnectionPool
from daemon.cluster.client.credentials import Access, Credentials, Identity
from daemon.cluster.client.errors import (
    ApiError,
    ServerError,
    StalledError,
    ThrottledError,
    UnansweredError,
    UnreachableError,
    UntrustedError,
)
from daemon.cluster.client.finding import source_for
from daemon.cluster.client.http_response import ERROR_BYTES_MAX, Response, is_success
from daemon.cluster.client.transport import new_session, timeouts, translated, whole_body
from daemon.environment import ENVIRONMENT
from events.errors import ClusterError

BODY_BYTES_MAX: Final = 512 * 2**20
"""A longer answer is not read to its end."""
DEADLINE_SECONDS: Final = 30.0
"""For a request, where its caller says nothing else."""
HEADERS_SECONDS: Final = 30.0
"""Within which a watch must begin to answer."""
REPEAT_SECONDS: Final = 60.0
"""A list or a watch is repeated after a 401 at most once in so long: its reflector counts requests."""
WARNINGS_MAX: Final = 1000
"""Texts of `Warning` headers that are kept, in order to say each once."""
RETRIED: Final = frozenset(
    {
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""With 429, the statuses after which the same may be asked again (rule K12.2)."""

Observe = Callable[[str, int, float], None]
"""Told of each request: what it was, the status or 0 where none came, and seconds until then."""

UNAUTHORIZED: Final = int(HTTPStatus.UNAUTHORIZED)

_METHODS: Final = {
    "list": HTTPMethod.GET,
    "get": HTTPMethod.GET,
    "watch": HTTPMethod.GET,
    "create": HTTPMethod.POST,
    "update": HTTPMethod.PUT,
    "patch": HTTPMethod.PATCH,
    "delete": HTTPMethod.DELETE,
}
logger: Final = structlog.get_logger("muster")


class Asking(Struct, frozen=True):
    """One request, ready to be sent."""

    what: str
    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes | None = None
    content_type: str = "application/json"
    is_counted: bool = False
    """Whether a reflector counts how often it is sent."""


class Client:
    """Speaks to one API server. Close it at the end."""

    def __init__(
        self,
        credentials: Credentials,
        session: aiohttp.ClientSession,
        pool: ConnectionPool,
        jitter: Callable[[], float],
        observe: Observe | None = None,
        *,
        is_read_only: bool = False,
    ) -> None:
        self._is_read_only = is_read_only
        """Whether every call that could write is refused before it is sent."""
        self.namespace = credentials.identity.namespace
        """Our own in a cluster, else the context's, else `default`."""
        self._credentials = credentials
        self._session = session
        """For lists, watches, and whatever goes through a proxy."""
        self._pool = pool
        """For all other requests."""
        self._jitter = jitter
        self._observe = observe
        self.availability = Availability()
        self._repeated_at: dict[str, float] = {}
        self._warnings: set[str] = set()

    @classmethod
    async def connect(
        cls,
        access: Access,
        jitter: Callable[[], float],
        user_agent: str,
        observe: Observe | None = None,
        *,
        is_read_only: bool = False,
    ) -> "Client":
        """Read the credentials; nothing is asked of the server yet, so it need not be there."""
        credentials = await Credentials.load(source_for(access, ENVIRONMENT))
        session, pool = new_session(user_agent), ConnectionPool(user_agent)
        return cls(credentials, session, pool, jitter, observe, is_read_only=is_read_only)

    @property
    def server(self) -> str:
        """Where the API server is, for people to read."""
        return self._credentials.identity.server

    async def request(
        self,
        call: Call,
        *,
        name: str = "",
        namespace: str = "",
        query: Mapping[str, str] = {},
        body: bytes | None = None,
        content_type: str = "application/json",
        deadline_seconds: float = DEADLINE_SECONDS,
        tries: int = 1,
    ) -> bytes:
        """Make a call; the body of its answer, which is said to be JSON and not parsed.

        The deadline is for all tries together. With more than one, the call must be one that may be
        made again (rule K12.2): it is after 429, 500, 502, 503, 504, a lost connection and silence.
        """
        if self._is_read_only and call.verb not in READING:
            raise ClusterError(f"{call.what}: not sent, a shadow only reads")
        path, is_list = call_path(call, name, namespace), call.verb == "list"
        method = _METHODS[call.verb]
        asking = Asking(call.what, method, path, query, body, content_type, is_list)
        ask = self._ask_whole if is_list else self._ask_short
        loop = asyncio.get_running_loop()
        deadline = loop.time() + deadline_seconds
        if tries == 1:
            return await ask(asking, deadline)
        backoff = Backoff(self._jitter)
        while True:
            tries -= 1
            try:
                return await ask(asking, deadline)
            except (ApiError, UnreachableError, UnansweredError) as error:
                wait = _wait_seconds(error, backoff.failed(loop.time()))
                if wait is None or tries <= 0 or loop.time() + wait >= deadline:
                    raise
            await asyncio.sleep(wait)

    async def get(self, path: str) -> bytes:
        """What every authenticated client may read: `/version`, `/api`, `/apis`, `/apis/G/V`."""
        deadline = asyncio.get_running_loop().time() + DEADLINE_SECONDS
        return await self._ask_whole(Asking(f"get {path}", HTTPMethod.GET, path), deadline)

    @asynccontextmanager
    async def watch(
        self, call: Call, query: Mapping[str, str], stall_seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Chunks as they come. StalledError after so long a silence, UnansweredError where it is cut.

        An error status is raised on the way in; an end in order ends the iteration.
        """
        asking = Asking(
            call.what,
            HTTPMethod.GET,
            call_path(call, "", ""),
            {**query, "watch": "1"},
            is_counted=True,
        )
        try:
            async with asyncio.timeout(HEADERS_SECONDS):
                response = await self._open(asking, timeouts(None, stall_seconds))
        except TimeoutError as error:
            raise StalledError(f"{asking.what}: no answer in {HEADERS_SECONDS:g} s") from error
        chunks = self._chunks(asking, response)
        try:
            yield chunks
        finally:
            await chunks.aclose()
            # Never returned to the pool: the rest of the stream is not read.
            response.close()

    async def close(self) -> None:
        """End the session; what is under way ends with it."""
        self._pool.close()
        await self._session.close()

    async def _ask_short(self, asking: Asking, deadline: float) -> bytes:
        """Ask for something that is sent and answered in a few kilobytes. Credentials are handled as in `_open`."""
        now = asyncio.get_running_loop().time()
        identity = self._credentials.identity
        if self._credentials.is_due(now):
            identity = await _within(deadline, asking.what, self._credentials.current())
        if identity.proxy:
            return await self._ask_whole(asking, deadline)
        try:
            response = await self._exchange(asking, identity, deadline)
        except UntrustedError:
            fresh = await _within(deadline, asking.what, self._credentials.refused(identity))
            if fresh is identity:
                raise
            response = await self._exchange(asking, fresh, deadline)
        if response.status == UNAUTHORIZED:
            fresh = await _within(deadline, asking.what, self._credentials.refused(identity))
            response = await self._exchange(asking, fresh, deadline)
        self.availability.observe(asking.what, response.status)
        if response.warnings:
            self._say_once(asking, response.warnings)
        if is_success(response.status):
            _check_json(asking, response.status, response.headers)
            return response.body
        error = api_error(asking.what, response.status, response.headers, response.body)
        raise self.availability.judged(error)

    async def _exchange(self, asking: Asking, identity: Identity, deadline: float) -> Response:
        """Send one short request, and report it to the observer."""
        loop = asyncio.get_running_loop()
        began, status = loop.time(), NO_ANSWER
        try:
            response = await self._pool.exchange(
                asking.what,
                identity,
                (asking.method, asking.path),
                query=asking.query,
                body=asking.body,
                content_type=asking.content_type,
                deadline=deadline,
            )
            status = response.status
        except (UnreachableError, UnansweredError):
            self.availability.observe(asking.what, NO_ANSWER)
            raise
        finally:
            if self._observe is not None:
                self._observe(asking.what, status, loop.time() - began)
        return response

    async def _ask_whole(self, asking: Asking, deadline: float) -> bytes:
        """Ask for something whose answer may be large, and read it to its end."""
        seconds = max(0.001, deadline - asyncio.get_running_loop().time())  # 0 would be no bound.
        response = await self._open(asking, timeouts(seconds))
        try:
            with translated(asking.what, self.server):
                return await whole_body(response, BODY_BYTES_MAX)
        except UnansweredError:
            self.availability.observe(asking.what, NO_ANSWER)
            raise
        finally:
            response.release()

    async def _chunks(
        self, asking: Asking, response: aiohttp.ClientResponse
    ) -> AsyncGenerator[bytes, None]:
        with translated(asking.what, self.server):
            async for chunk in response.content.iter_any():
                yield chunk

    async def pause(self, seconds: float) -> bool:
        """Wait before asking again: so long, or until the server is back where it was away."""
        return await self.availability.pause(seconds)

    async def _open(self, asking: Asking, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """An answer of 2xx that is JSON, its body unread.

        After a 401 the credentials are read again and the same is asked once more (rule K3.9): the
        server did nothing. So it is where the server's certificate was not trusted and the CA changed.
        """
        identity = await self._credentials.current()
        try:
            response = await self._send(asking, limits, identity)
        except UntrustedError:
            fresh = await self._credentials.refused(identity)
            if fresh is identity:
                raise
            response = await self._send(asking, limits, fresh)
        try:
            if response.status == HTTPStatus.UNAUTHORIZED:
                fresh = await self._credentials.refused(identity)
                if self._may_repeat(asking):
                    response.close()
                    response = await self._send(asking, limits, fresh)
            return await self._checked(asking, response)
        except BaseException:
            response.close()
            raise

    def _may_repeat(self, asking: Asking) -> bool:
        if not asking.is_counted:
            return True
        now = asyncio.get_running_loop().time()
        before = self._repeated_at.get(asking.what)
        if before is not None and now - before < REPEAT_SECONDS:
            return False
        self._repeated_at[asking.what] = now
        return True

    async def _send(
        self, asking: Asking, limits: aiohttp.ClientTimeout, identity: Identity
    ) -> aiohttp.ClientResponse:
        """Send one request, read up to the headers of its answer, and report both to the observer."""
        headers = {"Content-Type": asking.content_type} if asking.body is not None else {}
        if identity.authorization:
            headers["Authorization"] = identity.authorization
        loop = asyncio.get_running_loop()
        began = loop.time()
        status = NO_ANSWER
        try:
            with translated(asking.what, identity.server):
                response = await self._session.request(
                    asking.method,
                    identity.server + asking.path,
                    params=asking.query,
                    data=asking.body,
                    headers=headers,
                    allow_redirects=False,
                    timeout=limits,
                    ssl=identity.tls or True,
                    server_hostname=identity.server_name,
                    proxy=identity.proxy,
                )
            status = response.status
        except (UnreachableError, UnansweredError):
            self.availability.observe(asking.what, NO_ANSWER)
            raise
        finally:
            if self._observe is not None:
                self._observe(asking.what, status, loop.time() - began)
        return response

    async def _checked(
        self, asking: Asking, response: aiohttp.ClientResponse
    ) -> aiohttp.ClientResponse:
        self.availability.observe(asking.what, response.status)
        if "Warning" in response.headers:
            self._say_once(asking, response.headers.getall("Warning"))
        if is_success(response.status):
            _check_json(asking, response.status, response.headers)
            return response
        body = b""
        # The status alone is an answer, whatever becomes of the body.
        with suppress(UnansweredError), translated(asking.what, self.server):
            body = await whole_body(response, ERROR_BYTES_MAX)
        error = api_error(asking.what, response.status, response.headers, body)
        raise self.availability.judged(error)

    def _say_once(self, asking: Asking, warnings: Iterable[str]) -> None:
        """Deprecations and the like, each text once (rule K12.5)."""
        for text in warnings:
            if text not in self._warnings and len(self._warnings) < WARNINGS_MAX:
                self._warnings.add(text)
                logger.warning("the API server warns", what=asking.what, text=text[:500])


def call_path(call: Call, name: str, namespace: str) -> str:
    """Where a call goes."""
    resource = call.resource
    namespace = namespace or call.namespace
    if name:
        return resource.object_path(quote(name, safe=":"), namespace, call.subresource)
    is_within = namespace and call.verb in ("list", "watch")
    if resource.is_namespaced and (call.verb == "create" or is_within):
        return resource.collection_path(namespace)
    return resource.path


def _check_json(asking: Asking, status: int, headers: Mapping[str, str]) -> None:
    """Raise UnansweredError if the body of an answer of 2xx is not said to be JSON."""
    found = headers.get("content-type", "nothing")
    if not is_json(found):
        raise UnansweredError(f"{asking.what}: {status}, with {found} for JSON")


async def _within(deadline: float, what: str, identity: Awaitable[Identity]) -> Identity:
    """Wait for credentials no longer than for the answer."""
    try:
        async with asyncio.timeout_at(deadline):
            return await identity
    except TimeoutError as error:
        raise UnreachableError(f"{what}: credentials were not renewed in time") from error


def _wait_seconds(error: ApiError | UnreachableError | UnansweredError, own: float) -> float | None:
    """How long to wait before asking again; None where that would not help."""
    if not isinstance(error, ApiError):
        return own
    if isinstance(error, ThrottledError) or (
        isinstance(error, ServerError) and error.status in RETRIED
    ):
        return max(own, error.retry_after_seconds or 0.0)
    return None
