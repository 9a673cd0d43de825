"""Bodies of kinds that another kind has replaced, as bodies of that kind.

A stored shape never changes: a new shape is a new kind, the old one is no longer written, and here is what makes the new one of it. Several
steps follow one another.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from events.json_value import JsonObject

Raised: TypeAlias = tuple[str, JsonObject]
"""The kind that replaced another one, and the body."""

UPCASTS: Final[dict[str, Callable[[JsonObject], Raised]]] = {}
"""Kind that is no longer written to what makes a newer one of its body."""

_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def upcast(kind: str, body: bytes) -> tuple[str, bytes]:
    """Return kind and body as this release reads them."""
    while (raised := UPCASTS.get(kind)) is not None:
        found = msgspec.json.decode(body)
        assert isinstance(found, dict)
        kind, found = raised(found)
        body = _ENCODER.encode(found)
    return kind, body
