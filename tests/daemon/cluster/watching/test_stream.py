"""Which events of a watch are news (K3.14, K1.2)."""

import json

from daemon.cluster.watching.watch_decoder import WatchStream
from events.limits import SPEC_FIELD_BYTES_MAX, TOO_LONG
from events.messages import DeletionSeen, ListCompleted, ListStarted, ObjectSeen
from events.watch import WatchOpened


def event(kind: str, revision: str, uid: str = "u") -> bytes:
    """A line of a watch."""
    metadata = {"name": uid, "uid": uid, "resourceVersion": revision}
    return json.dumps({"type": kind, "object": {"metadata": metadata}}).encode() + b"\n"


def mark(revision: str, **annotations: str) -> bytes:
    """A bookmark."""
    metadata = {"resourceVersion": revision, "annotations": annotations}
    return json.dumps({"type": "BOOKMARK", "object": {"metadata": metadata}}).encode() + b"\n"


def test_what_is_not_newer_than_the_same_object_is_dropped_and_counted() -> None:
    """K3.14: and K1.2: revisions are compared within one type only, by one helper."""
    stream = WatchStream("Pod", "9")
    reading = stream.read(event("ADDED", "10") + event("MODIFIED", "100") + event("ADDED", "99"))
    assert (len(reading.messages), reading.dropped, stream.revision) == (2, 1, "100")
    assert len(stream.read(event("MODIFIED", "99", "other")).messages) == 1
    assert stream.revision == "100"


def test_what_was_there_when_the_watch_was_opened_is_dropped() -> None:
    stream = WatchStream("Pod", "50")
    assert stream.read(event("ADDED", "50") + event("ADDED", "7")).dropped == 2


def test_an_object_that_went_does_not_come_back_by_an_older_event() -> None:
    stream = WatchStream("Pod", "1")
    reading = stream.read(event("DELETED", "9") + event("MODIFIED", "8"))
    assert [type(one) for one in reading.messages] == [DeletionSeen]


def test_revisions_that_cannot_be_compared_are_taken_in_and_reported() -> None:
    """K1.2: report malformed values. Only equal ones are duplicates."""
    stream = WatchStream("Pod", "1")
    reading = stream.read(event("ADDED", "x") + event("MODIFIED", "x") + event("MODIFIED", "y"))
    assert (len(reading.messages), reading.dropped, reading.malformed) == (2, 1, 3)
    assert stream.revision == "y"
    assert stream.read(mark("z")).malformed == 1


def test_what_came_before_a_line_that_cannot_be_read_counts() -> None:
    reading = WatchStream("Pod", "1").read(
        event("ADDED", "2") + b"nonsense\n" + event("ADDED", "3")
    )
    assert [type(one) for one in reading.messages] == [ObjectSeen]
    assert reading.end is not None


def test_a_streamed_list_is_whole_at_its_bookmark_and_follows_what_changes_meanwhile() -> None:
    """K3.13: only then is the set complete."""
    stream = WatchStream("Pod")
    chunk = event("ADDED", "1", "a") + event("ADDED", "2", "b") + event("MODIFIED", "5", "a")
    reading = stream.read(chunk + event("DELETED", "6", "b") + mark("6"))
    assert (reading.messages, stream.revision) == ([], "")
    reading = stream.read(mark("7", **{"k8s.io/initial-events-end": "true"}) + event("ADDED", "8"))
    listing, seen, listed, opened, added = reading.messages
    assert (listing, listed, opened) == (
        ListStarted("Pod"),
        ListCompleted("Pod", "7", 1),
        WatchOpened(resource="Pod", resource_version="7"),
    )
    assert isinstance(seen, ObjectSeen)
    assert b'"5"' in seen.raw
    assert isinstance(added, ObjectSeen)
    assert (stream.revision, stream.count) == ("8", 1)


def test_a_long_field_of_a_pod_is_left_out_before_it_waits_to_be_taken_in() -> None:
    """What waits is bounded by bytes, and nothing is decided by such a field."""
    metadata = {"name": "a", "uid": "u", "resourceVersion": "2"}
    spec = {"tolerations": [{"key": f"key-{index}"} for index in range(20_000)]}
    shown = {"kind": "Pod", "metadata": metadata, "spec": spec}
    for kind in ("ADDED", "DELETED"):
        line = json.dumps({"type": kind, "object": shown}).encode() + b"\n"
        reading = WatchStream("Pod", "1").read(line)
        [one] = reading.messages
        assert isinstance(one, ObjectSeen | DeletionSeen)
        assert (len(one.raw), TOO_LONG.encode() in one.raw) == (reading.size, True)
        assert reading.size < 1_000 < SPEC_FIELD_BYTES_MAX < reading.line_bytes


def test_what_a_streamed_list_contains_is_dropped_when_it_is_sent_again() -> None:
    stream = WatchStream("Pod")
    stream.read(event("ADDED", "2", "a") + mark("3", **{"k8s.io/initial-events-end": "true"}))
    reading = stream.read(event("DELETED", "3", "b") + event("ADDED", "4", "c"))
    assert ([type(one) for one in reading.messages], reading.dropped) == ([ObjectSeen], 1)
    assert not reading.is_doubtful
