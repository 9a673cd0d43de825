"""`/v1/why/KIND/NAMESPACE/NAME`: an answer for a caller who may `get` this pod or PodGroup.

The caller presents a bearer token of the API server. A review that fails, or that is not answered in time, is a refusal.
Whether an object exists is said only to callers who may get it. Everything is bounded: reviews and answers at a time,
answers of one user at a time and per minute, and what is remembered of reviews.
"""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from hashlib import sha256
from http import HTTPStatus
from typing import Final, Generic, Protocol, TypeVar

import msgspec
from aiohttp import web

from daemon.cluster.client.tenant_reviews import RESOURCES, User
from events.errors import ClusterError, MusterError, UsageError

PREFIX: Final = "/v1/why/"
TOKEN_HEADER: Final = "X-Muster-Authorization"  # noqa: S105  # the name of a header
"""Read before `Authorization`, which the service proxy of an API server removes."""

CACHE_SECONDS: Final = 10.0
"""How long the answer of a review is used again."""
CACHED_MAX: Final = 1024
"""Answers of reviews that are remembered."""
REVIEWS_AT_ONCE: Final = 4
REVIEWS_PER_SECOND: Final = 20.0
REVIEWS_BURST: Final = 40.0
"""Reviews for all callers: unknown tokens must not load the API server."""
ANSWERS_AT_ONCE: Final = 2
ANSWERS_PER_SECOND: Final = 0.5
ANSWERS_BURST: Final = 10.0
"""Answers for one user."""
WAIT_SECONDS: Final = 5.0
"""How long a request waits for its turn."""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_KeyT = TypeVar("_KeyT", bound=Hashable)
_ValueT = TypeVar("_ValueT")


class Reviews(Protocol):
    """What the API server says of a caller."""

    async def user_of(self, token: str) -> User | None:
        """Return the user of a token; None if it is not accepted."""

    async def may_get(self, user: User, kind: str, namespace: str, name: str) -> bool:
        """Return True if the user may get this object."""


Ask = Callable[[str], Awaitable[bytes]]
"""Return the answer about `Kind/namespace/name` as JSON. Raises UsageError if there is no such subject."""


class TenantPages:
    """The handler. It answers 503 until it is connected to an API server."""

    def __init__(self, elapsed_ns: Callable[[], int]) -> None:
        self._elapsed_ns = elapsed_ns
        self._reviews: Reviews | None = None
        self._ask: Ask | None = None
        self._users: _Cache[bytes, User | None] = _Cache(elapsed_ns)
        self._rights: _Cache[tuple[bytes, str], bool] = _Cache(elapsed_ns)
        self._reviewing = asyncio.Semaphore(REVIEWS_AT_ONCE)
        self._answering = asyncio.Semaphore(ANSWERS_AT_ONCE)
        self._review_rate = _Rates(elapsed_ns, REVIEWS_PER_SECOND, REVIEWS_BURST)
        self._answer_rate = _Rates(elapsed_ns, ANSWERS_PER_SECOND, ANSWERS_BURST)
        self._busy: set[str] = set()
        """Users with an answer under way: one at a time each."""

    def connect(self, reviews: Reviews, ask: Ask) -> None:
        """Answer from now on."""
        self._reviews, self._ask = reviews, ask

    async def why(self, request: web.Request) -> web.Response:
        """Answer `why` for one pod or PodGroup."""
        reviews, ask = self._reviews, self._ask
        if reviews is None or ask is None:
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "tenants are not answered here")
        kind, namespace, name = (request.match_info[one] for one in ("kind", "namespace", "name"))
        if kind not in RESOURCES or not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)):
            return _refused(HTTPStatus.BAD_REQUEST, "ask about Pod/NAMESPACE/NAME or PodGroup/...")
        given = request.headers.get(TOKEN_HEADER) or request.headers.get("Authorization") or ""
        scheme, _, token = given.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return _refused(HTTPStatus.UNAUTHORIZED, "a bearer token of the API server is needed")
        subject = f"{kind}/{namespace}/{name}"
        try:
            user = await self._user(reviews, token.strip())
            if user is None:
                return _refused(HTTPStatus.UNAUTHORIZED, "the API server does not accept the token")
            if not await self._may_get(reviews, user, kind, namespace, name):
                what = f"{RESOURCES[kind].plural} {namespace}/{name}"
                return _refused(HTTPStatus.FORBIDDEN, f"user {user.username} may not get {what}")
        except _BusyError:
            return _refused(HTTPStatus.TOO_MANY_REQUESTS, "too many reviews of access; try again")
        except (ClusterError, TimeoutError):
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, "the API server answers no reviews")
        return await self._answer(ask, user, subject)

    async def _answer(self, ask: Ask, user: User, subject: str) -> web.Response:
        who = user.username
        if who in self._busy or not self._answer_rate.take(who):
            return _refused(HTTPStatus.TOO_MANY_REQUESTS, f"user {who} asks too often; try again")
        self._busy.add(who)
        try:
            async with _turn(self._answering):
                body = await ask(subject)
        except _BusyError:
            return _refused(HTTPStatus.TOO_MANY_REQUESTS, "others are being answered; try again")
        except UsageError:
            return _refused(HTTPStatus.NOT_FOUND, f"the log has no {subject}")
        except (MusterError, TimeoutError):
            return _refused(HTTPStatus.SERVICE_UNAVAILABLE, f"no answer about {subject} in time")
        finally:
            self._busy.discard(who)
        return _json(body, HTTPStatus.OK)

    async def _user(self, reviews: Reviews, token: str) -> User | None:
        # The token itself is not kept.
        key = sha256(token.encode("utf-8", "surrogateescape")).digest()
        known = self._users.get(key)
        if known is None:
            known = (await self._review(lambda: reviews.user_of(token)),)
            self._users.put(key, known[0])
        return known[0]

    async def _may_get(
        self, reviews: Reviews, user: User, kind: str, namespace: str, name: str
    ) -> bool:
        # Rights may depend on groups and extra fields: two tokens of one user need not have the same.
        identity = sha256(msgspec.json.encode(user, order="deterministic")).digest()
        key = (identity, f"{kind}/{namespace}/{name}")
        known = self._rights.get(key)
        if known is None:
            known = (await self._review(lambda: reviews.may_get(user, kind, namespace, name)),)
            self._rights.put(key, known[0])
        return known[0]

    async def _review(self, asked: Callable[[], Awaitable[_ValueT]]) -> _ValueT:
        if not self._review_rate.take(""):
            raise _BusyError
        async with _turn(self._reviewing):
            return await asked()


