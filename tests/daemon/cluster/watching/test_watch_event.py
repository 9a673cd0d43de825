"""Lines of a watch as events (K3.2, K3.5, K3.7)."""

import json

import pytest

from daemon.cluster.watching.watch_event import (
    Bookmark,
    Change,
    Failure,
    UnreadableEventError,
    read_event,
    read_head,
)
from events.normalize import normalize

POD = {
    "kind": "Pod",
    "apiVersion": "v1",
    "metadata": {"name": "a", "namespace": "b", "uid": "u", "resourceVersion": "7", "more": {}},
    "spec": {"unknown": [1, {"x": "\n"}]},
}


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
@pytest.mark.parametrize("separators", [(",", ":"), (" , ", " : ")])
def test_an_object_stays_the_bytes_that_came(kind: str, separators: tuple[str, str]) -> None:
    """K1.6: unknown fields are normal, and never lost."""
    event = read_event(json.dumps({"type": kind, "object": POD}, separators=separators).encode())
    assert isinstance(event, Change)
    assert (event.type, event.metadata.uid, event.metadata.resourceVersion) == (kind, "u", "7")
    assert json.loads(event.raw) == POD


@pytest.mark.parametrize(
    "line",
    [
        b'{"object":%s,"type":"ADDED"}',
        b'{"type":"ADDED","object":%s,"more":{}}',
        b'{"type":"ADDED","object":%s} \r',
    ],
)
def test_the_order_of_the_fields_does_not_matter(line: bytes) -> None:
    event = read_event(line % json.dumps(POD).encode())
    assert isinstance(event, Change)
    assert json.loads(event.raw) == POD


def test_a_bookmark_carries_a_revision_and_may_end_a_streamed_list() -> None:
    """K3.5, K3.13."""
    plain = {"kind": "Pod", "metadata": {"resourceVersion": "9", "creationTimestamp": None}}
    assert read_event(json.dumps({"type": "BOOKMARK", "object": plain}).encode()) == Bookmark("9")
    metadata = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
    last = {"type": "BOOKMARK", "object": {"metadata": metadata}}
    assert read_event(json.dumps(last).encode()) == Bookmark("9", is_initial_end=True)


@pytest.mark.parametrize(
    ("status", "is_expired"),
    [
        ({"code": 410, "reason": "Expired"}, True),
        ({"code": 410, "reason": "Gone"}, True),
        ({"reason": "Expired"}, True),
        ({"code": 500, "reason": "InternalError", "message": None}, False),
        ({}, False),
    ],
)
def test_an_error_says_whether_the_revision_expired(
    status: dict[str, object], is_expired: bool
) -> None:
    """K3.7: the second shape of 410 is a Status inside of the watch."""
    event = read_event(json.dumps({"type": "ERROR", "object": status}).encode())
    assert isinstance(event, Failure)
    assert event.is_expired == is_expired


@pytest.mark.parametrize(
    "line",
    [
        b"502 Bad Gateway",
        b"<html>",
        b'"ADDED"',
        b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}',
        b'{"type":"ADDED","object":{"metadata":{"name":"a","uid":"u","resourceVersion":"1"}}]',
        b'{"type":"ADDED","object":[]}',
        b'{"type":"ADDED"}',
        b'{"type":"RENAMED","object":{}}',
        b'{"type":"BOOKMARK","object":{}}',
        b'{"type":"ERROR","object":{"code":"x"}}',
        b"\xff\xfe",
    ],
)
def test_what_is_no_event_is_named_so(line: bytes) -> None:
    with pytest.raises(UnreadableEventError, match=r"a line of the watch"):
        read_event(line)


def test_a_thing_without_a_name_or_uid_is_handed_on() -> None:
    """An object that cannot be read is recorded by the ingest and does not fail its list."""
    assert read_head(b'{"metadata":{"name":"a","resourceVersion":"1"}}').metadata.uid == ""
    line = b'{"type":"ADDED","object":{"metadata":{}}}'
    assert isinstance(read_event(line), Change)


HOSTILE = [
    b'{"a":' * 3_000 + b"1" + b"}" * 3_000,
    b"[" * 100_000 + b"]" * 100_000,
    b"1" * 5_000,
    b"1e400",
    b'"\\ud800"',
    b'"\xff"',
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:8].decode(errors="replace"))
@pytest.mark.parametrize("begin", ['{"type":"ADDED","object":', '{"object":'])
def test_an_object_with_any_value_is_an_event(value: bytes, begin: str) -> None:
    end = b"}" if begin.startswith('{"type"') else b',"type":"ADDED"}'
    line = begin.encode() + b'{"metadata":{"name":"a","uid":"u"},"more":' + value + b"}" + end
    event = read_event(line)
    assert isinstance(event, Change)
    assert (event.metadata.name, event.metadata.uid) == ("a", "u")
    assert normalize(b'{"kind":"Pod",' + event.raw[1:]).name == "a"
