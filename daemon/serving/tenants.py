"""Questions of tenants: why a pod or pod group of theirs waits, for callers with a Kubernetes bearer token.

`GET /v1/namespaces/NAMESPACE/pods/NAME/why`, and `podgroups`. The API server says whose the token is (TokenReview) and
whether that user may `get` the object (SubjectAccessReview); only then is the log asked. A user without that right gets the
same answer whether the object exists or not. Whatever fails on the way refuses the question.

Each user has one question under way and a rate, and all of them share a few places, so that no user delays the others.
So has each tenant about whose namespaces users ask: many users of one do not take the places of all.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from http import HTTPStatus
from typing import Final, Generic, Protocol, TypeVar

import msgspec
import structlog
from aiohttp import web
from msgspec import Struct

from daemon.cluster.client.reviews import TOKEN_HEADER, ReviewedUser
from daemon.serving.listening import served_application
from events.errors import MusterError

KINDS: Final = {"pods": "Pod", "podgroups": "PodGroup"}
"""Resources that tenants may ask about."""

NAME_MAX: Final = 253
"""Characters of a Kubernetes name."""

logger: Final = structlog.get_logger("muster")

V = TypeVar("V")


class TenantLimits(Struct, frozen=True):
    """Bounds on what tenants may use."""

    answers_at_once: int = 2
    """Questions that are answered at a time."""
    waiting_max: int = 16
    """Questions of all users that wait for a place; further ones are refused."""
    reviews_at_once: int = 8
    """Requests for a review under way at a time; further questions are refused."""
    per_minute: int = 20
    """Questions of one user in a minute."""
    per_minute_of_tenant: int = 60
    """Questions about the namespaces of one tenant in a minute."""
    under_way_of_tenant: int = 6
    """Questions about the namespaces of one tenant that wait for a place or are answered at a time."""
    review_seconds: float = 10.0
    """Seconds for which the answer of a review is kept."""
    cached_max: int = 1024
    """Reviews of each kind, and users, that are kept."""
    wait_seconds: float = 10.0
    """Seconds that a question waits for a place."""


class Reviewer(Protocol):
    """Who a caller is and what it may do. Raises MusterError if that cannot be said."""

    async def user_of(self, token: str) -> ReviewedUser | None:
        """Return the user of a token; None for a token that is not accepted."""
        ...

    async def may_get(self, user: ReviewedUser, kind: str, namespace: str, name: str) -> bool:
        """Return True if the user may get the object."""
        ...


Answerer = Callable[[str], Awaitable[bytes | None]]
"""Answers about `Kind/namespace/name` in JSON; None if the log has no such object. Raises MusterError."""


class TenantQuestions:
    """Reviews the caller of each question and passes on what it may ask."""

    def __init__(
        self,
        reviewer: Reviewer,
        answer: Answerer,
        now_seconds: Callable[[], float],
        limits: TenantLimits | None = None,
        tenant_of: Callable[[str], str] = str,
    ) -> None:
        """`now_seconds` is a clock that only goes forward; `tenant_of` returns the tenant of a namespace."""
        self._limits = limits = limits or TenantLimits()
        self._reviewer = reviewer
        self._answer = answer
        self._now_seconds = now_seconds
        self._places = asyncio.Semaphore(limits.answers_at_once)
        self._waiting = 0
        self._reviewing = 0
        self._users = _Recent[ReviewedUser | None](limits.cached_max)
        self._rights = _Recent[bool](limits.cached_max)
        self._windows = _Recent[int](limits.cached_max)
        """The questions of a user in the minute that began with its first one."""
        self._asking: set[str] = set()
        self._tenant_of = tenant_of
        self._tenant_windows = _Recent[int](limits.cached_max)
        self._under_way: dict[str, int] = {}
        """Tenant to its questions that wait for a place or are answered."""

    def application(self) -> web.Application:
        """Return the application."""
        app = served_application()
        app.add_routes([web.get("/v1/namespaces/{namespace}/{resource}/{name}/why", self.why)])
        return app

    async def why(self, request: web.Request) -> web.Response:
        """Answer why a pod or pod group waits, or where it is."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        kind = KINDS.get(request.match_info["resource"])
        if kind is None or not (_is_name(namespace) and _is_name(name)):
            return _refusal(HTTPStatus.NOT_FOUND, "ask about pods or podgroups by their names")
        token = _token_of(request)
        if not token:
            return _unauthorized("a Kubernetes bearer token is needed")
        subject = f"{kind}/{namespace}/{name}"
        try:
            user = await self._user(token)
            if user is None:
                return _unauthorized("the API server does not accept this token")
            if not self._admits(self._windows, user.username, self._limits.per_minute):
                return _busy("too many questions of this user", 60)
            if user.username in self._asking:
                return _busy("another question of this user is being answered", 1)
            self._asking.add(user.username)
            try:
                if not await self._may_get(user, kind, namespace, name):
                    text = f"user {user.username!r} may not get {kind} {namespace}/{name}"
                    return _refusal(HTTPStatus.FORBIDDEN, text)
                return await self._of_tenant(self._tenant_of(namespace), subject)
            finally:
                self._asking.discard(user.username)
        except _BusyError as error:
            return _busy(str(error), 2)
        except TimeoutError:
            return _busy("no place became free in time", 10)
        except MusterError as error:
            # What failed is for the operator: it may name what the caller must not see.
            logger.warning("tenant question failed", subject=subject, error=str(error))
            return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, "cannot be answered now")

    async def _of_tenant(self, tenant: str, subject: str) -> web.Response:
        """Answer a question about an object of a tenant, within the bounds of that."""
        if not self._admits(self._tenant_windows, tenant, self._limits.per_minute_of_tenant):
            return _busy("too many questions about this tenant", 60)
        under_way = self._under_way.get(tenant, 0)
        if under_way >= self._limits.under_way_of_tenant:
            return _busy("too many questions about this tenant at a time", 2)
        self._under_way[tenant] = under_way + 1
        try:
            return await self._answered(subject)
        finally:
            self._under_way[tenant] -= 1
            if not self._under_way[tenant]:
                del self._under_way[tenant]

    async def _answered(self, subject: str) -> web.Response:
        if self._waiting >= self._limits.waiting_max:
            raise _BusyError("too many questions")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await self._places.acquire()
        finally:
            self._waiting -= 1
        try:
            body = await self._answer(subject)
        finally:
            self._places.release()
        if body is None:
            return _refusal(HTTPStatus.NOT_FOUND, f"{subject} is not in the log")
        return web.Response(
            body=body, content_type="application/json", headers={"Cache-Control": "no-store"}
        )

    async def _user(self, token: str) -> ReviewedUser | None:
        # The token itself is not kept.
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        return await self._reviewed(self._users, key, lambda: self._reviewer.user_of(token))

    async def _may_get(self, user: ReviewedUser, kind: str, namespace: str, name: str) -> bool:
        key = (msgspec.json.encode(user, order="sorted"), kind, namespace, name)
        review = self._reviewer.may_get
        return await self._reviewed(self._rights, key, lambda: review(user, kind, namespace, name))

    async def _reviewed(
        self, known: "_Recent[V]", key: Hashable, review: Callable[[], Awaitable[V]]
    ) -> V:
        found = known.find(key, self._now_seconds())
        if found is not None:
            return found.value
        if self._reviewing >= self._limits.reviews_at_once:
            raise _BusyError("too many questions")
        self._reviewing += 1
        try:
            value = await review()
        finally:
            self._reviewing -= 1
        known.keep(key, value, self._now_seconds() + self._limits.review_seconds)
        return value

    def _admits(self, windows: "_Recent[int]", name: str, most: int) -> bool:
        """Count a question of a user or about a tenant; return False if there were too many in this minute."""
        now = self._now_seconds()
        window = windows.find(name, now)
        count = 1 if window is None else window.value + 1
        if count > most:
            return False
        windows.keep(name, count, now + 60 if window is None else window.until)
        return True


