"""Objects of the API server: observed, deleted, unreadable, listed.

The `subject` of the record names the object and its Kubernetes kind (`Pod/default/a`). The object itself travels
beside the event, normalized (`events/normalize.py`) and stored once per content; the event holds what changes without
a change of content.
"""

from msgspec import field

from events.field_manager import FieldChange
from events.record import Fact


class ObjectObserved(Fact, frozen=True, kw_only=True):
    """An object as the API server last showed it (added or modified)."""

    kind = "object_observed.v1"

    uid: str
    resource_version: str
    heartbeats: dict[str, str] = field(default_factory=dict)
    """Condition type to the time of its last heartbeat, or key of a device report to its update time (Unix seconds),
    which would make every content unique."""
    changed_by: FieldChange | None = None
    """The newest change of the object: field manager, operation, time and subresource, from its managed fields."""


class ObjectDeleted(Fact, frozen=True, kw_only=True):
    """An object was deleted. `synthesized` if a list no longer held it and no watch had shown its deletion."""

    kind = "object_deleted.v1"

    uid: str
    resource_version: str
    synthesized: bool = False


class ObjectUnreadable(Fact, frozen=True, kw_only=True):
    """The API server sent bytes that are not an object with a kind, a name and a UID, or an object that State could not
    apply because of a bug of muster. The object counts as absent, or as it was last read.

    The object is kept if it could be normalized; else it may hold secrets, and only its digest is kept.
    """

    kind = "object_unreadable.v1"

    reason: str
    shown_digest: str
    """SHA-256 (hex) of the bytes as sent; if muster failed, of the object as the log keeps it."""
    size_bytes: int
    """Size of the same bytes; 0 for a deleted object that was not sent."""


class KindListed(Fact, frozen=True, kw_only=True):
    """A kind was listed, and the log holds the whole list. No decision is made before every kind is listed."""

    kind = "kind_listed.v1"

    resource: str
    """The Kubernetes kind, such as `Pod`."""
    resource_version: str
    count: int
    served: bool = True
    """False if the server does not serve this kind: it has no objects."""
