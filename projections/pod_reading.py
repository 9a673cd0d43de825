"""Read observed pods part by part.

Most updates of a pod have known metadata and spec and a new status: parts that were read lately are cached. Objects
in the log are canonical JSON, so equal parts are equal bytes.
"""

from functools import lru_cache
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, structs

from events.limits import decode_deep
from events.record import PodParts
from events.sized_cache import sized_cache
from projections.device_families import DeviceFamilies
from projections.objects import (
    Metadata,
    PodObject,
    PodStatus,
    read,
    read_parts,
    read_pod_spec,
)
from projections.pod_class import ClassKey
from projections.pods import (
    PodFacts,
    PodMetadataFacts,
    PodSpecFacts,
    combine_facts,
    metadata_facts,
    spec_facts,
)

PARTS_BYTES_MAX: Final = 8 << 20
"""Bytes of metadata, and of specs, whose facts are cached: enough for pods that were created or changed lately."""


_METADATA: Final = msgspec.json.Decoder(Metadata)
_STATUS: Final = msgspec.json.Decoder(PodStatus | None)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw] | None)
_NODE: Final = msgspec.json.Decoder(str | None)
_ENCODER: Final = msgspec.json.Encoder()


PodRead: TypeAlias = tuple[PodFacts, ClassKey] | str | None
"""What muster reads of a pod and the key of its class, or the reason why it cannot be read; None if it was not read, or that
raised: State reads it when it settles."""


class PodReader:
    """Reads pods, as far as muster and these device families read them."""

    def __init__(self, families: DeviceFamilies) -> None:
        self._families = families
        self._metadata = sized_cache(PARTS_BYTES_MAX, len)(self._read_metadata)

    def read_facts(
        self, content: bytes, parts: PodParts | None = None
    ) -> tuple[PodFacts, ClassKey] | str:
        """Return what muster reads of a pod and the key of its class, or the reason why it cannot be read.

        `parts` are those of the content, where they are known.
        """
        if parts is not None:
            try:
                status = _STATUS.decode(parts.status) if parts.status else None
                meta = self._metadata(parts.metadata)
                return combine_facts(meta, _cached_spec_facts(parts.spec), status, self._families)
            except (msgspec.ValidationError, RecursionError):
                pass  # The content as a whole tells what is wrong with it.
        try:
            return decode_deep(content, self._read)
        except msgspec.ValidationError as error:
            whole = read(PodObject, content)  # Its error names the place within the whole object.
            return whole if isinstance(whole, str) else str(error)

    def _read(self, content: bytes) -> tuple[PodFacts, ClassKey]:
        parts = read_parts(content)
        meta, asked = self._metadata(bytes(parts.metadata)), _cached_spec_facts(bytes(parts.spec))
        return combine_facts(meta, asked, parts.status, self._families)

    def _read_metadata(self, raw: bytes) -> PodMetadataFacts:
        return metadata_facts(_METADATA.decode(raw), self._families)


@lru_cache(maxsize=8)
def pod_reader(families: DeviceFamilies) -> PodReader:
    """Return what reads pods of these device families, with what it has read lately."""
    return PodReader(families)


@sized_cache(PARTS_BYTES_MAX, len)
def _cached_spec_facts(raw: bytes) -> PodSpecFacts:
    """Return what a spec says. Once a pod has a node it says the same as before, and as that of other pods of its job."""
    fields = (_FIELDS.decode(raw) if raw else None) or {}
    node = fields.pop("nodeName", None)
    if node is None:
        return spec_facts(read_pod_spec(raw))
    asked = _cached_spec_facts(_ENCODER.encode(fields))
    return structs.replace(asked, node=_NODE.decode(node) or "")
