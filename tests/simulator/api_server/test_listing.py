"""Lists: pages, revisions, selectors (rules of K2)."""

import pytest

from events.normalize import JsonObject
from simulator.manifest_fields import section
from tests.simulator.api_server.builders import (
    PODS,
    QUEUES,
    ask,
    bare,
    bound,
    done,
    names,
    posted,
    reason,
    refused,
    revision,
    served,
)

ALL_PODS = "/api/v1/pods"


def test_pages_show_one_revision_whatever_happens_between_them() -> None:
    """K2.2: the list RV is that of the first page, equal on all pages."""
    api = bare()
    for name in ("a", "b", "c", "d"):
        posted(api, name)
    first = done(ask(api, "GET", ALL_PODS + "?limit=3"))
    token = section(first, "metadata")["continue"]
    assert section(first, "metadata")["remainingItemCount"] == 1
    done(ask(api, "DELETE", PODS + "/d"))
    posted(api, "e")
    second = done(ask(api, "GET", f"{ALL_PODS}?limit=3&continue={token}"))
    assert names(first) + names(second) == ["a", "b", "c", "d"]
    assert revision(first) == revision(second)
    assert "continue" not in section(second, "metadata")


def test_an_old_token_expires_with_one_that_goes_on_inconsistently() -> None:
    """K2.3: 410 while paging; the replacement token in that reply gives an inconsistent list."""
    api = bare()
    for name in ("a", "b", "c"):
        posted(api, name)
    token = section(done(ask(api, "GET", ALL_PODS + "?limit=1")), "metadata")["continue"]
    posted(api, "bb")
    api.compact()
    status = refused(ask(api, "GET", f"{ALL_PODS}?limit=5&continue={token}"), 410)
    assert status["reason"] == "Expired"
    again = section(status, "metadata")["continue"]
    assert names(done(ask(api, "GET", f"{ALL_PODS}?limit=5&continue={again}"))) == ["b", "bb", "c"]


def test_a_token_grows_old_by_itself() -> None:
    api = bare()
    for name in ("a", "b"):
        posted(api, name)
    token = section(done(ask(api, "GET", ALL_PODS + "?limit=1")), "metadata")["continue"]
    posted(api, "c")
    api.advance(301_000_000_000)
    assert ask(api, "GET", f"{ALL_PODS}?continue={token}").status == 200
    api.advance(602_000_000_000)
    assert reason(ask(api, "GET", f"{ALL_PODS}?continue={token}"), 410) == "Expired"


def test_an_exact_list_shows_what_was_there() -> None:
    """K2: `Exact` is exactly N; 410 when compacted."""
    api = bare()
    then = revision(posted(api, "a"))
    posted(api, "b")
    done(ask(api, "DELETE", PODS + "/a"))
    query = f"?resourceVersion={then}&resourceVersionMatch=Exact"
    past = done(ask(api, "GET", ALL_PODS + query))
    assert names(past) == ["a"]
    assert revision(past) == then
    api.compact()
    assert reason(ask(api, "GET", ALL_PODS + query), 410) == "Expired"


def test_a_list_not_older_than_the_future_is_too_large() -> None:
    """K2.4: 504 with cause `ResourceVersionTooLarge`."""
    response = ask(
        bare(), "GET", ALL_PODS + "?resourceVersion=9999&resourceVersionMatch=NotOlderThan"
    )
    details = section(refused(response, 504), "details")
    assert details["causes"] == [
        {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    ]
    assert response.headers == {"Retry-After": "1"}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?resourceVersionMatch=Exact", 422),
        ("?resourceVersion=0&resourceVersionMatch=Exact", 422),
        ("?resourceVersion=1&resourceVersionMatch=Roughly", 422),
        ("?resourceVersion=abc", 400),
        ("?limit=abc", 400),
        ("?continue=abc", 400),
        ("?fieldSelector=spec.nope%3D1", 400),
        ("?fieldSelector=nope", 400),
        ("?labelSelector=a in", 400),
    ],
)
def test_parameters_that_cannot_be_are_refused(query: str, status: int) -> None:
    refused(ask(bare(), "GET", ALL_PODS + query.replace("%3D", "=")), status)


def test_a_revision_of_zero_gives_anything() -> None:
    api = bare()
    posted(api, "a")
    assert names(done(ask(api, "GET", ALL_PODS + "?resourceVersion=0"))) == ["a"]


def test_items_have_no_kind_but_those_of_definitions() -> None:
    """K1.4: items inside a `List` reply carry no apiVersion and kind."""
    api = served(
        """
        cluster:
          - {kind: Queue, metadata: {name: q}}
          - {kind: Node, metadata: {name: n1}}
        """
    )
    nodes = done(ask(api, "GET", "/api/v1/nodes"))
    queues = done(ask(api, "GET", QUEUES))
    assert (nodes["kind"], queues["kind"]) == ("NodeList", "QueueList")
    assert "kind" not in _first(nodes)
    assert _first(queues)["kind"] == "Queue"


def _first(document: JsonObject) -> JsonObject:
    items = document["items"]
    assert isinstance(items, list)
    assert isinstance(items[0], dict)
    return items[0]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("labelSelector=app=x", ["a"]),
        ("labelSelector=app!=x", ["b", "c"]),
        ("labelSelector=app", ["a", "b"]),
        ("labelSelector=!app", ["c"]),
        ("labelSelector=app in (x,y)", ["a", "b"]),
        ("labelSelector=app notin (x),app", ["b"]),
        ("fieldSelector=metadata.name=b", ["b"]),
        ("fieldSelector=spec.nodeName=", ["b", "c"]),
        ("fieldSelector=spec.nodeName=n1", ["a"]),
        ("fieldSelector=spec.schedulerName!=muster", ["a", "b"]),
        ("fieldSelector=status.phase=Pending,metadata.name!=a", ["b", "c"]),
    ],
)
def test_selectors_choose_what_is_listed(query: str, wanted: list[str]) -> None:
    api = bare()
    posted(api, "a", labels={"app": "x"})
    posted(api, "b", labels={"app": "y"})
    posted(api, "c", schedulerName="muster")
    bound(api, "a")
    # Only the first sign parts name and value.
    assert names(done(ask(api, "GET", f"{ALL_PODS}?{query}"))) == wanted


def test_objects_are_listed_by_namespace_and_name_and_one_namespace_alone() -> None:
    api = served(
        """
        cluster:
          - {kind: Pod, metadata: {name: z, namespace: a}}
          - {kind: Pod, metadata: {name: a, namespace: b}}
          - {kind: Pod, metadata: {name: a, namespace: a-b}}
        """,
        has_kubelets=False,
    )
    assert names(done(ask(api, "GET", ALL_PODS))) == ["a", "z", "a"]
    assert names(done(ask(api, "GET", "/api/v1/namespaces/a/pods"))) == ["z"]
