"""A pod normalized part by part equals the pod normalized as a whole, whatever it holds."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.errors import ManifestError
from events.limits import DEPTH_MAX
from events.normalize import Json, JsonObject, Normalized, normalize
from events.normalize_pod import normalize_object
from projections.pod_reading import pod_reader
from simulator.manifest_fields import section
from tests.events.test_normalize import pod
from tests.scheduling.builders import ALL_FAMILIES

SECRET = frozenset(["token"])

TEXTS = st.sampled_from(("", "a", "team/b", "\u00e9<&>", "x" * 300, "a\x00b", "17"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def changed(parts: list[tuple[str, str, Json]]) -> JsonObject:
    """A pod, in which fields of the named parts are set."""
    manifest: JsonObject = msgspec.json.decode(pod())
    manifest["status"] = {"phase": "Running"}
    for part, field, value in parts:
        if field:
            manifest[part] = {**section(manifest, part), field: value}
        else:
            manifest[part or "extra"] = value
    return manifest


FIELDS = st.sampled_from(
    (
        *("name", "namespace", "uid", "resourceVersion", "annotations", "labels", "managedFields"),
        *("nodeName", "containers", "template", "phase", "conditions", "other", ""),
    )
)
CHANGES = st.lists(
    st.tuples(st.sampled_from(("metadata", "spec", "status")), FIELDS, VALUES), max_size=4
)


def outcome(read: object, raw: bytes) -> Normalized | str:
    """The normalized object without its parts, or the reason why there is none."""
    assert callable(read)
    try:
        found: Normalized = read(raw, secret_annotations=SECRET)
    except ManifestError as error:
        return str(error)
    if (parts := found.stored.parts) is not None:
        assert pod_reader(ALL_FAMILIES).read_facts(found.stored.content, parts) == pod_reader(
            ALL_FAMILIES
        ).read_facts(found.stored.content)
    stored = msgspec.structs.replace(found.stored, parts=None)
    return msgspec.structs.replace(found, stored=stored)


@given(CHANGES, st.sampled_from(("Pod", "Node", "", 3)), st.sampled_from(("v1", "v2", None)))
def test_a_pod_is_normalized_alike_whole_and_in_parts(
    changes: list[tuple[str, str, Json]], kind: Json, version: Json
) -> None:
    raw = msgspec.json.encode(changed(changes) | {"kind": kind, "apiVersion": version})
    assert outcome(normalize_object, raw) == outcome(normalize, raw)


@pytest.mark.parametrize("depth", range(DEPTH_MAX - 6, DEPTH_MAX + 3))
@pytest.mark.parametrize("part", ["metadata", "spec", "status"])
def test_a_part_is_cut_at_the_depth_at_which_the_whole_is_cut(part: str, depth: int) -> None:
    manifest = changed([])
    deep: Json = msgspec.json.decode(b"[" * depth + b"]" * depth)
    manifest[part] = {**section(manifest, part), "deep": deep}
    raw = msgspec.json.encode(manifest)
    assert outcome(normalize_object, raw) == outcome(normalize, raw)


def test_an_event_that_repeats_metadata_and_spec_repeats_their_bytes() -> None:
    first = normalize_object(pod(status={"phase": "Pending"})).stored.parts
    second = normalize_object(
        pod(status={"phase": "Running"}).replace(
            b'"resourceVersion":"17"', b'"resourceVersion":"18"'
        )
    ).stored.parts
    assert first is not None
    assert second is not None
    assert first.metadata is second.metadata
    assert first.spec is second.spec
    assert first.status != second.status


def test_secret_annotations_of_other_settings_are_not_taken_from_the_cache() -> None:
    assert b"token" in normalize_object(pod()).stored.content
    assert b"token" not in normalize_object(pod(), secret_annotations=SECRET).stored.content
    assert b"token" in normalize_object(pod()).stored.content
