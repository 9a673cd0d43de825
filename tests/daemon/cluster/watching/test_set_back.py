"""A server whose data is set back to an older snapshot: noticed, told as a gap, and listed from the beginning."""

import asyncio
from collections.abc import Callable

import pytest

from daemon.cluster.client.errors import ExpiredError
from daemon.cluster.watching.audit import FULL_LIST_FIRST_SECONDS, FULL_LIST_SECONDS
from daemon.cluster.watching.reflector import SILENT_SECONDS
from events.messages import (
    FullListEnded,
    FullListPage,
    FullListStarted,
    ObjectRevision,
    ObjectSeen,
    ResumePoint,
)
from events.watch import WENT_BACK, WatchClosed, WatchOpened
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from tests.daemon.cluster.watching.api import BASIC, Api, lost
from tests.daemon.cluster.watching.builders import Daemon, running
from tests.daemon.cluster.watching.virtual import virtual

KINDS = [one.name for one in BASIC]


def gaps(daemon: Daemon) -> list[tuple[str, str]]:
    """Kind and cause of each gap."""
    closed = daemon.seen.of(WatchClosed)
    return [(one.resource, one.cause) for one in closed if one.has_gap]


def test_a_watch_that_is_opened_again_is_not_trusted() -> None:
    """Also where the server has passed our revision by then: what changed last is not there."""

    async def story() -> None:
        api = Api()
        api.put("old")
        async with running(api) as daemon:
            kept = api.snapshot()
            api.put("phantom")
            await asyncio.sleep(1)
            for resource in BASIC:
                api.send(resource, lost())
            api.restore(kept)
            for name in ("real", "real-2", "real-3"):
                api.put(name)
            await asyncio.sleep(5)
            assert daemon.seen.names() == {"old", "real", "real-2", "real-3"}
            assert sorted(gaps(daemon)) == [(kind, WENT_BACK) for kind in sorted(KINDS)]
            assert daemon.seen.lists == KINDS * 2
            assert daemon.health().is_listed
            api.put("later")
            await asyncio.sleep(1)
            assert "later" in daemon.seen.names()

    virtual(story())


def test_a_watch_that_stays_open_and_silent_is_asked_about() -> None:
    """An etcd that is restored beneath a running API server."""

    async def story() -> None:
        api = Api()
        api.put("old")
        async with running(api) as daemon:
            await asyncio.sleep(1)
            kept = api.snapshot()
            api.put("phantom")
            await asyncio.sleep(1)
            api.restore(kept)
            assert not gaps(daemon)
            await asyncio.sleep(2 * SILENT_SECONDS)
            assert len(gaps(daemon)) == len(KINDS)
            assert daemon.seen.names() == {"old"}

    virtual(story())


def test_a_doubt_that_comes_from_elsewhere_is_looked_into_at_once() -> None:
    async def story() -> None:
        api = Api()
        async with running(api) as daemon:
            kept = api.snapshot()
            api.put("phantom")
            await asyncio.sleep(1)
            daemon.watches.doubt("nothing")
            await asyncio.sleep(1)
            assert not gaps(daemon)
            api.restore(kept)
            daemon.watches.doubt("a Lease is older")
            await asyncio.sleep(5)
            assert len(gaps(daemon)) == len(KINDS)
            assert daemon.seen.names() == set()

    virtual(story())


def phantom(api: Api, *, is_gone: bool = False) -> ResumePoint:
    """As the log has it, of a pod that a restored server does not have, or has again."""
    pod = api.put("phantom")["metadata"]
    known = ObjectRevision("default", "phantom", pod["uid"], pod["resourceVersion"], is_gone)
    return ResumePoint(str(api.revision), (known,))


def test_a_server_that_passed_the_revision_while_the_daemon_was_away_is_found_out() -> None:
    async def story() -> None:
        api = Api()
        kept = api.snapshot()
        progress = {**dict.fromkeys(KINDS, ResumePoint("100")), "Pod": phantom(api)}
        api.restore(kept)
        for index in range(5):
            api.put(f"real-{index}")
        async with running(api) as daemon:
            daemon.seen.lists.clear()
            daemon.seen.messages.clear()
            daemon.watches.resume_from(progress)
            await asyncio.sleep(5)
            assert not [
                one
                for one in daemon.seen.of(WatchOpened)
                if one.resource == "Pod" and one.is_resumed
            ]
            assert daemon.seen.names() == {f"real-{index}" for index in range(5)}
            assert set(daemon.seen.lists) == set(KINDS)

    virtual(story())


