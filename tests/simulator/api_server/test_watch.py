"""Watches: what they show after a revision, and how they end (rules of K3)."""

import msgspec
import pytest

from events.normalize import JsonObject
from simulator.api_server.http_message import Request, Response
from simulator.manifest_fields import section
from tests.simulator.api_server.builders import (
    MERGE,
    PODS,
    QUEUES,
    ask,
    bare,
    bound,
    done,
    lines,
    posted,
    revision,
    told,
    watch,
)

ALL_PODS = "/api/v1/pods"


def test_everything_after_a_revision_is_shown_in_order() -> None:
    """K3.3: per type, events come in RV order, none missing after the start RV."""
    api = bare()
    since = revision(posted(api, "a"))
    opened = watch(api, ALL_PODS, resourceVersion=since)
    posted(api, "b")
    bound(api, "a")
    done(ask(api, "DELETE", PODS + "/b"))
    wanted = ["ADDED b", "MODIFIED a", "MODIFIED b", "DELETED b"]
    assert told(opened) == wanted
    assert told(watch(api, ALL_PODS, resourceVersion=since)) == wanted


def test_a_deletion_has_the_last_state_and_a_revision_of_its_own() -> None:
    """K3.5: `DELETED` carries the last state and the RV of the deletion."""
    api = bare()
    made = posted(api, "a", labels={"x": "y"})
    opened = watch(api, ALL_PODS, resourceVersion=revision(made))
    done(ask(api, "DELETE", PODS + "/a"))
    _, deleted = lines(opened)
    assert deleted["type"] == "DELETED"
    last = deleted["object"]
    assert isinstance(last, dict)
    assert section(last, "metadata", "labels") == {"x": "y"}
    assert int(revision(last)) > int(revision(made))
    assert last["kind"] == "Pod"


def test_without_a_revision_a_watch_first_invents_what_is_there() -> None:
    """K3.1: without RV the server first invents ADDED events for everything."""
    api = bare()
    posted(api, "a")
    bound(api, "a")
    opened = watch(api, ALL_PODS)
    posted(api, "b")
    assert told(opened) == ["ADDED a", "ADDED b"]


def test_a_watch_from_the_future_is_silent_until_it_is_reached() -> None:
    """K20: a watch from a revision in the future stays open and silent until its time-out."""
    api = bare()
    now = int(revision(posted(api, "a")))
    opened = watch(api, ALL_PODS, resourceVersion=str(now + 1), timeoutSeconds="5")
    posted(api, "b")
    posted(api, "c")
    assert told(opened, 4) == ["ADDED c"]
    assert not opened.is_over
    assert told(opened, 5) == []
    assert opened.is_over


