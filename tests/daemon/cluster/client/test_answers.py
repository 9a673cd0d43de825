"""From an answer to a typed error, by status, reason and causes (K12.1)."""

import msgspec
import pytest

from daemon.cluster.client.answers import (
    RETRY_AFTER_MAX_SECONDS,
    api_error,
    decoded,
    retry_after_seconds,
)
from daemon.cluster.client.errors import (
    AlreadyExistsError,
    ApiError,
    BudgetError,
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

JSON = {"content-type": "application/json"}


def status(**fields: object) -> bytes:
    """A `Status` with these fields."""
    return msgspec.json.encode({"kind": "Status", "apiVersion": "v1", **fields})


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", InvalidError),
        (401, "Unauthorized", UnauthorizedError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (405, "MethodNotAllowed", InvalidError),
        (408, "", ServerError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),
        (409, "", ConflictError),
        (410, "Expired", ExpiredError),
        (410, "Gone", ExpiredError),
        (422, "Invalid", InvalidError),
        (429, "TooManyRequests", ThrottledError),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (504, "Timeout", ServerError),
    ],
)
def test_an_error_has_the_kind_of_its_status_and_reason(
    code: int, reason: str, kind: type[ApiError]
) -> None:
    """K12.1: by status and reason; `AlreadyExists` is another 409 than `Conflict`."""
    error = api_error("get pods", code, JSON, status(reason=reason, message="words"))
    assert type(error) is kind
    assert (error.status, error.reason, error.message) == (code, reason, "words")


def test_no_words_of_a_message_change_the_kind_of_an_error() -> None:
    """K12.1: never by message text."""
    body = status(message="AlreadyExists DisruptionBudget Expired", reason="Conflict")
    assert type(api_error("bind", 409, JSON, body)) is ConflictError
    assert type(api_error("evict", 429, JSON, body)) is ThrottledError


def test_a_disruption_budget_differs_from_throttling_by_its_cause() -> None:
    """K9.2: 429 with the cause `DisruptionBudget`; how long to wait stands in the details."""
    causes = [{"reason": "DisruptionBudget", "message": "needs 2, has 2"}]
    details = {"causes": causes, "retryAfterSeconds": 10}
    error = api_error("evict", 429, JSON, status(reason="TooManyRequests", details=details))
    assert type(error) is BudgetError
    assert error.retry_after_seconds == 10.0
    assert error.has_cause("DisruptionBudget")


def test_a_budget_that_is_ready_at_once_says_nought_and_not_nothing() -> None:
    """K9.2: `retryAfterSeconds` may be 0."""
    details = {"causes": [{"reason": "DisruptionBudget"}], "retryAfterSeconds": 0}
    assert api_error("evict", 429, JSON, status(details=details)).retry_after_seconds == 0.0


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        ({"content-type": "text/plain; charset=utf-8"}, b"Too many\nrequests", "Too many requests"),
        (JSON, b'{"kind":"Status","mess', "(its Status cannot be read)"),
        (JSON, b"", "(its Status cannot be read)"),
        (JSON, b"[1, 2]", "(its Status cannot be read)"),
        ({}, b"", ""),
        ({"content-type": "text/html"}, b"<html>secret</html>", ""),
        (JSON, b'{"reason":null,"message":null,"details":null}', ""),
    ],
)
def test_a_body_that_is_no_status_leaves_the_status_code_to_speak(
    headers: dict[str, str], body: bytes, message: str
) -> None:
    """K3.10: plain text, half JSON, HTML and nothing at all are all just a 429."""
    error = api_error("watch pods", 429, headers, body)
    assert type(error) is ThrottledError
    assert (error.reason, error.message) == ("", message)


def test_a_redirect_says_where_it_leads() -> None:
    error = api_error("list pods", 302, {"location": "https://login.example/"}, b"")
    assert type(error) is InvalidError
    assert "https://login.example/" in str(error)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 1.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("99999999999999999999", RETRY_AFTER_MAX_SECONDS),
        ("Sat, 21 Nov 2026 05:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 04:00:00 GMT", 0.0),
        ("Sat, 21 Nov 2099 04:00:00 GMT", RETRY_AFTER_MAX_SECONDS),
        ("-5", None),
        ("soon", None),
        ("²", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_within_bounds(text: str, seconds: float | None) -> None:
    """K3.10: `Retry-After` is honoured, but no server can silence us for ever."""
    headers = {"retry-after": text, "date": "Sat, 21 Nov 2026 05:00:00 GMT"}
    assert retry_after_seconds(headers) == seconds


def test_a_date_to_wait_for_is_nothing_without_the_servers_own_date() -> None:
    """Our clock may be an hour off."""
    assert retry_after_seconds({"retry-after": "Sat, 21 Nov 2026 05:00:30 GMT"}) is None


def test_the_header_comes_before_the_details() -> None:
    body = status(details={"retryAfterSeconds": 30})
    assert api_error("x", 429, {**JSON, "retry-after": "2"}, body).retry_after_seconds == 2.0
    assert api_error("x", 429, JSON, body).retry_after_seconds == 30.0


def test_half_an_answer_answers_nothing() -> None:
    """K3.10: what cannot be read is not known."""
    with pytest.raises(UnansweredError, match="get pods"):
        decoded("get pods", b'{"metadata":{"name":', msgspec.json.Decoder(dict[str, object]))
