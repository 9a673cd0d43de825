"""Two daemons on one log in PostgreSQL: one leads, the other stands by (rule K14)."""

import asyncio
from collections.abc import Iterator
from typing import Final

import pytest

from daemon.cluster.client.calls import LEASES
from tests.control_plane.api import Object
from tests.control_plane.setup import NAMESPACE
from tests.e2e.daemon import Daemon
from tests.e2e.rig import Rig, is_running
from tests.integration.postgres.conftest import execute, started
from tests.integration.postgres.server import Server

pytestmark = pytest.mark.postgres

LEASE_SECONDS: Final = 15
TAKE_OVER_SECONDS: Final = 3.0
"""Beyond the time that the Lease has left."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    """A server for the log."""
    server = started()
    yield server
    server.close()


@pytest.fixture
async def pair(rig: Rig, postgres: Server) -> tuple[Daemon, Daemon]:
    """One that leads, and one that stands by."""
    await execute(postgres, f'CREATE DATABASE "{rig.namespace}"')
    log = postgres.url(rig.namespace)
    leader, standby = (rig.daemon(log=log, lease_seconds=LEASE_SECONDS) for _ in range(2))
    await leader.start()
    await leader.until_ready("leader")
    await standby.start()
    await standby.until_ready("standby")
    return leader, standby


def now() -> float:
    """Seconds on a clock that only goes forward."""
    return asyncio.get_running_loop().time()


async def lease(rig: Rig) -> Object:
    """The Lease as it is."""
    path = LEASES.object_path("muster", NAMESPACE)
    spec: Object = (await rig.api.get(path)).expect(200)["spec"]
    return spec


async def test_a_killed_leader_is_followed_when_its_lease_is_over(
    rig: Rig, pair: tuple[Daemon, Daemon]
) -> None:
    """Rules K14.2 and K14.6: within the duration of the Lease and three seconds, and not sooner."""
    leader, standby = pair
    await rig.add_nodes(5)
    before = await lease(rig)
    await rig.deployment("web", pods=10)
    await rig.until(lambda found: sum(map(is_running, found)) >= 2)
    await leader.kill()
    killed = now()
    last = await lease(rig)
    await rig.scale("web", 20)
    await standby.until_ready("leader")
    taken_over = now() - killed
    await rig.until_running(20, "web")
    bound = now() - killed
    assert bound < LEASE_SECONDS + TAKE_OVER_SECONDS, (taken_over, bound)
    after = await lease(rig)
    assert after["holderIdentity"] not in ("", last["holderIdentity"])
    assert after["leaseTransitions"] == before["leaseTransitions"] + 1
    verdict = await rig.judged(standby)
    assert (verdict.bound, verdict.refused, verdict.epoch) == (20, {}, 2)
    assert rig.kubelet.rejected == []


async def test_a_leader_that_leaves_in_order_is_followed_at_once(
    rig: Rig, pair: tuple[Daemon, Daemon]
) -> None:
    """Rule K14.5"""
    leader, standby = pair
    await rig.add_nodes(2)
    await rig.deployment("web", pods=3)
    await rig.until_running(3, "web")
    await leader.stop()
    left = now()
    await rig.scale("web", 6)
    await rig.until_running(6, "web")
    assert now() - left < TAKE_OVER_SECONDS
    verdict = await rig.judged(standby)
    assert (verdict.bound, verdict.refused, verdict.epoch) == (6, {}, 2)


async def test_a_leader_that_was_paused_does_nothing_more(
    rig: Rig, pair: tuple[Daemon, Daemon]
) -> None:
    """Rules K14.4 and K14.6: the log fences it, whatever it believes."""
    leader, standby = pair
    await rig.add_nodes(4)
    await rig.deployment("web", pods=6)
    await rig.until(lambda found: sum(map(is_running, found)) >= 1)
    leader.pause()
    try:
        await rig.scale("web", 12)
        await standby.until_ready("leader")
        await rig.until_running(12, "web")
    finally:
        leader.resume()
    await rig.scale("web", 18)
    await rig.until_running(18, "web")
    await leader.until_ready("standby")
    verdict = await rig.judged(standby, leader)
    assert (verdict.bound, verdict.refused) == (18, {})
    assert rig.kubelet.rejected == []
