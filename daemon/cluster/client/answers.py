"""What an answer says: the error it stands for, and how long the server wants to be left alone.

Nothing of a body is parsed before the status and the content type are known (rule K3.10).
"""

from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from daemon.cluster.client.errors import (
    AlreadyExistsError,
    ApiError,
    BudgetError,
    Cause,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    ServerError,
    ThrottledError,
    UnansweredError,
    UnauthorizedError,
)
from events.limits import UNDECODABLE, decode_hostile

RETRY_AFTER_MAX_SECONDS: Final = 120.0
"""A server that wants a longer silence is asked again after this one."""
MESSAGE_MAX: Final = 500
"""Characters of a body without a Status that an error repeats."""
DISRUPTION_BUDGET: Final = "DisruptionBudget"
"""The cause that tells a disruption budget's 429 from throttling (rule K9.2)."""

T = TypeVar("T")


class _Details(Struct, rename="camel"):
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: float | None = None


class _Status(Struct):
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


_STATUS: Final = msgspec.json.Decoder(_Status)

_KINDS: Final[Mapping[int, type[ApiError]]] = {
    HTTPStatus.UNAUTHORIZED: UnauthorizedError,
    HTTPStatus.FORBIDDEN: ForbiddenError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    # The server stopped waiting; the request may have taken effect.
    HTTPStatus.REQUEST_TIMEOUT: ServerError,
    HTTPStatus.GONE: ExpiredError,
}


def is_json(content_type: str) -> bool:
    """Whether a content type is JSON, with any parameters."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def api_error(what: str, status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """The error that an answer other than 2xx is, by its status, reason and causes (rule K12.1).

    Headers are looked up in lower case.
    """
    stated = _status_object(headers, body)
    details = stated.details or _Details()
    causes = details.causes or ()
    wait = retry_after_seconds(headers)
    if wait is None and details.retry_after_seconds is not None:
        wait = _bounded(details.retry_after_seconds)
    message = stated.message or ""
    if 300 <= status < 400 and "location" in headers:
        message = f"redirects to {headers['location'][:MESSAGE_MAX]}"
    kind = _kind(status, stated.reason or "", causes)
    return kind(what, status, stated.reason or "", message, causes, wait)


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """What `Retry-After` asks for, at most `RETRY_AFTER_MAX_SECONDS`; None where it says nothing.

    A date is measured from the answer's own `Date`, so that no clock of ours counts.
    """
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    if text.isascii() and text.isdigit():
        # No number that needs more digits is shorter than the bound.
        return _bounded(float(text[:9]))
    try:
        until = parsedate_to_datetime(text)
        return _bounded((until - parsedate_to_datetime(headers.get("date", ""))).total_seconds())
    except (ValueError, TypeError):
        return None


def decoded(what: str, body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode the body of an answer of 2xx; one that is cut or malformed answers nothing (K3.10).

    What an object of a tenant has below `DEPTH_MAX` levels is left out.
    """
    try:
        return decode_hostile(body, decoder.decode)
    except UNDECODABLE as error:
        raise UnansweredError(f"{what}: the answer cannot be read: {error}") from error


def _kind(status: int, reason: str, causes: tuple[Cause, ...]) -> type[ApiError]:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        is_budget = any(cause.reason == DISRUPTION_BUDGET for cause in causes)
        return BudgetError if is_budget else ThrottledError
    if status == HTTPStatus.CONFLICT:
        return AlreadyExistsError if reason == "AlreadyExists" else ConflictError
    if kind := _KINDS.get(status):
        return kind
    return ServerError if status >= HTTPStatus.INTERNAL_SERVER_ERROR else InvalidError


def _status_object(headers: Mapping[str, str], body: bytes) -> _Status:
    """The Status in the body; of any other body no more than the beginning of its text."""
    content_type = headers.get("content-type", "")
    if is_json(content_type):
        try:
            return decode_hostile(body, _STATUS.decode)
        except UNDECODABLE:
            return _Status(message="(its Status cannot be read)")
    if content_type.startswith("text/plain"):
        text = body[: 4 * MESSAGE_MAX].decode("utf-8", errors="replace")
        return _Status(message=" ".join(text.split())[:MESSAGE_MAX])
    return _Status()


def _bounded(seconds: float) -> float:
    return min(max(0.0, seconds), RETRY_AFTER_MAX_SECONDS)