def changed(api: Api) -> None:
    api.put("phantom")


def deleted(api: Api) -> None:
    api.delete("phantom")


def remade(api: Api) -> None:
    api.delete("phantom")
    api.put("phantom")


@pytest.mark.parametrize("happens", [changed, deleted, remade])
def test_what_happened_since_is_no_sign_of_another_history(happens: Callable[[Api], None]) -> None:
    async def story() -> None:
        api = Api()
        progress = {**dict.fromkeys(KINDS, ResumePoint("100")), "Pod": phantom(api)}
        happens(api)
        async with running(api) as daemon:
            daemon.seen.messages.clear()
            daemon.watches.resume_from(progress)
            daemon.seen.progress["Pod"] = "101"
            daemon.seen.objects.clear()
            daemon.seen.lists.clear()
            await asyncio.sleep(5)
            assert not gaps(daemon)
            assert daemon.seen.lists == []

    virtual(story())


@pytest.mark.parametrize(
    ("happens", "causes"), [(changed, []), (deleted, ["expired"]), (remade, ["expired"])]
)
def test_where_the_revision_is_no_longer_kept_doubt_is_a_gap(
    happens: Callable[[Api], None], causes: list[str]
) -> None:
    """The API server may still serve a watch from its cache when etcd has compacted the revision."""

    async def story() -> None:
        api = Api()
        progress = {**dict.fromkeys(KINDS, ResumePoint("100")), "Pod": phantom(api)}
        happens(api)

        def spoil(what: str, query: object) -> ExpiredError | None:
            return ExpiredError(what, 410, "Expired") if "Exact" in str(query) else None

        api.spoil = spoil
        async with running(api) as daemon:
            daemon.seen.messages.clear()
            daemon.watches.resume_from(progress)
            daemon.seen.progress["Pod"] = "101"
            daemon.seen.objects.clear()
            daemon.seen.lists.clear()
            await asyncio.sleep(5)
            assert [cause for _, cause in gaps(daemon)] == causes

    virtual(story())


def test_every_kind_is_listed_whole_beside_its_watch_after_a_start_and_then_each_hour() -> None:
    async def story() -> None:
        api = Api()
        for index in range(1200):
            api.put(f"p{index}")
        api.put("n", NODES)
        async with running(api) as daemon:
            daemon.seen.messages.clear()
            await asyncio.sleep(FULL_LIST_FIRST_SECONDS)
            assert [one.resource for one in daemon.seen.of(FullListStarted)] == KINDS
            assert all(one.is_whole for one in daemon.seen.of(FullListEnded))
            pages = [one for one in daemon.seen.of(FullListPage) if one.resource == "Pod"]
            assert [len(one.raws) for one in pages] == [500, 500, 200]
            assert daemon.seen.closed() == [("ended", False)]
            await asyncio.sleep(FULL_LIST_SECONDS)
            assert [one.resource for one in daemon.seen.of(FullListStarted)] == KINDS * 2
            assert daemon.seen.of(ObjectSeen) == []

    virtual(story())


def test_a_full_list_is_of_what_had_been_handed_over_when_it_began() -> None:
    async def story() -> None:
        api = Api()
        api.put("a")
        async with running(api) as daemon:
            daemon.seen.messages.clear()

            def spoil(what: str, query: object) -> None:
                if what == "list pods" and "Exact" in str(query) and "field" not in str(query):
                    api.put("meanwhile", PODS)

            api.spoil = spoil
            await asyncio.sleep(FULL_LIST_FIRST_SECONDS)
            [began] = [one for one in daemon.seen.of(FullListStarted) if one.resource == "Pod"]
            [page] = [one for one in daemon.seen.of(FullListPage) if one.resource == "Pod"]
            assert began.resource_version == "101"
            assert [b'"name": "a"' in raw for raw in page.raws] == [True]
            shown = daemon.seen.of(ObjectSeen)
            assert daemon.seen.messages.index(began) < daemon.seen.messages.index(shown[0])

    virtual(story())
