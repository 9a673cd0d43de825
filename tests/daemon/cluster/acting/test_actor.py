"""The actor: each request to its effect, and nothing raised for the server's sake."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from msgspec.structs import replace

from daemon.cluster.acting.actor import Actor
from daemon.cluster.acting.evicting import EvictionBudget
from daemon.cluster.acting.request_budget import SHORTEST_REQUEST_SECONDS, Pacing
from daemon.cluster.client.errors import BudgetError, UnansweredError
from events.errors import ClusterError
from events.messages import (
    Accepted,
    BindRequest,
    EvictRequest,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Rejected,
    Request,
)
from tests.daemon.cluster.acting.scripted import STATUS, Scripted, Time, pacing, pod, said
from tests.daemon.cluster.client.builders import talking

BIND = BindRequest(decision=7, namespace="default", name="a", uid="u1", node="n1")
EVICT = EvictRequest(
    decision=7, namespace="default", name="a", uid="u1", node="n1", workload="owner"
)
CONDITION = PodConditionRequest(
    decision=7, namespace="default", name="a", uid="u1", reason="Unschedulable", message="m"
)
PHASE = PodGroupPhaseRequest(decision=7, namespace="default", name="g", uid="u2", phase="Inqueue")
GROUP = PodGroupConditionRequest(
    decision=7, namespace="default", name="g", uid="u2", type="Scheduled", reason="r", message="m"
)
QUEUE = QueueStatusRequest(decision=7, name="q", uid="u2", allocated={})

LOST = UnansweredError("the connection was lost")


def actor(client: Scripted, budget: EvictionBudget | None = None) -> Actor:
    return Actor(client, pacing(Time()), lambda: 0, budget)


@pytest.mark.parametrize(
    ("request_", "whats", "name"),
    [
        (BIND, ["create pods/binding"], "a"),
        (EVICT, ["create pods/eviction"], "a"),
        (replace(EVICT, is_without_budgets=True), ["delete pods"], "a"),
        (CONDITION, ["patch pods/status"], "a"),
        (PHASE, ["get podgroups", "patch podgroups/status"], "g"),
        (GROUP, ["get podgroups", "patch podgroups/status"], "g"),
        (QUEUE, ["get queues", "patch queues/status"], "q"),
    ],
)
async def test_each_request_has_its_effect(request_: Request, whats: list[str], name: str) -> None:
    client = Scripted(b'{"metadata":{"uid":"u2"}}', repeats=True)
    assert await actor(client).perform(request_) == Accepted()
    assert client.whats == whats
    namespaces = {one.namespace for one in client.asked}
    assert namespaces == {"" if request_ is QUEUE else "default"}
    assert {one.name for one in client.asked} == {name}


async def test_attempts_are_counted() -> None:
    client = Scripted(LOST, pod(), LOST, pod(), STATUS)
    assert await actor(client).attempt(BIND) == (Accepted(), 5)


class Broken(Scripted):
    """A client that raises an unexpected error."""

    async def request(self, *_: object, **__: object) -> bytes:
        raise ClusterError("the kubeconfig names a program that is not there")


@pytest.mark.parametrize("request_", [BIND, EVICT, CONDITION, PHASE, GROUP, QUEUE])
async def test_no_error_of_the_cluster_leaves_the_actor(request_: Request) -> None:
    reply = await actor(Broken()).perform(request_)
    assert reply == OutcomeUnknown("the kubeconfig names a program that is not there")


async def test_evictions_have_a_budget_of_our_own_that_a_refusal_does_not_use_up_k9_8() -> None:
    refused = said(BudgetError, 429, "TooManyRequests", "no")
    client = Scripted(refused, STATUS)
    acting = actor(client, EvictionBudget(cluster_per_minute=1, workload_per_minute=1))
    other = replace(EVICT, decision=8, name="b", uid="u9")
    third = replace(EVICT, decision=9, name="c", uid="u8")
    first = await acting.perform(EVICT)
    assert isinstance(first, Rejected)
    assert first.code == "DisruptionBudget"
    assert await acting.perform(other) == Accepted()
    last = await acting.perform(third)
    assert isinstance(last, Rejected)
    assert last.code == "EvictionBudget"
    assert len(client.asked) == 2


async def test_deletions_without_budgets_count_among_the_evictions_of_a_minute() -> None:
    acting = actor(Scripted(STATUS, STATUS), EvictionBudget(1, workload_per_minute=1))
    first = replace(EVICT, is_without_budgets=True)
    assert await acting.perform(first) == Accepted()
    second = await acting.perform(replace(first, decision=8, name="b", uid="u9"))
    assert isinstance(second, Rejected)
    assert second.code == "EvictionBudget"


async def test_evictions_of_one_owners_pods_are_counted_together_k9_8() -> None:
    acting = actor(Scripted(STATUS, STATUS), EvictionBudget(9, workload_per_minute=1))
    assert await acting.perform(EVICT) == Accepted()
    sibling = await acting.perform(replace(EVICT, decision=8, name="b", uid="u9"))
    assert isinstance(sibling, Rejected)
    assert "1 evictions a minute of owner" in sibling.message
    assert await acting.perform(replace(EVICT, uid="u8", workload="another")) == Accepted()


@pytest.mark.parametrize("request_", [BIND, EVICT, CONDITION, PHASE, GROUP, QUEUE])
async def test_a_server_that_never_answers_is_not_waited_for_beyond_the_time_of_an_effect(
    request_: Request, tmp_path: Path
) -> None:
    """Nothing else bounds how long an effect takes."""
    never = asyncio.Event()

    async def wait(_: web.BaseRequest) -> web.Response:
        await never.wait()
        return web.json_response({})

    async with talking(wait, tmp_path) as client:
        loop = asyncio.get_running_loop()
        began = loop.time()
        times = Pacing(jitter=lambda: 0.0, elapsed_seconds=loop.time, effect_seconds=0.1)
        async with asyncio.timeout(10):
            reply, attempts = await Actor(client, times, lambda: 0).attempt(request_)
        assert isinstance(reply, OutcomeUnknown)
        assert "no answer in time" in reply.message or "read back" in reply.message
        assert attempts <= 2
        assert loop.time() - began < attempts * SHORTEST_REQUEST_SECONDS + 2
        never.set()
