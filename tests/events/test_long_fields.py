"""Long fields of a pod's spec are left out of the log, and nothing else is."""

import msgspec
import pytest

from events.limits import DEPTH_MAX, SPEC_FIELD_BYTES_MAX, TOO_LONG
from events.long_fields import KEPT, without_long_fields
from events.normalize import Json, JsonObject, normalize

TOLERATIONS: list[Json] = [{"key": f"key-{index}", "operator": "Exists"} for index in range(10_000)]
LONG: Json = "x" * SPEC_FIELD_BYTES_MAX


def pod(kind: str = "Pod", **spec: Json) -> bytes:
    """A pod, or an object of another kind with such a spec."""
    metadata: JsonObject = {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "7"}
    return msgspec.json.encode(
        {"kind": kind, "apiVersion": "v1", "metadata": metadata, "spec": spec}
    )


def spec_of(raw: bytes) -> JsonObject:
    """The spec that is left."""
    found: JsonObject = msgspec.json.decode(raw)["spec"]
    return found


def test_a_long_field_of_a_pod_is_replaced_and_the_rest_stays() -> None:
    containers: list[Json] = [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]
    whole = pod(containers=containers, tolerations=TOLERATIONS, schedulerName="muster")
    short = without_long_fields(whole)
    assert len(whole) > SPEC_FIELD_BYTES_MAX
    assert len(short) < 1_000
    expected = {"containers": containers, "tolerations": TOO_LONG, "schedulerName": "muster"}
    assert spec_of(short) == expected
    assert msgspec.json.decode(short)["metadata"] == msgspec.json.decode(whole)["metadata"]


def test_a_field_of_the_longest_length_stays() -> None:
    inside = "x" * (SPEC_FIELD_BYTES_MAX - 2)  # and two quotes
    assert spec_of(without_long_fields(pod(more=LONG, hostname=inside)))["hostname"] == inside
    assert (
        spec_of(without_long_fields(pod(more=LONG, hostname=inside + "x")))["hostname"] == TOO_LONG
    )


@pytest.mark.parametrize("name", sorted(KEPT))
def test_what_a_pod_takes_of_its_node_stays_whatever_its_length(name: str) -> None:
    spec: JsonObject = {name: [LONG]}
    raw = pod("Pod", **spec)
    assert without_long_fields(raw) == raw


@pytest.mark.parametrize(
    "raw",
    [
        pod("ReplicaSet", tolerations=TOLERATIONS),
        pod(tolerations=TOLERATIONS) + b"}",
        b'{"kind":"Pod","spec":"%b"}' % (b"x" * SPEC_FIELD_BYTES_MAX),
        b'{"kind":"Pod","more":"%b"}' % (b"x" * SPEC_FIELD_BYTES_MAX),
        b"[" * 3 * SPEC_FIELD_BYTES_MAX,
        b"x" * 2 * SPEC_FIELD_BYTES_MAX,
    ],
    ids=("another kind", "no JSON", "no map", "no spec", "brackets", "letters"),
)
def test_everything_else_stays_as_it_is(raw: bytes) -> None:
    assert without_long_fields(raw) == raw


def test_what_enters_the_log_is_the_same_whether_or_not_the_watch_left_fields_out() -> None:
    whole = pod(tolerations=TOLERATIONS, containers=[{"args": ["secret"]}])
    assert normalize(whole) == normalize(without_long_fields(whole))
    assert TOO_LONG.encode() in normalize(whole).stored.content
    assert len(normalize(whole).stored.content) < 1_000


@pytest.mark.parametrize(("levels", "is_cut"), [(DEPTH_MAX - 2, False), (DEPTH_MAX - 1, True)])
def test_depth_is_counted_as_before(levels: int, is_cut: bool) -> None:
    """The object and its spec are two of the levels."""
    deep: Json = 1
    for index in range(levels):
        deep = [deep] if index % 2 else {"a": deep}
    assert (b"left-out" in normalize(pod(more=deep)).stored.content) is is_cut
