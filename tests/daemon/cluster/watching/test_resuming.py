"""Going on after a restart from what is durable (K3.3), if the server still has it (K3.7)."""

import asyncio

from daemon.cluster.client.errors import ExpiredError
from events.messages import ObjectSeen
from events.watch import WatchOpened
from projections.kinds.pod import PODS
from tests.daemon.cluster.watching.api import Api, line, status
from tests.daemon.cluster.watching.builders import running
from tests.daemon.cluster.watching.virtual import virtual

ALL = {"Node": "100", "PriorityClass": "100", "Pod": "100"}


def test_what_is_durable_is_not_listed_again() -> None:
    """K3.3: resumed from the last revision that is durable in the log."""

    async def story() -> None:
        api = Api()
        api.put("missed")
        async with running(api, ALL) as daemon:
            assert daemon.seen.lists == []
            assert daemon.seen.names() == {"missed"}
            [opened] = [one for one in daemon.seen.of(WatchOpened) if one.resource == "Pod"]
            assert opened == WatchOpened(resource="Pod", resource_version="100", is_resumed=True)
            assert daemon.seen.messages.index(opened) < daemon.seen.messages.index(
                daemon.seen.of(ObjectSeen)[0]
            )
            assert daemon.health().is_listed

    virtual(story())


def test_silence_is_consent_when_the_server_has_come_so_far() -> None:
    """A second without an error, and a list of one object that is not of an earlier revision."""

    async def story() -> None:
        api = Api()
        async with running(api, ALL) as daemon:
            opened = daemon.seen.of(WatchOpened)
            assert [one.resource for one in opened] == ["Node", "PriorityClass", "Pod"]
            assert all(one.is_resumed for one in opened)
            assert daemon.seen.lists == []
            assert api.requests("list pods") == [{"limit": "1"}]
            api.put("later")
            await asyncio.sleep(1)
            assert daemon.seen.names() == {"later"}
            api.tell(None)
            await asyncio.sleep(1)
            assert daemon.seen.of(WatchOpened)[-1] == WatchOpened(
                resource="Pod", resource_version="101"
            )

    virtual(story())


def test_a_revision_that_the_server_has_not_reached_is_a_gap() -> None:
    """K20: a watch from a revision in the future stays open and silent until its time-out."""

    async def story() -> None:
        api = Api()
        api.put("a")
        async with running(api, {**ALL, "Pod": "5000"}) as daemon:
            assert daemon.seen.closed() == [("revision_went_back", True)]
            assert daemon.seen.names() == {"a"}
            assert daemon.seen.lists == list(ALL), "nothing of that history is relied upon"

    virtual(story())


def test_an_expired_revision_is_not_reported_as_resumed() -> None:
    """K3.7: both shapes of 410 lead to a list."""

    async def story() -> None:
        api = Api()
        api.put("a")
        api.compact()

        def spoil(what: str, query: object) -> bytes | ExpiredError | None:
            if what == "watch pods" and "'100'" in str(query):
                return line("ERROR", status(410, "Expired"))
            return None

        api.spoil = spoil
        async with running(api, ALL) as daemon:
            assert daemon.seen.closed() == [("expired", True)]
            assert not any(one.is_resumed for one in daemon.seen.of(WatchOpened))
            assert daemon.seen.names() == {"a"}
            assert set(daemon.seen.lists) == set(ALL)

    virtual(story())


def test_a_watch_that_ends_before_its_first_event_is_not_reported_as_resumed() -> None:
    async def story() -> None:
        api = Api()
        api.spoil = lambda what, query: b"" if what.startswith("watch") else None
        async with running(api, ALL) as daemon:
            assert daemon.seen.of(WatchOpened) == []
            api.spoil = lambda what, query: None
            await asyncio.sleep(31)
            assert len(daemon.seen.of(WatchOpened)) == 3
            assert daemon.seen.lists == []

    virtual(story())


def test_kinds_without_progress_are_listed() -> None:
    async def story() -> None:
        api = Api()
        api.put("a")
        async with running(api, {"Node": "100"}) as daemon:
            assert daemon.seen.lists == ["PriorityClass", "Pod"]
            assert daemon.seen.names() == {"a"}

    virtual(story())


def test_the_loop_may_ask_at_any_time_to_be_shown_everything_since() -> None:
    """After trouble with the log, from what is durable there; what was on its way is thrown away."""

    async def story() -> None:
        api = Api()
        api.put("a")
        async with running(api) as daemon:
            api.put("b")
            await asyncio.sleep(1)
            api.put("c")
            daemon.seen.objects["Pod"] = {"u1": ("a", "101")}
            daemon.seen.progress["Pod"] = "101"
            daemon.again({"Node": "100", "PriorityClass": "100", "Pod": "101"})
            assert not daemon.health().is_listed or daemon.health().state == "watching"
            await asyncio.sleep(5)
            assert daemon.seen.names() == {"a", "b", "c"}
            assert daemon.seen.lists == []
            api.put("d", PODS)
            await asyncio.sleep(1)
            assert daemon.seen.names() == {"a", "b", "c", "d"}
            assert len(api.streams) == 3

    virtual(story())


def test_asking_again_and_again_does_not_ask_the_server_more_often() -> None:
    """K3.11: one budget per resource type, whatever happens."""

    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            for _ in range(300):
                daemon.again({})
                await asyncio.sleep(0.5)
            times = [at for at, what, _ in api.asked if what.endswith(" pods")]
            assert len(times) > 60
            assert all(later - at > 60 for at, later in zip(times, times[60:], strict=False))

    virtual(story())
