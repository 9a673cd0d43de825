"""Every field of a pod's spec in the API of Kubernetes is read, has no influence, or is refused."""

import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw

from projections.objects import NOTHING, Container, PodSpec, read_pod_spec
from projections.pod_class import demands_of
from projections.pod_fields import OLDER, READ, REFUSED, WITHOUT_INFLUENCE, refused_field

SCHEMA = Path(__file__).parents[1] / "deploy" / "pod_schema"
GO_PLACES = ("/usr/local/go/bin/go",)
BUILD_SECONDS = 900

REFUSED_FIELDS = [f"{kind}.{name}" for kind, names in REFUSED.items() for name in names]


def listed(fields: dict[str, tuple[str, ...]]) -> list[str]:
    """The fields of a list, `Type.field`."""
    return [f"{kind}.{name}" for kind, names in fields.items() for name in names]


ALL_LISTED = [*listed(dict(READ)), *listed(dict(WITHOUT_INFLUENCE)), *REFUSED_FIELDS]


def fields_of_go_types() -> list[str]:
    """The fields of a pod's spec in the types of `k8s.io/api`, as Go sees them."""
    go = shutil.which("go") or next((one for one in GO_PLACES if Path(one).exists()), None)
    if go is None:
        pytest.skip("there is no Go to read the types of k8s.io/api with")
    done = subprocess.run(  # noqa: S603 - the Go tool, with our own arguments
        [go, "run", "."],
        cwd=SCHEMA,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode and ("dial tcp" in done.stderr or "lookup " in done.stderr):
        pytest.skip(f"the Go module k8s.io/api cannot be had here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_field_of_the_api_is_in_one_list() -> None:
    assert len(ALL_LISTED) == len(set(ALL_LISTED)), "a field stands in two lists"
    known = fields_of_go_types()
    assert len(known) > 400
    unlisted = sorted(set(known) - set(ALL_LISTED))
    assert unlisted == [], "say of each in projections/pod_fields.py what muster does about it"
    gone = sorted(set(ALL_LISTED) - set(known) - set(OLDER))
    assert gone == []
    assert not set(OLDER) & set(known)


@pytest.mark.parametrize("name", READ["PodSpec"])
def test_a_field_that_is_read_is_a_field_of_the_types_that_read(name: str) -> None:
    assert name in PodSpec.__struct_fields__


@pytest.mark.parametrize("name", [one for one in READ["Container"] if one != "name"])
def test_a_field_of_a_container_that_is_read_is_a_field_of_its_type(name: str) -> None:
    assert name in Container.__struct_fields__


@pytest.mark.parametrize("name", WITHOUT_INFLUENCE["PodSpec"])
def test_a_field_without_influence_leaves_the_class_of_a_pod(name: str) -> None:
    plain = {"containers": [{"name": "c"}]}
    with_it = read_pod_spec(msgspec.json.encode({**plain, name: {"any": [1]}}))
    assert demands_of(with_it) == demands_of(read_pod_spec(msgspec.json.encode(plain)))


@pytest.mark.parametrize("field", REFUSED_FIELDS)
def test_a_refused_field_is_refused_with_its_text(field: str) -> None:
    kind, _, name = field.partition(".")
    stated = {"any": "value"}
    spec = {name: stated} if kind == "PodSpec" else {"volumes": [{"name": "v", name: stated}]}
    found = read_pod_spec(msgspec.json.encode(spec))
    assert REFUSED[kind][name] in refused_field(found)
    assert demands_of(found).key != demands_of(PodSpec()).key


@pytest.mark.parametrize(
    "volumes", [b'[{"name":7,"iscsi":{}}]', b'{"iscsi":1}', b'"iscsi"', b"null"]
)
def test_hostile_volumes_are_no_error(volumes: bytes) -> None:
    found = refused_field(PodSpec(volumes=Raw(volumes)))
    assert ("iscsi" in found) == volumes.startswith(b"[")
    assert refused_field(PodSpec(volumes=NOTHING)) == ""
