"""One kind, listed and watched, whatever the server does (K2, K3)."""

import asyncio

import pytest

from events.messages import ListCompleted, ObjectSeen
from events.watch import WatchClosed, WatchOpened, WatchProgressed
from tests.daemon.cluster.watching.api import Api, line, lost, status
from tests.daemon.cluster.watching.builders import running
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
            *checks, (_, what, query) = api.asked[began:]
            assert (what, query["resourceVersion"]) == ("watch pods", "150")
            assert [what for _, what, _ in checks] == ["list pods"] * 2, "how far it is, and pod a"
            assert daemon.seen.closed() == [("ended", False)]

    virtual(story())


def test_a_server_that_ends_each_watch_at_once_is_asked_ever_less_often() -> None:
    """K3.6, K3.11: with back-off if it repeats within seconds; at most 60 requests a minute."""

    async def story() -> None:
        api = Api()
        api.spoil = lambda what, query: b"" if what == "watch pods" else None
        async with running(api, jitter=lambda: 0.0):
            await asyncio.sleep(600)
            times = [at for at, what, _ in api.asked if what.endswith(" pods")]
            assert len(times) > 500
            assert all(later - at > 60 for at, later in zip(times, times[60:], strict=False))

    virtual(story())


def test_a_watch_that_shows_events_and_is_ended_quickly_is_opened_again_soon() -> None:
    """K3.6: the API server ends a watch that it cannot serve as fast as large objects come; each wait is more to
    make up for. K3.11: at most 60 requests a minute all the same."""

    async def story() -> None:
        api = Api()
        waits: list[float] = []
        async with running(api, jitter=lambda: 0.99):
            for index in range(120):
                api.put(f"p{index}")
                await asyncio.sleep(0.5)
                ended = asyncio.get_running_loop().time()
                opened = len(api.requests("watch pods"))
                api.tell(None)
                while len(api.requests("watch pods")) == opened:  # noqa: ASYNC110 - virtual time
                    await asyncio.sleep(0.01)
                waits.append(asyncio.get_running_loop().time() - ended)
        assert max(waits[:8]) < 1.0
        assert max(waits) < 4.0
        times = [at for at, what, _ in api.asked if what.endswith(" pods")]
        assert all(later - at > 60 for at, later in zip(times, times[60:], strict=False))

    virtual(story())


def test_a_watch_that_is_opened_again_soon_is_not_preceded_by_another_check() -> None:
    """Within ten seconds of a check the server cannot have been set back without breaking the watch."""

    async def story() -> None:
        api = Api()
        async with running(api):
            checks: list[int] = []
            for index, pause in enumerate((0.5, 0.5, 12.0)):
                api.put(f"p{index}")
                await asyncio.sleep(pause)
                began = len(api.asked)
                api.tell(None)
                await asyncio.sleep(2)
                checks.append(sum(what == "list pods" for _, what, _ in api.asked[began:]))
            assert checks == [2, 0, 2]
            began = len(api.asked)
            api.tell(lost())
            await asyncio.sleep(2)
            assert sum(what == "list pods" for _, what, _ in api.asked[began:]) == 2

    virtual(story())


def test_a_watch_is_closed_with_its_count_and_duration() -> None:
    """Every open and close is itself told, with its cause, revisions, counts and duration."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            api.put("a")
            await asyncio.sleep(90)
            api.tell(lost())
            await asyncio.sleep(5)
            pods = [one for one in daemon.seen.messages if getattr(one, "resource", "") == "Pod"]
            [_, listed, opened, closed, again] = pods
            assert listed == ListCompleted("Pod", "100", 0)
            assert opened == WatchOpened(resource="Pod", resource_version="100")
            assert isinstance(closed, WatchClosed)
            assert (closed.cause, closed.resource_version, closed.count) == ("cut", "101", 1)
            assert 99 < closed.duration_ns / 1e9 < 101
            assert again == WatchOpened(resource="Pod", resource_version="101")

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
            assert len(daemon.seen.of(ObjectSeen)) == 3
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
            marks = daemon.seen.of(WatchProgressed)
            assert 6 <= len(marks) <= 7
            assert daemon.seen.of(ObjectSeen) == []

    virtual(story())
