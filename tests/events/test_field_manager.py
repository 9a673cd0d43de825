"""Who changed an object is kept, and nothing else of its managed fields."""

import msgspec
import pytest

from events.cluster import ObjectObserved
from events.codec import decode, encode
from events.field_manager import MANAGER_CHARS_MAX, FieldChange
from events.json_value import Json
from events.normalize import normalize
from events.normalize_pod import normalize_object

EARLY, LATE = "2026-01-31T09:30:00Z", "2026-01-31T10:00:00Z"


def entry(manager: str, time: Json, **more: Json) -> Json:
    """An entry as the API server writes it."""
    fields: Json = {"f:spec": {"f:capability": {"f:cpu": {}}}}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def sent(kind: str, managed: Json) -> bytes:
    """An object with managed fields."""
    metadata: Json = {"name": "a", "namespace": "default", "uid": "1", "managedFields": managed}
    return msgspec.json.encode({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {}})


def change_of(managed: Json) -> FieldChange | None:
    """What is kept, which is the same for a pod, whose parts are normalized one by one, and another object."""
    pod, queue = (normalize_object(sent(kind, managed)) for kind in ("Pod", "Queue"))
    assert pod.changed_by == queue.changed_by == normalize(sent("Pod", managed)).changed_by
    return pod.changed_by


def test_the_newest_entry_says_who_changed_an_object() -> None:
    managed: Json = [entry("kubectl-create", EARLY), entry("kubectl-edit", LATE), entry("x", EARLY)]
    found = change_of(managed)
    assert found == FieldChange("kubectl-edit", "Update", LATE)
    assert found.text == "kubectl-edit (Update)"


def test_in_one_second_the_object_comes_before_its_status() -> None:
    status = entry("controller", LATE, subresource="status")
    for managed in ([entry("alice", LATE), status], [status, entry("alice", LATE)]):
        found = change_of(managed)
        assert found is not None
        assert found.manager == "alice"
    assert change_of([entry("alice", EARLY), status]) == FieldChange(
        "controller", "Update", LATE, "status"
    )


def test_who_changed_an_object_is_no_part_of_its_digest() -> None:
    one = normalize_object(sent("Queue", [entry("alice", EARLY)]))
    other = normalize_object(sent("Queue", [entry("bob", LATE)]))
    assert one.stored == other.stored
    assert one.changed_by != other.changed_by
    assert b"managedFields" not in one.stored.content


def test_the_record_of_a_change_is_short() -> None:
    plain = ObjectObserved(uid="1", resource_version="2")
    change = FieldChange("kubelet", "Update", LATE, "status")
    event = ObjectObserved(uid="1", resource_version="2", changed_by=change)
    assert len(encode(event)) - len(encode(plain)) < 80
    assert decode(event.kind, encode(event), position=1) == event
    assert b"changed_by" not in encode(plain)


@pytest.mark.parametrize(
    "managed",
    [
        None,
        "kubectl",
        [],
        [7],
        [{"manager": 7}],
        [entry("x", None)],
        [entry("x", "yesterday")],
        [entry("x", LATE + " ' drop table log")],
        [entry("x", LATE, operation="Steal")],
        [entry("x", 5)],
    ],
)
def test_managed_fields_that_cannot_be_read_say_nothing(managed: Json) -> None:
    assert change_of(managed) is None


def test_a_long_or_unprintable_manager_is_cut_and_storable() -> None:
    found = change_of([entry("a\0b" * 10_000, LATE, subresource="s" * 10_000)])
    assert found is not None
    assert (len(found.manager), len(found.subresource)) == (MANAGER_CHARS_MAX, MANAGER_CHARS_MAX)
    assert "\0" not in found.manager
