"""Events to bytes and back. The bytes of a body are part of the log format."""

from collections.abc import Callable
from typing import Final

import msgspec

from events.errors import NewerRecordError, UnreadableRecordError
from events.record import Record
from events.union import EVENTS, Event
from events.upcast import UPCASTS, upcast

FORMAT = 2
"""The format of the log: its columns, its chain, its normalization, and the kinds and fields of its records."""

_ENCODER = msgspec.json.Encoder(order="deterministic")
_DECODERS: dict[str, msgspec.json.Decoder[Event]] = {
    event.kind: msgspec.json.Decoder(event) for event in EVENTS
}

KINDS = frozenset(_DECODERS)
"""Every kind that this release can read."""


encode: Final[Callable[[Event], bytes]] = _ENCODER.encode
"""Returns the canonical JSON of an event."""


def decode(kind: str, body: bytes, *, position: int) -> Event:
    """The event of a record. Errors name the position."""
    decoder = _DECODERS.get(kind)
    if decoder is None and kind in UPCASTS:
        kind, body = upcast(kind, body)
        decoder = _DECODERS.get(kind)
    if decoder is None:
        raise NewerRecordError(
            f"position {position}: kind {kind} is not known to this release; "
            "the log was written by a newer one"
        )
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnreadableRecordError(
            f"position {position}: {kind} cannot be read: {error}"
        ) from error


def event_of(record: Record) -> Event:
    """The event of a record."""
    return decode(record.kind, record.body, position=record.position)
