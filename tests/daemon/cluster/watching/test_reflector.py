"""One kind, listed and watched, whatever the server does (K2, K3)."""

import asyncio

import pytest

from daemon.cluster.client.errors import (
    ExpiredError,
    ForbiddenError,
    ServerError,
    ThrottledError,
    UnauthorizedError,
)
from events.sighting import Closed, Listed, Opened, Progressed, Seen
from tests.daemon.cluster.watching.api import Api, error, line, lost, status
from tests.daemon.cluster.watching.given import running
from tests.daemon.cluster.watching.virtual import virtual


def test_a_list_is_handed_over_whole_and_then_what_happens() -> None:
    """K2.5, K3.1: a watch starts from the list's revision, with bookmarks and a time-out."""

    async def story() -> None:
        api = Api()
        api.put("a")
        async with running(api) as daemon:
            api.put("b")
            api.put("a")
            api.delete("a")
            await asyncio.sleep(1)
            assert daemon.seen.names() == {"b"}
            assert api.requests("list pods") == [{"limit": "500"}]
            [query] = api.requests("watch pods")
            assert query.pop("timeoutSeconds") == "450"
            assert query == {"watch": "1", "resourceVersion": "101", "allowWatchBookmarks": "true"}
            assert daemon.health().events == 3
            assert daemon.health().state == "watching"

    virtual(story())


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, "300"), (0.9999, "600")])
def test_the_time_out_asked_for_is_random_between_its_bounds(chance: float, seconds: str) -> None:
    """K3.1: timeoutSeconds is random between 300 and 600."""

    async def story() -> None:
        api = Api()
        async with running(api, jitter=lambda: chance):
            [query] = api.requests("watch pods")
            assert query["timeoutSeconds"] == seconds

    virtual(story())


def test_a_watch_that_ends_in_order_is_opened_again_at_once_from_the_last_revision() -> None:
    """K3.6: at once the first time; K3.3: from the last revision, bookmarks included."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            api.put("a")
            api.revision = 150
            api.bookmark()
            await asyncio.sleep(1)
            began = len(api.asked)
            api.tell(None)
            await asyncio.sleep(0.01)
            [(_, what, query)] = api.asked[began:]
            assert (what, query["resourceVersion"]) == ("watch pods", "150")
            assert daemon.seen.closed() == [("ended", False)]

    virtual(story())


def test_a_server_that_ends_each_watch_at_once_is_asked_ever_less_often() -> None:
    """K3.6, K3.11: with back-off if it repeats within seconds; at most 60 requests a minute."""

    async def story() -> None:
        api = Api()
        api.spoil = lambda what, query: b"" if what == "watch pods" else None
        async with running(api, jitter=lambda: 0.0):
            await asyncio.sleep(600)
            times = [at for at, what, _ in api.asked if what == "watch pods"]
            assert len(times) > 300
            assert all(later - at > 60 for at, later in zip(times, times[60:], strict=False))

    virtual(story())


def test_a_watch_is_closed_with_its_count_and_duration() -> None:
    """K3.16: every open and close is itself told, with its cause, revisions, counts and duration."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            api.put("a")
            await asyncio.sleep(90)
            api.tell(lost())
            await asyncio.sleep(5)
            pods = [one for one in daemon.seen.sightings if getattr(one, "resource", "") == "Pod"]
            [_, listed, opened, closed, again] = pods
            assert listed == Listed("Pod", "100", 0)
            assert opened == Opened("Pod", "100")
            assert isinstance(closed, Closed)
            assert (closed.cause, closed.resource_version, closed.count) == ("cut", "101", 1)
            assert 99 < closed.duration_ns / 1e9 < 101
            assert again == Opened("Pod", "101")

    virtual(story())


def test_an_expired_revision_at_opening_leads_to_a_list() -> None:
    """K3.7: HTTP status 410 means relist; never retried with the same revision."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            api.tell(lost())
            api.put("missed")
            api.revision += 50
            api.compact()
            await asyncio.sleep(60)
            assert daemon.seen.names() == {"missed"}
            assert daemon.seen.lists.count("Pod") == 2
            assert daemon.seen.closed() == [("cut", False), ("expired", True)]
            asked = [query["resourceVersion"] for query in api.requests("watch pods")]
            assert len(asked) == len(set(asked)) + 1
            assert asked[-1] == "151"

    virtual(story())


@pytest.mark.parametrize("reason", ["Expired", "Gone"])
def test_an_expired_revision_inside_of_a_watch_leads_to_a_list(reason: str) -> None:
    """K3.7: an ERROR event whose object is a Status with code 410 means the same."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            api.tell(line("ERROR", status(410, reason)))
            await asyncio.sleep(60)
            assert daemon.seen.lists.count("Pod") == 2
            assert daemon.seen.closed() == [("expired", True)]
            assert daemon.health().restarts == {"expired": 1}

    virtual(story())


