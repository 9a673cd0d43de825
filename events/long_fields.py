"""Long fields of pods, left out before anything else of the object is decoded.

A pod with 10,000 tolerations has 400 KB of JSON, which nothing is decided by: more than `ITEMS_MAX` are not read.
Its bytes are scanned twice to find the long fields of its spec, and each is replaced by `TOO_LONG`. So such a pod costs
a millisecond where decoding, writing and keeping all of it costs twenty.
"""

from typing import Final

import msgspec
from msgspec import Raw

from events.limits import SPEC_FIELD_BYTES_MAX, TOO_LONG, UNDECODABLE

KEPT: Final = frozenset(
    {
        *("containers", "initContainers", "ephemeralContainers"),
        *("overhead", "resources", "schedulingGates"),
    }
)
"""Fields of a pod's spec that are kept whatever their length: what a pod takes of its node counts in any case."""

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_ENCODER: Final = msgspec.json.Encoder()
_MARK: Final = Raw(_ENCODER.encode(TOO_LONG))
_POD: Final = b'"Pod"'


def without_long_fields(raw: bytes) -> bytes:
    """The same object; of a pod, without the fields of its spec that are longer than SPEC_FIELD_BYTES_MAX.

    What is not JSON stays so.
    """
    if len(raw) <= SPEC_FIELD_BYTES_MAX:
        return raw
    try:
        fields = _FIELDS.decode(raw)
        if bytes(fields.get("kind", b"")) != _POD or "spec" not in fields:
            return raw
        spec = _FIELDS.decode(fields["spec"])
    except UNDECODABLE:
        return raw
    long = [
        name
        for name, value in spec.items()
        if name not in KEPT and len(memoryview(value)) > SPEC_FIELD_BYTES_MAX
    ]
    if not long:
        return raw
    spec |= dict.fromkeys(long, _MARK)
    fields["spec"] = Raw(_ENCODER.encode(spec))
    return _ENCODER.encode(fields)
