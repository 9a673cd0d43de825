"""What enters the log of an object: no secrets, no heartbeats, and equal bytes for equal content."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.errors import ManifestError
from events.normalize import Json, JsonObject, normalize
from simulator.manifest_fields import section


def pod(**changes: Json) -> bytes:
    """A pod with a secret wherever there is place for one."""
    container: Json = {
        "name": "main",
        "command": ["s3cret"],
        "args": ["s3cret"],
        "env": [{"name": "KEY", "value": "s3cret"}, {"name": "REF", "valueFrom": {"a": "b"}}],
        "livenessProbe": {
            "exec": {"command": ["s3cret"]},
            "httpGet": {"path": "/", "httpHeaders": [{"name": "a", "value": "s3cret"}]},
        },
        "lifecycle": {"preStop": {"exec": {"command": ["s3cret"]}}},
        "resources": {"requests": {"cpu": "1"}},
    }
    metadata: Json = {
        "name": "a",
        "namespace": "default",
        "uid": "1",
        "resourceVersion": "17",
        "managedFields": [{"manager": "x"}],
        "selfLink": "/x",
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "s3cret",
            "token": "s3cret",
            "kept": "yes",
        },
    }
    spec: JsonObject = {
        "containers": [container],
        "initContainers": [container],
        "ephemeralContainers": [container],
    }
    manifest: JsonObject = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}
    return msgspec.json.encode({**manifest, **changes})


def test_no_secret_enters_the_log() -> None:
    found = normalize(pod(), secret_annotations=frozenset(["token"]))
    assert b"s3cret" not in found.stored.content
    assert b'"kept":"yes"' in found.stored.content
    assert b'"name":"REF"' in found.stored.content
    assert b"managedFields" not in found.stored.content
    assert found.subject == "Pod/default/a"


def test_no_secret_of_a_template_enters_the_log() -> None:
    inner: Json = msgspec.json.decode(pod())["spec"]
    template: Json = {"spec": inner}
    for spec in (
        {"template": template},
        {"tasks": [{"name": "w", "template": template}]},
        {"jobTemplate": {"spec": {"template": template}}},
    ):
        manifest = {"kind": "X", "metadata": {"name": "a"}, "spec": spec}
        assert b"s3cret" not in normalize(msgspec.json.encode(manifest)).stored.content


def test_the_resource_version_and_heartbeats_move_into_the_event() -> None:
    def node(version: str, beat: str) -> bytes:
        return msgspec.json.encode(
            {
                "kind": "Node",
                "metadata": {"name": "n1", "resourceVersion": version},
                "status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": beat}]},
            }
        )

    one, other = normalize(node("1", "t1")), normalize(node("2", "t2"))
    assert one.stored == other.stored
    assert (one.resource_version, other.resource_version) == ("1", "2")
    assert (one.heartbeats, other.heartbeats) == ({"Ready": "t1"}, {"Ready": "t2"})


def test_unknown_fields_stay() -> None:
    found = normalize(pod(status={"brandNew": {"field": [1, None]}}))
    kept: JsonObject = msgspec.json.decode(found.stored.content)
    assert section(kept, "status") == {"brandNew": {"field": [1, None]}}


@given(st.permutations(["kind", "apiVersion", "metadata", "spec"]))
def test_the_order_of_keys_does_not_matter(order: list[str]) -> None:
    manifest = msgspec.json.decode(pod())
    shuffled = {key: manifest[key] for key in order}
    assert normalize(msgspec.json.encode(shuffled)).stored == normalize(pod()).stored


@pytest.mark.parametrize(
    "raw",
    [b"{", b"[]", b'{"kind":"Pod"}', b'{"kind":"Pod","metadata":{}}', b'{"metadata":{"name":"a"}}'],
)
def test_what_is_no_object_is_an_error(raw: bytes) -> None:
    with pytest.raises(ManifestError):
        normalize(raw)
