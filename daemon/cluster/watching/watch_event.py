"""The events of a watch, decoded as far as a reflector reads them (rules K3.2, K3.5, K3.7)."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from events.errors import ClusterError
from events.limits import DEPTH_MAX, UNDECODABLE, decode_hostile, quoted

INITIAL_END: Final = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial objects of a streamed list (K3.13)."""


class UnreadableEventError(ClusterError):
    """A line of a watch, or an item of a list, is not what the API says it is."""


class Metadata(Struct, frozen=True, gc=False):
    """As much of an object's metadata as tells which version of which object it is."""

    name: str = ""
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815
    namespace: str = ""


class Head(Struct, frozen=True):
    """The head of an object. Everything else stays bytes (K1.6)."""

    metadata: Metadata
    kind: str = ""
    apiVersion: str = ""  # noqa: N815


class Change(Struct, frozen=True):
    """An object was added, modified or deleted: its version, and all of it as it came."""

    type: str
    metadata: Metadata
    raw: bytes


class Bookmark(Struct, frozen=True):
    """Everything up to a revision has been shown. `is_initial_end`: and a streamed list is whole."""

    resource_version: str
    is_initial_end: bool = False


class Failure(Struct, frozen=True):
    """The server ends the watch: the `Status` of an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    retry_after_seconds: float | None = None

    @property
    def is_expired(self) -> bool:
        """Whether the revision is no longer kept, the second shape of K3.7."""
        return self.code == 410 or self.reason in {"Expired", "Gone"}


Event: TypeAlias = Change | Bookmark | Failure


class _Line(Struct):
    type: str
    object: Raw


class _Bookmarked(Struct):
    class Metadata(Struct):
        resourceVersion: str  # noqa: N815
        annotations: dict[str, str] | None = None

    metadata: Metadata


class _Status(Struct):
    class Details(Struct):
        retryAfterSeconds: float | None = None  # noqa: N815

    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: Details | None = None


_line: Final = msgspec.json.Decoder(_Line)
_head: Final = msgspec.json.Decoder(Head)
_bookmarked: Final = msgspec.json.Decoder(_Bookmarked)
_status: Final = msgspec.json.Decoder(_Status)

_CHANGES: Final = (
    (b'{"type":"MODIFIED","object":', "MODIFIED"),
    (b'{"type":"ADDED","object":', "ADDED"),
    (b'{"type":"DELETED","object":', "DELETED"),
)
"""How a line begins that a Kubernetes API server writes."""


def read_event(line: bytes) -> Event:
    """The event of a line."""
    for begin, kind in _CHANGES:
        if line.startswith(begin) and line.endswith(b"}"):
            raw = line[len(begin) : -1]
            try:
                return Change(kind, _head.decode(raw).metadata, raw)
            except UNDECODABLE:
                break  # Perhaps something follows the object: read it as any JSON.
    try:
        return decode_hostile(line, _read_any, DEPTH_MAX + 1)
    except UNDECODABLE as error:
        raise UnreadableEventError(f"a line of the watch cannot be read: {error}") from error


def read_head(raw: bytes | Raw) -> Head:
    """The head of an object."""
    try:
        return _head.decode(raw)
    except UNDECODABLE as error:
        raise UnreadableEventError(f"not an object: {error}") from error


def _read_any(line: bytes) -> Event:
    """The event of a line, however it is written."""
    read = _line.decode(line)
    raw = bytes(read.object)
    match read.type:
        case "ADDED" | "MODIFIED" | "DELETED":
            return Change(read.type, _head.decode(raw).metadata, raw)
        case "BOOKMARK":
            metadata = _bookmarked.decode(raw).metadata
            is_end = (metadata.annotations or {}).get(INITIAL_END) == "true"
            return Bookmark(metadata.resourceVersion, is_end)
        case "ERROR":
            return _failure(_status.decode(raw))
        case unknown:
            text = f"a line of the watch has the unknown type {quoted(unknown)}"
            raise UnreadableEventError(text)


def _failure(status: _Status) -> Failure:
    after = status.details.retryAfterSeconds if status.details else None
    return Failure(status.code or 0, status.reason or "", status.message or "", after)
