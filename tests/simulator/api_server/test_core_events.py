"""An Event is one object in two groups: muster writes `events.k8s.io`, kubectl reads the core group."""

from events.normalize import JsonObject
from simulator.manifest_fields import section
from tests.simulator.api_server.builders import (
    EVENTS,
    MERGE,
    ask,
    bare,
    done,
    found,
    lines,
    names,
    posted,
    reason,
    uid,
    watch,
)

CORE = "/api/v1/namespaces/default/events"
TIME = "2026-01-01T00:00:00.000000Z"


def event(name: str, pod: JsonObject, **fields: str) -> JsonObject:
    """An Event about a pod as muster posts it."""
    metadata = section(pod, "metadata")
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name},
        "eventTime": TIME,
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "default",
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
        "reason": "Scheduled",
        "note": "Successfully assigned",
        "type": "Normal",
        "action": "Binding",
        "reportingController": "muster.sh/scheduler",
        "reportingInstance": "m-0",
        **fields,
    }


def test_an_event_of_muster_is_read_in_the_core_group_with_the_names_that_kubectl_knows() -> None:
    api = bare()
    pod = posted(api, "a")
    written = done(ask(api, "POST", EVENTS, event("a.1", pod)))
    core = found(api, f"{CORE}/a.1")
    assert (core["apiVersion"], core["kind"]) == ("v1", "Event")
    assert core["metadata"] == written["metadata"]
    assert core["involvedObject"] == written["regarding"]
    assert core["message"] == "Successfully assigned"
    assert core["reportingComponent"] == "muster.sh/scheduler"
    assert (core["firstTimestamp"], core["lastTimestamp"], core["source"]) == (None, None, {})
    assert not core.keys() & {"regarding", "note", "reportingController"}
    assert names(found(api, EVENTS)) == names(found(api, CORE)) == ["a.1"]


def test_describe_selects_the_events_of_one_pod() -> None:
    api = bare()
    first, second = posted(api, "a"), posted(api, "b")
    done(ask(api, "POST", EVENTS, event("a.1", first)))
    done(ask(api, "POST", EVENTS, event("b.1", second, type="Warning")))
    asked = f"involvedObject.name=a,involvedObject.uid={uid(first)},involvedObject.kind=Pod"
    assert names(found(api, f"{CORE}?fieldSelector={asked}")) == ["a.1"]
    assert names(found(api, f"{CORE}?fieldSelector=type!=Normal")) == ["b.1"]
    assert reason(ask(api, "GET", f"{CORE}?fieldSelector=regarding.name=a"), 400) == "BadRequest"


def test_a_watch_of_the_core_group_shows_what_is_written_to_the_other() -> None:
    api = bare()
    pod = posted(api, "a")
    opened = watch(api, CORE, fieldSelector="reason=Scheduled")
    done(ask(api, "POST", EVENTS, event("a.1", pod)))
    done(ask(api, "POST", EVENTS, event("a.2", pod, reason="Other")))
    done(ask(api, "DELETE", f"{CORE}/a.1"))
    added, deleted = lines(opened)
    assert (added["type"], deleted["type"]) == ("ADDED", "DELETED")
    assert section(added, "object")["message"] == "Successfully assigned"
    assert section(deleted, "object")["apiVersion"] == "v1"
    assert names(found(api, EVENTS)) == ["a.2"]


def test_an_older_recorder_writes_and_counts_its_events_in_the_core_group() -> None:
    """Like client-go's `record.EventRecorder`: without `eventTime`, and with a patch for each repetition."""
    api = bare()
    pod = posted(api, "a")
    old: JsonObject = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1"},
        "involvedObject": event("", pod)["regarding"],
        "reason": "Pulled",
        "message": "image is there",
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
        "type": "Normal",
    }
    written = done(ask(api, "POST", CORE, old))
    assert (written["apiVersion"], written["count"]) == ("v1", 1)
    again: JsonObject = {"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"}
    patched = done(ask(api, "PATCH", f"{CORE}/a.1", again, MERGE))
    assert (patched["count"], patched["message"]) == (2, "image is there")
    newer = found(api, f"{EVENTS}/a.1")
    assert (newer["deprecatedCount"], newer["note"]) == (2, "image is there")
    assert newer["deprecatedSource"] == {"component": "kubelet", "host": "n1"}
    assert names(found(api, f"{CORE}?fieldSelector=source=kubelet")) == ["a.1"]


def test_the_limits_of_events_hold_in_both_groups() -> None:
    api = bare()
    pod = posted(api, "a")
    bad = event("a.1", pod)
    del bad["eventTime"]
    assert reason(ask(api, "POST", EVENTS, bad), 422) == "Invalid"
    elsewhere: JsonObject = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.2"},
        "involvedObject": {"kind": "Pod", "name": "a", "namespace": "other"},
        "source": {"component": "kubelet"},
        "type": "Normal",
    }
    assert reason(ask(api, "POST", CORE, elsewhere), 422) == "Invalid"
    assert reason(ask(api, "PATCH", f"{CORE}/none", {"count": 2}, MERGE), 404) == "NotFound"