def test_what_is_forgotten_ends_a_watch_with_an_error_event() -> None:
    """K3.7: 410 as an `ERROR` event whose object is a `Status` with `code: 410`."""
    api = bare()
    since = revision(posted(api, "a"))
    posted(api, "b")
    api.compact()
    opened = watch(api, ALL_PODS, resourceVersion=since)
    (line,) = lines(opened)
    status = line["object"]
    assert isinstance(status, dict)
    assert (line["type"], status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert opened.is_over


def test_what_is_forgotten_can_also_be_a_status() -> None:
    """K3.7: 410 as the HTTP status of the watch request."""
    api = bare(expires_with_status=True)
    since = revision(posted(api, "a"))
    posted(api, "b")
    api.compact()
    response = api.watch(Request("GET", ALL_PODS, {"watch": "1", "resourceVersion": since}))
    assert isinstance(response, Response)
    assert response.status == 410


def test_a_watch_that_is_up_to_date_survives_a_compaction_and_one_behind_does_not() -> None:
    api = bare()
    since = revision(posted(api, "a"))
    ahead = watch(api, ALL_PODS, resourceVersion=since)
    behind = watch(api, ALL_PODS, resourceVersion=since)
    posted(api, "b")
    assert told(ahead) == ["ADDED b"]
    api.compact()
    posted(api, "c")
    assert told(ahead) == ["ADDED c"]
    assert told(behind) == ["ERROR 410"]


def test_the_window_has_a_bound() -> None:
    api = bare(window=10)
    since = revision(posted(api, "a"))
    for index in range(30):
        done(ask(api, "PATCH", PODS + "/a", _labels(str(index)), MERGE))
    assert told(watch(api, ALL_PODS, resourceVersion=since)) == ["ERROR 410"]


def _labels(value: str) -> JsonObject:
    return {"metadata": {"labels": {"x": value}}}


def test_bookmarks_come_when_nothing_else_does_and_before_the_end() -> None:
    """K3.5: `BOOKMARK` carries only kind and RV."""
    api = bare()
    since = revision(posted(api, "a"))
    opened = watch(
        api, ALL_PODS, resourceVersion=since, allowWatchBookmarks="true", timeoutSeconds="100"
    )
    done(ask(api, "POST", "/api/v1/nodes", {"kind": "Node", "metadata": {"name": "n"}}))
    latest = int(since) + 1
    assert told(opened, 59) == []
    assert told(opened, 61) == [f"BOOKMARK {latest}"]
    (bookmark,) = lines(opened, 98.5)
    shown = bookmark["object"]
    assert isinstance(shown, dict)
    assert shown["kind"] == "Pod"
    assert sorted(section(shown, "metadata")) == ["creationTimestamp", "resourceVersion"]
    assert told(opened, 100) == []
    assert opened.is_over


def test_bookmarks_are_sent_only_on_request() -> None:
    api = bare()
    opened = watch(api, ALL_PODS, resourceVersion=revision(posted(api, "a")), timeoutSeconds="90")
    assert told(opened, 95) == []
    assert opened.is_over


def test_what_stops_matching_is_deleted_in_a_watch_with_a_selector() -> None:
    """K3.4: an object that stops matching arrives as `DELETED` although it still exists."""
    api = bare()
    since = revision(posted(api, "a", labels={"x": "0"}))
    opened = watch(api, ALL_PODS, resourceVersion=since, labelSelector="x=1")
    for value in ("1", "1", "2"):
        body: JsonObject = {"metadata": {"labels": {"x": value, "n": value * 2}}}
        done(ask(api, "PATCH", PODS + "/a", body, MERGE))
    done(ask(api, "PATCH", PODS + "/a", {"metadata": {"labels": {"y": "1"}}}, MERGE))
    shown = lines(opened)
    assert [one["type"] for one in shown] == ["ADDED", "DELETED"]
    last = shown[1]["object"]
    assert isinstance(last, dict)
    assert section(last, "metadata", "labels")["x"] == "1"
    assert revision(last) == str(int(since) + 2)


def test_a_field_selector_follows_one_node() -> None:
    api = bare()
    since = revision(posted(api, "a"))
    posted(api, "b")
    opened = watch(api, ALL_PODS, resourceVersion=since, fieldSelector="spec.nodeName=n1")
    bound(api, "a", "n1")
    bound(api, "b", "n2")
    assert told(opened) == ["ADDED a"]


def test_a_streaming_list_ends_its_first_part_with_a_bookmark() -> None:
    """K3.13: a bookmark with annotation `k8s.io/initial-events-end` closes the initial set."""
    api = bare(has_watch_list=True)
    posted(api, "a")
    opened = watch(
        api,
        ALL_PODS,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    shown = lines(opened)
    assert [one["type"] for one in shown] == ["ADDED", "BOOKMARK"]
    bookmark = shown[1]["object"]
    assert isinstance(bookmark, dict)
    assert section(bookmark, "metadata", "annotations") == {"k8s.io/initial-events-end": "true"}
    posted(api, "b")
    assert told(opened) == ["ADDED b"]


@pytest.mark.parametrize(
    ("has_watch_list", "query"),
    [
        (False, {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}),
        (True, {"sendInitialEvents": "true"}),
        (True, {"resourceVersionMatch": "NotOlderThan"}),
    ],
)
def test_a_streaming_list_that_is_not_served_is_refused_with_422(
    has_watch_list: bool, query: dict[str, str]
) -> None:
    """K3.13: on 422 a client falls back to lists."""
    api = bare(has_watch_list=has_watch_list)
    response = api.watch(Request("GET", ALL_PODS, {"watch": "1", **query}))
    assert isinstance(response, Response)
    assert response.status == 422


def test_a_resource_that_is_no_longer_served_shows_its_objects_going() -> None:
    api = bare()
    done(ask(api, "POST", QUEUES, {"kind": "Queue", "metadata": {"name": "q"}}))
    opened = watch(api, QUEUES, resourceVersion=str(api.versions.revision))
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    done(ask(api, "DELETE", f"{definitions}/queues.scheduling.volcano.sh"))
    assert told(opened) == ["DELETED q"]
    assert not api.is_served(opened.served)
    assert isinstance(api.watch(Request("GET", QUEUES, {"watch": "1"})), Response)


def test_a_large_object_is_one_line() -> None:
    api = bare()
    opened = watch(api, "/api/v1/configmaps", resourceVersion=str(api.versions.revision))
    data: JsonObject = {"x": "y" * 2_500_000}
    body: JsonObject = {"kind": "ConfigMap", "metadata": {"name": "big"}, "data": data}
    done(ask(api, "POST", "/api/v1/namespaces/default/configmaps", body))
    chunk = opened.take(0)
    assert chunk.count(b"\n") == 1
    assert msgspec.json.decode(chunk)["object"]["data"] == data
