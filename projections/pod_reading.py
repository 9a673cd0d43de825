"""Read observed pods part by part.

Most updates of a pod have known metadata and spec and a new status: parts that were read lately are cached. Objects
in the log are canonical JSON, so equal parts are equal bytes.
"""

from typing import Final

import msgspec

from events.limits import decode_deep
from events.record import PodParts
from events.sized_cache import length, sized_cache
from projections.objects import (
    PodObject,
    read,
    read_metadata,
    read_parts,
    read_pod_spec,
    read_pod_status,
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


def read_facts(content: bytes, parts: PodParts | None = None) -> tuple[PodFacts, ClassKey] | str:
    """Return what muster reads of a pod and the key of its class, or the reason why it cannot be read.

    `parts` are those of the content, where they are known.
    """
    if parts is not None:
        try:
            status = read_pod_status(parts.status)
            meta = _cached_metadata_facts(parts.metadata)
            return combine_facts(meta, _cached_spec_facts(parts.spec), status)
        except (msgspec.ValidationError, RecursionError):
            pass  # The content as a whole tells what is wrong with it.
    try:
        return decode_deep(content, _read)
    except msgspec.ValidationError as error:
        whole = read(PodObject, content)  # Its error names the place within the whole object.
        return whole if isinstance(whole, str) else str(error)


def _read(content: bytes) -> tuple[PodFacts, ClassKey]:
    parts = read_parts(content)
    meta, asked = (
        _cached_metadata_facts(bytes(parts.metadata)),
        _cached_spec_facts(bytes(parts.spec)),
    )
    return combine_facts(meta, asked, parts.status)


@sized_cache(PARTS_BYTES_MAX, length)
def _cached_metadata_facts(raw: bytes) -> PodMetadataFacts:
    return metadata_facts(read_metadata(raw))


@sized_cache(PARTS_BYTES_MAX, length)
def _cached_spec_facts(raw: bytes) -> PodSpecFacts:
    return spec_facts(read_pod_spec(raw))
