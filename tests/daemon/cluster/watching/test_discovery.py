"""What the server is and serves (K19), and kinds that come and go."""

import asyncio

import pytest

from daemon.cluster.client.calls import WATCHED
from daemon.cluster.client.errors import NotFoundError, ServerError
from daemon.cluster.watching.discovery import FEATURES, discover, features
from daemon.cluster.watching.rate_limit import RateLimit
from daemon.cluster.watching.watch_event import UnreadableEventError
from events.messages import ListCompleted
from events.watch import ServerDiscovered
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from projections.kinds.priority_class import PRIORITY_CLASSES
from projections.kinds.volcano_queue import QUEUES
from tests.daemon.cluster.watching.api import BASIC, Api
from tests.daemon.cluster.watching.builders import middling, running
from tests.daemon.cluster.watching.virtual import virtual

WITH_QUEUES = (NODES, PRIORITY_CLASSES, QUEUES, PODS)


def test_version_and_discovery_are_reported_first_and_requested_once() -> None:
    """K19: at start read /version and API discovery once, log them as an event."""

    async def story() -> None:
        api = Api(WITH_QUEUES)
        async with running(api, resources=WITH_QUEUES) as daemon:
            first = daemon.seen.messages[0]
            assert isinstance(first, ServerDiscovered)
            assert first.version == "v1.34.4"
            assert "scheduling.volcano.sh/v1beta1/queues" in first.served
            assert "v1/pods" in first.served
            assert first.served == tuple(sorted(first.served))
            daemon.seen.objects.clear()
            daemon.seen.progress.clear()
            daemon.again({})
            await asyncio.sleep(5)
            assert len(api.requests("get /version")) == 1
            assert daemon.seen.of(ServerDiscovered) == [first, first]

    virtual(story())


def test_switches_follow_from_what_is_served_and_not_from_the_version() -> None:
    """K19: derive the feature switches from discovery, not from the version number."""
    api = Api(WATCHED)
    found = virtual(discover(api, RateLimit(middling)))
    assert features(found.served) == (
        "volcano_queues",
        "volcano_pod_groups",
        "volcano_jobs",
        "hyper_nodes",
    )
    assert features(FEATURES.values()) == tuple(FEATURES)
    assert features(()) == ()


def test_a_group_that_goes_while_it_is_asked_for_is_left_out() -> None:
    api = Api(WITH_QUEUES)
    gone = NotFoundError("get", 404)
    api.spoil = lambda what, query: gone if what.endswith("volcano.sh/v1beta1") else None
    found = virtual(discover(api, RateLimit(middling)))
    assert found.served == ("scheduling.k8s.io/v1/priorityclasses", "v1/nodes", "v1/pods")


def test_what_is_no_discovery_is_named_so() -> None:
    api = Api()
    api.spoil = lambda what, query: b"<html>"
    with pytest.raises(UnreadableEventError, match="/version: not what"):
        virtual(discover(api, RateLimit(middling)))


def test_trouble_with_discovery_does_not_hold_back_the_lists() -> None:
    async def story() -> None:
        api = Api()
        api.put("a")
        failed = ServerError("get", 500)
        api.spoil = lambda what, query: failed if what.startswith("get") else None
        async with running(api) as daemon:
            assert daemon.seen.names() == {"a"}
            assert daemon.seen.of(ServerDiscovered) == []
            api.spoil = lambda what, query: None
            await asyncio.sleep(31)
            assert len(daemon.seen.of(ServerDiscovered)) == 1

    virtual(story())


def test_a_kind_that_is_not_served_is_absent_until_it_is() -> None:
    """A kind whose definition is not installed is absent; it may be installed at run time."""

    async def story() -> None:
        api = Api()
        async with running(api, resources=WITH_QUEUES) as daemon:
            assert ListCompleted("Queue", "", 0, served=False) in daemon.seen.messages
            assert daemon.health("Queue").state == "absent"
            assert daemon.health("Queue").is_listed
            asked = len(api.requests("list queues"))
            await asyncio.sleep(600)
            assert 18 <= len(api.requests("list queues")) - asked <= 20
            assert daemon.seen.lists.count("Queue") == 1
            api.served.append(QUEUES)
            api.put("research", QUEUES)
            await asyncio.sleep(34)
            assert daemon.seen.names("Queue") == {"research"}
            assert daemon.health("Queue").state == "watching"
            api.put("other", QUEUES)
            await asyncio.sleep(1)
            assert daemon.seen.names("Queue") == {"research", "other"}

    virtual(story())


def test_a_kind_that_is_no_longer_served_is_reported_as_absent() -> None:
    """A served kind whose CRD is deleted answers 404, and its objects are gone."""

    async def story() -> None:
        api = Api(WITH_QUEUES)
        api.put("research", QUEUES)
        async with running(api, resources=WITH_QUEUES) as daemon:
            api.served.remove(QUEUES)
            api.objects.pop("Queue")
            api.send(QUEUES, None)
            await asyncio.sleep(10)
            assert daemon.seen.names("Queue") == set()
            assert daemon.seen.messages[-1] == ListCompleted("Queue", "", 0, served=False)
            assert daemon.health("Queue").state == "absent"

    virtual(story())


def test_a_404_that_discovery_contradicts_takes_nothing_away() -> None:
    """A proxy that answers 404 to everything must not make all queues count as deleted."""

    async def story() -> None:
        api = Api(WITH_QUEUES)
        api.put("research", QUEUES)
        async with running(api, resources=WITH_QUEUES) as daemon:
            missing = NotFoundError("watch queues", 404, message="404 page not found")
            api.spoil = lambda what, query: missing if what.endswith("queues") else None
            api.send(QUEUES, None)
            await asyncio.sleep(60)
            assert daemon.seen.names("Queue") == {"research"}
            assert daemon.health("Queue").state == "waiting"
            api.spoil = lambda what, query: missing
            await asyncio.sleep(60)
            assert daemon.seen.names("Queue") == {"research"}
            assert daemon.seen.lists.count("Queue") == 1
            api.spoil = lambda what, query: None
            api.put("other", QUEUES)
            await asyncio.sleep(31)
            assert daemon.seen.names("Queue") == {"research", "other"}

    virtual(story())


def test_what_every_cluster_has_is_never_absent() -> None:
    """The required kinds are nodes, priority classes and pods."""

    async def story() -> None:
        api = Api(())
        async with running(api, resources=BASIC) as daemon:
            assert daemon.seen.of(ListCompleted) == []
            assert {one.state for one in daemon.watches.health()} == {"waiting"}
            assert not any(one.is_listed for one in daemon.watches.health())

    virtual(story())
