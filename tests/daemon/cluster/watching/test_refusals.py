"""What a reflector makes of a server that refuses, fails or was set back (K3.8 to K3.10, K2.3)."""

import asyncio

import pytest

from daemon.cluster.client.errors import (
    ExpiredError,
    ForbiddenError,
    ServerError,
    ThrottledError,
    UnauthorizedError,
)
from tests.daemon.cluster.watching.api import Api, error, lost
from tests.daemon.cluster.watching.builders import running
from tests.daemon.cluster.watching.virtual import virtual


def test_what_is_forbidden_is_named_and_asked_for_each_minute() -> None:
    """K3.9: 403 is named with the missing verb; retried each minute."""

    async def story() -> None:
        api = Api()
        api.put("a")
        refusal = ForbiddenError("list pods", 403, "Forbidden", "no")
        api.spoil = lambda what, query: refusal if what == "list pods" else None
        async with running(api) as daemon:
            assert daemon.health("Node").state == "watching"
            assert daemon.health("PriorityClass").state == "watching"
            assert (daemon.health().state, daemon.health().is_listed) == ("forbidden", False)
            assert daemon.health().reason == "forbidden: list pods"
            await asyncio.sleep(630)
            assert 10 <= len(api.requests("list pods")) <= 11
            assert daemon.seen.closed() == [("forbidden", False)]
            api.spoil = lambda what, query: None
            await asyncio.sleep(70)
            assert daemon.seen.names() == {"a"}
            assert daemon.health().reason == ""

    virtual(story())


def test_what_was_allowed_before_is_asked_for_sooner_at_first() -> None:
    """K3.9: a server that has just begun refuses everything for some seconds; then each minute."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            assert daemon.health().state == "watching"
            refusal = ForbiddenError("watch pods", 403, "Forbidden", "no")
            api.spoil = lambda what, query: refusal if what == "watch pods" else None
            before = len(api.requests("watch pods"))
            api.tell(None)
            await asyncio.sleep(60)
            assert daemon.health().state == "forbidden"
            assert 6 <= len(api.requests("watch pods")) - before <= 7
            await asyncio.sleep(600)
            assert 15 <= len(api.requests("watch pods")) - before <= 18
            api.spoil = lambda what, query: None
            await asyncio.sleep(70)
            assert daemon.health().state == "watching"
            assert daemon.seen.lists.count("Pod") == 1

    virtual(story())


def test_a_watch_without_credentials_is_tried_again_and_loses_nothing() -> None:
    """K3.9: a 401 that a new token did not cure is backed off from."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            refusal = UnauthorizedError("watch pods", 401, "Unauthorized")
            api.spoil = lambda what, query: refusal if what == "watch pods" else None
            api.tell(None)
            api.put("a")
            await asyncio.sleep(300)
            assert daemon.health().state == "waiting"
            assert "Unauthorized" in daemon.health().reason
            assert daemon.seen.closed() == [("ended", False), ("unauthorized", False)]
            api.spoil = lambda what, query: None
            await asyncio.sleep(31)
            assert daemon.seen.names() == {"a"}
            assert daemon.seen.lists.count("Pod") == 1

    virtual(story())


@pytest.mark.parametrize("kind", [ThrottledError, ServerError])
def test_retry_after_is_honoured(kind: type[ThrottledError | ServerError]) -> None:
    """K3.10: 429/503: honour Retry-After, else back off."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            refusal = kind("watch pods", 429, "", "busy", (), 45.0)
            api.spoil = lambda what, query: refusal if what == "watch pods" else None
            api.tell(None)
            await asyncio.sleep(1)
            asked = len(api.requests("watch pods"))
            await asyncio.sleep(43)
            assert len(api.requests("watch pods")) == asked
            await asyncio.sleep(3)
            assert len(api.requests("watch pods")) == asked + 1
            assert daemon.health().state == "waiting"

    virtual(story())


def test_a_server_that_was_set_back_is_noticed_before_it_is_watched_again() -> None:
    """K20: a watch from a revision in the future stays open and silent."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            api.put("lost")
            await asyncio.sleep(1)
            api.tell(None)
            api.objects.clear()
            api.history.clear()
            api.revision = 90
            api.put("kept")
            api.history.clear()
            await asyncio.sleep(10)
            assert daemon.seen.names() == {"kept"}
            assert daemon.seen.closed() == [("ended", False), ("revision_went_back", True)]

    virtual(story())


@pytest.mark.parametrize("status_code", [500, 502, 429, 400])
def test_an_outage_is_reported_once_and_recovers(status_code: int) -> None:
    """Every close is reported; a try that fails for the same cause as before is not a close."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            api.spoil = lambda what, query: error(what, status_code)
            api.tell(lost())
            for name in ("a", "b"):
                api.put(name)
                await asyncio.sleep(600)
            assert daemon.seen.closed() == [("cut", False), ("failed", False)]
            api.spoil = lambda what, query: None
            await asyncio.sleep(31)
            assert daemon.seen.names() == {"a", "b"}
            assert daemon.seen.lists.count("Pod") == 1

    virtual(story())


def test_an_expired_answer_to_a_list_leaves_no_gap() -> None:
    """K2.3: the pages are thrown away, and the list starts again."""

    async def story() -> None:
        api = Api()
        api.page = 2
        for name in "abcde":
            api.put(name)
        expired = ExpiredError("list pods", 410, "Expired")
        tries = iter([True, True, False])
        api.spoil = lambda what, query: (
            expired if query.get("continue", "").endswith(":4") and next(tries, False) else None
        )
        async with running(api) as daemon:
            assert daemon.seen.names() == set("abcde")
            assert daemon.seen.lists.count("Pod") == 1
            assert daemon.seen.closed() == [("expired", False)]
            begun = [query for query in api.requests("list pods") if "continue" not in query]
            assert begun == [{"limit": "500"}] * 3

    virtual(story())
