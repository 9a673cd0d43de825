"""Normalize pods part by part.

Most watch events of a pod repeat its metadata and spec and bring a new status. A pod is split into these parts in one
scan; the normalized forms of metadata and specs that were seen lately are cached by their bytes as sent, without the
revision and the managed fields. The parts are kept beside the content, so that the fold need not scan it again.

The result equals that of `events/normalize.py`, to which every object that is out of the ordinary is left.
"""

from collections.abc import Callable
from functools import cache
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import Raw, Struct

from events.field_manager import newest_change_of
from events.limits import (
    DEPTH_MAX,
    SPEC_FIELD_BYTES_MAX,
    UNDECODABLE,
    is_nested_too_deep,
    is_plain_name,
    name_problem,
)
from events.normalize import (
    Json,
    JsonObject,
    Normalized,
    normalize,
    strip_annotations,
    strip_pod_spec,
    strip_templates,
    take_heartbeats,
)
from events.normalize_config_map import REPORTS, Selection
from events.record import PodParts, StoredObject
from events.sized_cache import sized_cache

PARTS_BYTES_MAX: Final = 4 << 20
"""Bytes of metadata, and of specs, as sent, whose normalized forms are cached, which take at most as many bytes again:
enough for pods that were created or changed lately."""

_KIND: Final = b'"kind":"Pod"'


class _Pod(Struct, forbid_unknown_fields=True):
    """A pod, split into its parts."""

    apiVersion: str  # noqa: N815
    kind: str
    metadata: dict[str, Raw]
    spec: Raw = Raw(b"")
    status: Raw = Raw(b"")


class _Names(Struct, frozen=True, gc=False):
    """The names in the metadata of a pod."""

    name: str
    namespace: str = ""
    uid: str = ""


class _Metadata(Struct, frozen=True, gc=False):
    """The metadata of a pod in its normalized form, and the names in it."""

    content: bytes
    names: _Names


class _UnusualError(Exception):
    """A pod that `events/normalize.py` has to normalize."""


_POD: Final = msgspec.json.Decoder(_Pod)
_NAMES: Final = msgspec.json.Decoder(_Names)
_TEXT: Final = msgspec.json.Decoder(str)
_OBJECT: Final = msgspec.json.Decoder(dict)
_VALUE: Final = msgspec.json.Decoder()
_AS_SENT: Final = msgspec.json.Encoder()
_CANONICAL: Final = msgspec.json.Encoder(order="deterministic")


def normalize_object(
    raw: bytes,
    *,
    secret_annotations: frozenset[str] = frozenset(),
    selections: tuple[Selection, ...] = REPORTS,
) -> Normalized:
    """Return the normalized object of raw JSON, a pod with its parts. Raise ManifestError as `normalize` does."""
    if _KIND in raw and len(raw) <= SPEC_FIELD_BYTES_MAX:
        try:
            return _normalize_pod(raw, secret_annotations)
        except (_UnusualError, *UNDECODABLE):
            pass
    return normalize(raw, secret_annotations=secret_annotations, selections=selections)


def _normalize_pod(raw: bytes, secret: frozenset[str]) -> Normalized:
    pod = _POD.decode(raw)
    if pod.kind != "Pod" or pod.apiVersion != "v1":
        raise _UnusualError
    fields = pod.metadata
    managed = fields.pop("managedFields", None)
    fields.pop("selfLink", None)
    revision = fields.pop("resourceVersion", None)
    metadata = _metadata_of(secret)(_AS_SENT.encode(fields))
    heartbeats: dict[str, str] = {}
    content = b'{"apiVersion":"v1","kind":"Pod","metadata":%b' % metadata.content
    spec = status = b""
    if pod.spec:
        spec = _spec(bytes(pod.spec))
        content += b',"spec":%b' % spec
    if pod.status:
        decoded: Json = _VALUE.decode(pod.status)
        heartbeats = take_heartbeats(decoded)
        status = _canonical(decoded)
        content += b',"status":%b' % status
    content += b"}"
    names = metadata.names
    return Normalized(
        stored=StoredObject(
            sha256(content).hexdigest(), content, PodParts(metadata.content, spec, status)
        ),
        kind="Pod",
        namespace=names.namespace,
        name=names.name,
        uid=names.uid,
        resource_version="" if revision is None else _TEXT.decode(revision),
        heartbeats=heartbeats,
        subject=f"Pod/{names.namespace}/{names.name}",
        changed_by=None if managed is None else newest_change_of(managed),
    )


def _canonical(part: Json) -> bytes:
    """Return the canonical JSON of a part of an object. Raise _UnusualError if it is nested too deep."""
    content = _CANONICAL.encode(part)
    if content.count(b"{") + content.count(b"[") >= DEPTH_MAX and is_nested_too_deep([part]):
        raise _UnusualError
    return content


@cache
def _metadata_of(secret: frozenset[str]) -> Callable[[bytes], _Metadata]:
    """Return what returns metadata in its normalized form, without annotations that are secret."""

    def metadata_of(raw: bytes) -> _Metadata:
        names = _NAMES.decode(raw)
        for name in (names.name, names.namespace, names.uid):
            if not is_plain_name(name) and name_problem(name):
                raise _UnusualError
        if not names.name:
            raise _UnusualError
        metadata: JsonObject = _OBJECT.decode(raw)
        strip_annotations(metadata, secret)
        return _Metadata(_canonical(metadata), names)

    return sized_cache(PARTS_BYTES_MAX, len)(metadata_of)


@sized_cache(PARTS_BYTES_MAX, len)
def _spec(raw: bytes) -> bytes:
    """Return a spec in its normalized form."""
    spec: Json = _VALUE.decode(raw)
    if isinstance(spec, dict):
        strip_pod_spec(spec)
        strip_templates(spec)
    return _canonical(spec)