class _BusyError(Exception):
    """A bound is reached."""


class _Kept(Struct, Generic[V], frozen=True):
    value: V
    until: float


class _Recent(Generic[V]):
    """Values with a time until which they are good. The oldest make room."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._kept: OrderedDict[Hashable, _Kept[V]] = OrderedDict()

    def find(self, key: Hashable, now: float) -> _Kept[V] | None:
        """Return a value that is still good."""
        found = self._kept.get(key)
        return None if found is None or found.until <= now else found

    def keep(self, key: Hashable, value: V, until: float) -> None:
        """Keep a value until a time."""
        self._kept[key] = _Kept(value, until)
        self._kept.move_to_end(key)
        if len(self._kept) > self._count_max:
            self._kept.popitem(last=False)


def _token_of(request: web.Request) -> str:
    direct = request.headers.get("Authorization", "")
    scheme, _, token = direct.partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return request.headers.get(TOKEN_HEADER, "").strip()


def _is_name(text: str) -> bool:
    """Return True if it can be the name of an object: a DNS subdomain."""
    is_plain = text.isascii() and text.replace("-", "").replace(".", "").isalnum()
    return is_plain and text == text.lower() and text[0] not in "-." and len(text) <= NAME_MAX


def _refusal(status: HTTPStatus, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=msgspec.json.encode({"error": text}) + b"\n",
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-store", **(headers or {})},
    )


def _unauthorized(text: str) -> web.Response:
    return _refusal(HTTPStatus.UNAUTHORIZED, text, {"WWW-Authenticate": "Bearer"})


def _busy(text: str, seconds: int) -> web.Response:
    return _refusal(HTTPStatus.TOO_MANY_REQUESTS, text, {"Retry-After": str(seconds)})
