"""Rule K3: what a watch shows, and how it ends."""

from projections.kinds.node import NODES
from tests.contract.served import Served
from tests.contract.test_lists import FAR, make, revision
from tests.control_plane.api import Line, Object
from tests.control_plane.manifests import pod

LIMIT = "20"
"""Seconds after which a watch ends where a test does not end it."""


def shown(lines: list[Line]) -> list[tuple[str, str]]:
    """Type and name of each event."""
    return [(line.type, line.name) for line in lines]


async def now(server: Served) -> str:
    """The revision of a list of the test's pods."""
    return revision((await server.api.get(server.pods)).expect(200))


async def test_a_watch_shows_what_came_after_a_revision_in_order(server: Served) -> None:
    """Rules K3.1 and K3.3"""
    await server.pod("before")
    start = await now(server)
    made = await server.pod("a")
    patch = {"metadata": {"annotations": {"x": "y"}}}
    changed = (await server.api.patch(server.path(made), patch)).expect(200)
    (await server.api.delete(server.path(made), {"gracePeriodSeconds": 0})).expect(200)
    async with server.api.watch(server.pods, resourceVersion=start, timeoutSeconds=LIMIT) as watch:
        lines = await watch.until("DELETED")
    assert shown(lines[:2]) == [("ADDED", "a"), ("MODIFIED", "a")]
    # A pod that is deleted at once is still seen to be marked for it first.
    assert shown(lines[2:]) == [("MODIFIED", "a"), ("DELETED", "a")]
    assert [line.revision for line in lines[:2]] == [revision(made), revision(changed)]
    order = [int(line.revision) for line in lines]
    assert order == sorted(set(order)), "K3.5: a deletion has a revision of its own"
    assert {line.object["kind"] for line in lines} == {"Pod"}, "K1.4: watched objects have a kind"


async def test_a_watch_without_a_revision_begins_with_all_there_is(server: Served) -> None:
    """Rule K3.1: why it is not to be used."""
    await server.pod("b")
    await server.pod("a")
    async with server.api.watch(server.pods, timeoutSeconds=LIMIT) as watch:
        lines = [await watch.next(), await watch.next()]
        await server.pod("c")
        lines += await watch.until("ADDED", "c")
    assert sorted(shown([line for line in lines if line])) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("ADDED", "c"),
    ]


async def test_a_watch_ends_cleanly_when_its_time_is_over(server: Served) -> None:
    """Rule K3.6"""
    start = await now(server)
    async with server.api.watch(server.pods, resourceVersion=start, timeoutSeconds="1") as watch:
        assert await watch.next() is None


async def test_the_last_thing_a_watch_shows_is_how_far_it_came(server: Served) -> None:
    """Rule K3.5: a bookmark has a kind and a revision, and nothing else."""
    start = await now(server)
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": "4", "labelSelector": "app=none"}
    async with server.api.watch(server.pods, resourceVersion=start, **query) as watch:
        made = await server.pod("a", {"app": "x"})
        lines = await watch.until("BOOKMARK")
    assert [line.type for line in lines] == ["BOOKMARK"]
    assert (lines[0].object["kind"], lines[0].object["apiVersion"]) == ("Pod", "v1")
    assert "name" not in lines[0].object["metadata"]
    assert int(lines[0].revision) >= int(revision(made))


async def test_no_bookmark_comes_where_none_is_asked_for(server: Served) -> None:
    """Rule K3.5: they may never come."""
    start = await now(server)
    query = {"timeoutSeconds": "4", "labelSelector": "app=none"}
    async with server.api.watch(server.pods, resourceVersion=start, **query) as watch:
        await server.pod("a")
        assert await watch.next() is None


async def test_a_watch_in_which_nothing_is_new_ends_without_a_word(server: Served) -> None:
    """Rule K3.5: bookmarks are asked for, and none comes."""
    await server.pod("a")
    start = await now(server)
    query = {"allowWatchBookmarks": "true", "timeoutSeconds": "4"}
    path = server.pods
    async with server.api.watch(path, resourceVersion=start, **query) as watch:
        lines = [line] if (line := await watch.next()) else []
    assert [line.type for line in lines] in ([], ["BOOKMARK"])