def test_other_errors_resume_and_the_third_in_a_row_lists() -> None:
    """K3.8: back off, resume from the last revision; after three in a row, relist."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            for already in range(3):
                assert daemon.seen.lists.count("Pod") == 1, already
                api.tell(line("ERROR", status(500, "InternalError")))
                await asyncio.sleep(60)
            assert daemon.seen.lists.count("Pod") == 2
            assert daemon.seen.closed() == [("failed", False), ("failed", False), ("failed", True)]

    virtual(story())


def test_errors_with_news_between_them_are_not_in_a_row() -> None:
    """K3.8: three *in a row*."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            for name in "abcde":
                api.put(name)
                api.tell(b"502 Bad Gateway\n")
                await asyncio.sleep(60)
            assert daemon.seen.lists.count("Pod") == 1
            assert daemon.seen.names() == set("abcde")

    virtual(story())


def test_half_a_line_at_the_end_is_no_event_and_comes_again() -> None:
    """K3.2: a last line without newline is not an event."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            stream = api.stream()
            api.streams.remove(stream)
            api.put("a")
            whole = line("ADDED", api.history[-1][3])
            stream.send(whole[:-1])
            stream.send(None)
            await asyncio.sleep(0.001)
            assert daemon.seen.names() == set()
            await asyncio.sleep(30)
            assert daemon.seen.names() == {"a"}
            assert daemon.seen.closed() == [("cut", False)]

    virtual(story())


@pytest.mark.parametrize("sent", [b"", b'{"type":'])
def test_a_watch_without_event_or_bookmark_is_cancelled_and_opened_again(sent: bytes) -> None:
    """K3.12: neither event nor bookmark for timeoutSeconds + 30 s; bytes alone are no sign of life."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            stream = api.stream()
            stream.keeps_open = True
            api.streams.remove(stream)
            for _ in range(47):
                stream.send(sent)
                await asyncio.sleep(10)
            assert daemon.seen.closed() == []
            await asyncio.sleep(20)
            assert daemon.seen.closed() == [("stalled", False)]
            api.put("a")
            await asyncio.sleep(30)
            assert daemon.seen.names() == {"a"}

    virtual(story())


def test_a_watch_that_shows_something_now_and_then_is_left_alone() -> None:
    """K3.12: an event or a bookmark is a sign of life, however long the server keeps the watch open."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            api.stream().keeps_open = True
            for turn in range(10):
                await asyncio.sleep(400)
                api.bookmark() if turn % 2 else api.put("a")
            assert daemon.seen.closed() == []

    virtual(story())


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


def test_duplicates_and_regressions_are_dropped_and_counted() -> None:
    """K3.14: not greater than the cached revision of the same UID: dropped and counted."""

    async def story() -> None:
        api = Api()
        api.put("old")
        async with running(api) as daemon:
            api.put("a")
            api.put("a")
            for _, _, kind, obj in api.history:
                api.tell(line(kind, obj) * 2)
            await asyncio.sleep(1)
            assert daemon.health().dropped == 6
            assert len(daemon.seen.of(Seen)) == 3
            api.tell(None)
            await asyncio.sleep(1)
            api.tell(line("MODIFIED", api.history[-1][3]))
            await asyncio.sleep(1)
            assert daemon.health().dropped == 7

    virtual(story())


def test_bookmarks_are_handed_over_now_and_then() -> None:
    """K3.5: a bookmark is progress, and no event of state."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            for _ in range(60):
                api.revision += 1
                api.bookmark()
                await asyncio.sleep(1)
            marks = daemon.seen.of(Progressed)
            assert 6 <= len(marks) <= 7
            assert daemon.seen.of(Seen) == []

    virtual(story())


def test_a_server_that_was_set_back_is_noticed_by_its_silence() -> None:
    """K20.4: a watch from a revision in the future stays open and silent."""

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
            assert daemon.seen.names() == {"lost"}
            await asyncio.sleep(500)
            assert daemon.seen.names() == {"kept"}
            assert ("expired", True) in daemon.seen.closed()

    virtual(story())


@pytest.mark.parametrize("status_code", [500, 502, 429, 400])
def test_an_outage_is_told_once_and_ends_by_itself(status_code: int) -> None:
    """K3.16: every close is told; a try that fails for the same cause as before is not a close."""

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
