"""A record is one row of the log: an event, and where and why it happened.

None of these types can be part of a reference cycle, so the garbage collector need not look at them (`gc=False`).

`Fact` is the base of every event. It is frozen and forbids unknown fields: a log that this release
does not fully understand stops it at once. The `kind` of an event (its type and version) is spelled
out and never changes; a changed shape is a new kind or a new format of the log (`events/codec.py`).
"""

from typing import ClassVar

from msgspec import Struct


class Fact(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """An event as the log holds it. Subclasses state `kind` and say `kw_only=True`."""

    kind: ClassVar[str]


class Record(Struct, frozen=True, gc=False):
    """One row of the log, as stored. `body` is canonical JSON, UTF-8."""

    position: int
    batch: int
    """Position of the first record of the batch this one belongs to."""
    epoch: int
    """The leader's epoch that wrote it."""
    recorded_at_ns: int
    """When it was written, for people and views. Neither fold nor decide may look at it."""
    cycle: int | None
    """Position of the `cycle_opened` record this one belongs to, if any."""
    cause: int | None
    """Position of the record that led to this one, if any."""
    kind: str
    subject: str
    """`Kind/namespace/name`; the namespace is empty for cluster-wide objects."""
    body: bytes
    object: str | None
    """SHA-256 (hex) of the Kubernetes object that came with it, if any."""
    digest: str
    """SHA-256 (hex) over the previous digest and every other column; see `events/chain.py`."""


class Head(Struct, frozen=True):
    """Where a log ends: the last position, its digest, and the epoch that may append."""

    position: int
    digest: str
    epoch: int


GENESIS = Head(position=0, digest="0" * 64, epoch=0)
"""The head of an empty log."""


class PodParts(Struct, frozen=True, gc=False):
    """The canonical JSON of the parts of a pod, as they stand in its content."""

    metadata: bytes
    spec: bytes
    """Empty if the pod has no spec."""
    status: bytes
    """Empty if the pod has no status."""


class StoredObject(Struct, frozen=True, gc=False):
    """A normalized Kubernetes object, to be stored once under its digest."""

    digest: str
    content: bytes
    parts: PodParts | None = None
    """The parts of a pod where they are known, so that the content need not be scanned for them."""