async def test_what_no_longer_matches_is_shown_as_deleted(server: Served) -> None:
    """Rule K3.4"""
    start = await now(server)
    async with server.api.watch(
        server.pods, resourceVersion=start, labelSelector="app=x", timeoutSeconds=LIMIT
    ) as watch:
        made = await server.pod("a", {"app": "x"})
        await server.api.patch(server.path(made), {"metadata": {"labels": {"app": "y"}}})
        await server.api.patch(server.path(made), {"metadata": {"labels": {"app": "x"}}})
        lines = [*await watch.until("DELETED"), *await watch.until("ADDED")]
    assert shown(lines) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]


async def test_a_pod_leaves_a_watch_of_the_waiting_when_it_is_bound(server: Served) -> None:
    """Rule K3.4, with a field."""
    node = await server.node()
    start = await now(server)
    async with server.api.watch(
        server.pods, resourceVersion=start, fieldSelector="spec.nodeName=", timeoutSeconds=LIMIT
    ) as watch:
        await server.bind(await server.pod("a"), node["metadata"]["name"])
        lines = await watch.until("DELETED")
    assert shown(lines)[-1] == ("DELETED", "a")


async def test_a_watch_of_a_forgotten_revision_is_gone(server: Served) -> None:
    """Rule K3.7, in either shape."""
    made = await make(server, "one")
    for name in ("two", "three"):
        await make(server, name)
    server.forget()
    path = server.forgetful.collection_path(server.namespace)
    async with server.api.watch(
        path, resourceVersion=revision(made), timeoutSeconds=LIMIT
    ) as watch:
        line = await watch.next()
        assert line is not None
        assert (line.type, line.object["kind"], line.object["code"]) == ("ERROR", "Status", 410)
        assert line.object["reason"] in ("Expired", "Gone")
        assert await watch.next() is None


async def test_a_watch_from_a_compacted_revision_gets_410_or_an_error_event(server: Served) -> None:
    """Rule K3.7, in either shape."""
    path = server.forgetful.collection_path(server.namespace)
    await make(server, "one")
    server.forget()
    async with server.api.watch(path, resourceVersion="1", timeoutSeconds=LIMIT) as watch:
        if watch.status != 410:
            line = await watch.next()
            assert line is not None
            assert (line.type, line.object["code"]) == ("ERROR", 410)


async def test_a_watch_of_the_future_stays_open_and_silent(server: Served) -> None:
    """Rules K20 and K3.12: only a stall limit helps."""
    async with server.api.watch(server.pods, resourceVersion=FAR, timeoutSeconds=LIMIT) as watch:
        await server.pod("a")
        assert watch.status == 200
        assert await watch.silence(1.0)


async def test_a_watch_of_what_is_no_revision_is_refused(server: Served) -> None:
    """A list of it is a bad request; a watch of it is an error of the server in 1.34."""
    async with server.api.watch(server.pods, resourceVersion="new") as watch:
        assert watch.status in (400, 500)


async def test_a_streamed_list_ends_with_its_bookmark(server: Served) -> None:
    """Rule K3.13; a server that does not know it answers 400, 403 or 422, and a client falls back."""
    await server.pod("a")
    await server.pod("b")
    query = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": LIMIT,
    }
    async with server.api.watch(server.pods, resourceVersion="", **query) as watch:
        if watch.status in (400, 403, 422):
            return
        lines = await watch.until("BOOKMARK")
        await server.pod("c")
        lines += await watch.until("ADDED", "c")
    assert shown(lines[:2]) == [("ADDED", "a"), ("ADDED", "b")]
    assert lines[2].object["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(lines[2].revision) >= int(lines[1].revision)


async def test_an_object_of_a_megabyte_comes_in_one_line(server: Served) -> None:
    """Rule K3.2"""
    start = await now(server)
    manifest = pod(server.namespace, "large")
    text = "x" * 1_000_000
    manifest["spec"]["containers"][0]["env"] = [{"name": "LARGE", "value": text}]
    (await server.api.post(server.pods, manifest)).expect(201)
    async with server.api.watch(server.pods, resourceVersion=start, timeoutSeconds=LIMIT) as watch:
        line = await watch.next()
    assert line is not None
    assert line.object["spec"]["containers"][0]["env"][0]["value"] == text


async def test_one_counter_numbers_all_kinds(server: Served) -> None:
    """Rule K1.2: only within a kind may they be compared, but a list of any kind is as new as all."""
    made: Object = await server.pod("a")
    nodes = (await server.api.get(NODES.path)).expect(200)
    assert int(revision(nodes)) >= int(revision(made))