class _BusyError(Exception):
    """No turn within the time."""


class _turn:  # noqa: N801  # used like a function
    """A place of a semaphore. Raises _BusyError after WAIT_SECONDS."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places = places

    async def __aenter__(self) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            raise _BusyError from None

    async def __aexit__(self, *_: object) -> None:
        self._places.release()


class _Cache(Generic[_KeyT, _ValueT]):
    """Values for CACHE_SECONDS; the oldest is dropped first."""

    def __init__(self, elapsed_ns: Callable[[], int]) -> None:
        self._elapsed_ns = elapsed_ns
        self._found: OrderedDict[_KeyT, tuple[int, _ValueT]] = OrderedDict()

    def get(self, key: _KeyT) -> tuple[_ValueT] | None:
        """Return the value in a tuple; None if there is none."""
        found = self._found.get(key)
        if found is None or self._elapsed_ns() - found[0] >= CACHE_SECONDS * 1e9:
            return None
        return (found[1],)

    def put(self, key: _KeyT, value: _ValueT) -> None:
        """Remember a value."""
        self._found.pop(key, None)
        self._found[key] = (self._elapsed_ns(), value)
        if len(self._found) > CACHED_MAX:
            self._found.popitem(last=False)


class _Rates:
    """A token bucket for each key, within CACHED_MAX keys."""

    def __init__(self, elapsed_ns: Callable[[], int], per_second: float, burst: float) -> None:
        self._elapsed_ns = elapsed_ns
        self._per_second = per_second
        self._burst = burst
        self._left: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def take(self, key: str) -> bool:
        """Return True if one more is allowed now."""
        now = self._elapsed_ns()
        then, left = self._left.pop(key, (now, self._burst))
        left = min(self._burst, left + (now - then) / 1e9 * self._per_second)
        is_allowed = left >= 1.0
        self._left[key] = (now, left - 1.0 if is_allowed else left)
        if len(self._left) > CACHED_MAX:
            self._left.popitem(last=False)
        return is_allowed


def _refused(status: HTTPStatus, message: str) -> web.Response:
    return _json(msgspec.json.encode({"error": message}), status)


def _json(body: bytes, status: HTTPStatus) -> web.Response:
    headers = {"Cache-Control": "no-store"}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        headers["Retry-After"] = "5"
    return web.Response(
        body=body.rstrip(b"\n") + b"\n",
        status=status,
        content_type="application/json",
        headers=headers,
    )
