"""Events to bytes and back. The bytes of a body are part of the log format."""

import msgspec

from events.errors import NewerRecordError, UnreadableRecordError
from events.record import Record
from events.union import EVENTS, Event
from events.upcast import UPCASTERS

FORMAT = 1
"""The format of the log: its columns, its chain and its normalization."""

_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODERS: dict[str, msgspec.json.Decoder[Event]] = {
    event.kind: msgspec.json.Decoder(event) for event in EVENTS
}

KINDS = frozenset(_DECODERS) | frozenset(UPCASTERS)
"""Every kind that this release can read."""


def encode(event: Event) -> bytes:
    """The canonical JSON of an event."""
    return _ENCODER.encode(event)


def decode(kind: str, body: bytes, *, position: int) -> Event:
    """The event of a record, in its present shape. Errors name the position."""
    decoder = _DECODERS.get(kind)
    if decoder is None:
        kind, body = _upcast(kind, body, position)
        decoder = _DECODERS[kind]
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableRecordError(
            f"position {position}: {kind} cannot be read: {error}"
        ) from error


def event_of(record: Record) -> Event:
    """The event of a record, in its present shape."""
    return decode(record.kind, record.body, position=record.position)


def _upcast(kind: str, body: bytes, position: int) -> tuple[str, bytes]:
    while kind not in _DECODERS:
        if kind not in UPCASTERS:
            raise NewerRecordError(
                f"position {position}: kind {kind} is not known to this release; "
                "the log was written by a newer one"
            )
        try:
            fields: object = msgspec.json.decode(body)
        except msgspec.DecodeError as error:
            raise UnreadableRecordError(
                f"position {position}: {kind} cannot be read: {error}"
            ) from error
        if not isinstance(fields, dict):
            raise UnreadableRecordError(f"position {position}: {kind} is not an object")
        kind, changed = UPCASTERS[kind](fields)
        body = _ENCODER.encode(changed)
    return kind, body
