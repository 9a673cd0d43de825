"""An API request and its response."""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from events.normalize import Json, JsonObject

JSON: Final = "application/json"
_ENCODER: Final = msgspec.json.Encoder()


class Request(Struct, frozen=True):
    """One request. `query` holds the last value of each parameter."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: bytes = b""
    content_type: str = JSON
    token: str = ""
    """The bearer token; empty if there is none."""
    user_agent: str = ""
    accept: str = JSON
    """The forms of the response that the client can read, as in the header."""

    def flag(self, name: str) -> bool:
        """Return a boolean query parameter."""
        return self.query.get(name, "") not in ("", "false", "0")


class Response(Struct, frozen=True):
    """One response."""

    status: int
    body: bytes = b""
    content_type: str = JSON
    headers: Mapping[str, str] = {}


def json_response(document: Mapping[str, Json], status: int = 200) -> Response:
    """Return a document as a JSON response."""
    return Response(status, _ENCODER.encode(document))


def success(status: int = 200, details: "JsonObject | None" = None) -> Response:
    """Return a `Status` of success; it has a code only if an object was created."""
    document: JsonObject = {**_STATUS, "status": "Success"}
    if details is not None:
        document["details"] = details
    if status == 201:
        document["code"] = status
    return json_response(document, status)


_STATUS: Final[JsonObject] = {"kind": "Status", "apiVersion": "v1", "metadata": {}}


class StatusError(Exception):
    """A refused request, with its `Status`."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        details: "JsonObject | None" = None,
        *,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details = details
        self.continue_token = continue_token

    @property
    def document(self) -> JsonObject:
        """The `Status` object."""
        document: JsonObject = {**_STATUS, "status": "Failure", "message": self.message}
        if self.continue_token:
            document["metadata"] = {"continue": self.continue_token}
        if self.reason:
            document["reason"] = self.reason
        if self.details is not None:
            document["details"] = self.details
        document["code"] = self.status
        return document

    @property
    def response(self) -> Response:
        """The whole response."""
        seconds = (self.details or {}).get("retryAfterSeconds")
        headers = {"Retry-After": str(seconds)} if seconds else {}
        return Response(self.status, _ENCODER.encode(self.document), JSON, headers)


NO_SUCH_PATH: Final = Response(404, b"404 page not found\n", "text/plain; charset=utf-8")
