"""Lists as streams, where they are wished for and the server has them (K3.13)."""

import asyncio

import pytest

from daemon.cluster.client.errors import ApiError, ForbiddenError, InvalidError
from events.messages import ListCompleted
from events.watch import WatchOpened
from tests.daemon.cluster.watching.api import Api, line, lost
from tests.daemon.cluster.watching.builders import running
from tests.daemon.cluster.watching.virtual import virtual


def test_a_streamed_list_is_one_watch_and_no_list() -> None:
    """K3.13: initial objects come as ADDED, and a bookmark closes the set."""

    async def story() -> None:
        api = Api()
        api.put("a")
        api.put("b")
        async with running(api, streams_lists=True) as daemon:
            assert daemon.seen.names() == {"a", "b"}
            assert ListCompleted("Pod", "102", 2) in daemon.seen.messages
            assert WatchOpened(resource="Pod", resource_version="102") in daemon.seen.messages
            assert api.requests("list pods") == []
            [query] = api.requests("watch pods")
            assert query == {
                "watch": "1",
                "sendInitialEvents": "true",
                "resourceVersion": "",
                "resourceVersionMatch": "NotOlderThan",
                "allowWatchBookmarks": "true",
                "timeoutSeconds": "450",
            }
            api.put("c")
            await asyncio.sleep(1)
            assert daemon.seen.names() == {"a", "b", "c"}
            api.tell(None)
            await asyncio.sleep(1)
            assert api.requests("watch pods")[1]["resourceVersion"] == "103"

    virtual(story())


@pytest.mark.parametrize(
    "refusal",
    [
        InvalidError("watch", 400, "BadRequest"),
        InvalidError("watch", 422, "Invalid"),
        ForbiddenError("watch", 403, "Forbidden"),
    ],
)
def test_a_server_that_refuses_streams_is_asked_for_pages_from_then_on(refusal: ApiError) -> None:
    """K3.13: on 400/403/422 fall back to K2 for the life of the process."""

    async def story() -> None:
        api = Api()
        api.put("a")
        api.spoil = lambda what, query: refusal if "sendInitialEvents" in query else None
        async with running(api, streams_lists=True) as daemon:
            assert daemon.seen.names() == {"a"}
            assert len(api.requests("list pods")) == 1
            daemon.seen.objects.clear()
            daemon.seen.progress.clear()
            daemon.again({})
            await asyncio.sleep(5)
            assert len(api.requests("list pods")) == 2
            streamed = [one for one in api.requests("watch pods") if "sendInitialEvents" in one]
            assert len(streamed) == 1

    virtual(story())


def test_a_stream_that_is_cut_before_its_end_is_no_list() -> None:
    """K3.13: only then is the set complete."""

    async def story() -> None:
        api = Api()
        obj = api.put("a")
        half = line("ADDED", {**obj, "kind": "Pod", "apiVersion": "v1"})
        api.spoil = lambda what, query: half if what == "watch pods" else None
        async with running(api, streams_lists=True) as daemon:
            assert daemon.seen.lists.count("Pod") == 0
            assert not daemon.health().is_listed
            api.spoil = lambda what, query: lost() if what == "watch pods" else None
            await asyncio.sleep(60)
            assert daemon.seen.lists.count("Pod") == 0
            api.spoil = lambda what, query: None
            await asyncio.sleep(60)
            assert daemon.seen.names() == {"a"}
            assert daemon.seen.lists.count("Pod") == 1

    virtual(story())
