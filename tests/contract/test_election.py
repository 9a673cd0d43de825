"""The election as candidates hold it, over HTTP, on each server (K14)."""

import asyncio
import re
import secrets
from collections.abc import AsyncIterator

import pytest

from daemon.clock import WallClock
from daemon.cluster.client.calls import LEASES
from daemon.cluster.client.credentials import Access
from daemon.cluster.client.http_client import Client
from daemon.cluster.lease import ApiLease
from daemon.leader import hold_term
from daemon.leadership import Elector, Timing
from tests.contract.served import Served
from tests.control_plane.api import MERGE, Object

QUICK = Timing(
    lease_seconds=2, renew_seconds=0.4, give_up_seconds=1.5, poll_seconds=0.3, try_seconds=1.0
)
MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


class Candidate:
    """A candidate with a client of its own."""

    def __init__(self, client: Client, namespace: str, name: str) -> None:
        self.client = client
        self.elector = Elector(
            ApiLease(client, namespace, "muster"),
            name,
            now_ns=WallClock().now_ns,
            jitter=secrets.SystemRandom().random,
            timing=QUICK,
        )
        self.leads = asyncio.Event()
        self.leaves = asyncio.Event()
        self.led: list[tuple[float, float]] = []
        """From when to when it led, on the one clock of this process."""
        self.lost = ""

    async def run(self) -> None:
        """One term, to its end in order or in disorder."""
        await self.elector.campaign()
        began = asyncio.get_running_loop().time()
        term = await hold_term(self.elector, self._lead)
        self.led.append((began, asyncio.get_running_loop().time()))
        self.lost = term.lost
        await self.elector.release()

    async def _lead(self) -> None:
        self.leads.set()
        await self.leaves.wait()


@pytest.fixture
async def candidates(server: Served) -> AsyncIterator[tuple[Candidate, Candidate]]:
    """Two of them."""
    jitter = secrets.SystemRandom().random
    clients = [
        await Client.connect(Access(server.kubeconfig), jitter, "muster/test") for _ in range(2)
    ]
    first, second = (
        Candidate(client, server.namespace, name)
        for client, name in zip(clients, ("first", "second"), strict=True)
    )
    yield first, second
    for client in clients:
        await client.close()


async def lease(server: Served) -> Object:
    path = LEASES.object_path("muster", server.namespace)
    found: Object = (await server.api.get(path)).expect(200)
    return found


async def test_a_leader_writes_what_k14_1_says(
    server: Served, candidates: tuple[Candidate, Candidate]
) -> None:
    """Holder, duration, times in UTC with six digits, and the labels of others left alone."""
    first, _ = candidates
    async with asyncio.timeout(20), asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        await first.leads.wait()
        path = LEASES.object_path("muster", server.namespace)
        labelled = await server.api.patch(path, {"metadata": {"labels": {"app": "x"}}}, MERGE)
        labelled.expect(200)
        before = (await lease(server))["spec"]
        await asyncio.sleep(4 * QUICK.renew_seconds)
        found = await lease(server)
        first.leaves.set()
    spec = found["spec"]
    assert first.lost == ""
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("first", 2)
    assert spec.get("leaseTransitions", 0) == 0
    assert MICRO.fullmatch(spec["renewTime"])
    assert before["acquireTime"] == spec["acquireTime"] <= before["renewTime"] < spec["renewTime"]
    assert found["metadata"]["labels"] == {"app": "x"}
    released = (await lease(server))["spec"]
    assert (released.get("holderIdentity", ""), released["leaseDurationSeconds"]) == ("", 1)


async def test_of_two_one_leads_and_the_other_follows_at_once_when_it_leaves(
    server: Served, candidates: tuple[Candidate, Candidate]
) -> None:
    """Rule K14.5"""
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        for one in candidates:
            tasks.create_task(one.run())
        waiting = [tasks.create_task(one.leads.wait()) for one in candidates]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.sleep(2 * QUICK.lease_seconds)
        leader, other = sorted(candidates, key=lambda one: not one.leads.is_set())
        assert not other.leads.is_set()
        leader.leaves.set()
        await other.leads.wait()
        other.leaves.set()
    ((_, ended),), ((began, _),) = leader.led, other.led
    assert 0 <= began - ended < 3
    assert (await lease(server))["spec"]["leaseTransitions"] == 1


async def test_a_leader_that_is_cut_off_stops_before_the_other_begins(
    server: Served, candidates: tuple[Candidate, Candidate]
) -> None:
    """Rules K14.2 and K14.4"""
    first, second = candidates
    async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
        tasks.create_task(first.run())
        await first.leads.wait()
        tasks.create_task(second.run())
        await asyncio.sleep(QUICK.lease_seconds)
        await first.client.close()
        await second.leads.wait()
        second.leaves.set()
    ((_, ended),), ((began, _),) = first.led, second.led
    assert "not renewed for 1.5 s" in first.lost
    assert ended < began
