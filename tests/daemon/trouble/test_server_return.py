"""A server that was away and comes back: the outcome of earlier requests is read, and pods are bound soon."""

import asyncio

import pytest

from daemon.settings import Settings
from events.normalize import JsonObject
from events.outcome import BindFailed, EvictionFailed, PodBound
from events.watch import ForeignPodPlaced
from simulator.api_server.faults import Fault, FaultKind
from tests.daemon.trouble.rig import MERGE, PODS, Given, StartTrial
from tests.storm.over_http.hurry import hurriedly

DEDICATED = """\
cluster:
  - kind: Node
    metadata: {name: n1, labels: {muster.sh/dedicated: ""}}
    status: {allocatable: {cpu: 8, pods: 20}}
"""
BINDING = ("create", "pods/binding")
SOON_SECONDS = 3.0
"""After the server's return, what waited for it is done."""


@pytest.mark.parametrize("refusals", [1, 4])
@hurriedly
async def test_a_refusal_after_a_lost_answer_is_not_final(
    trouble: StartTrial, refusals: int
) -> None:
    """K8, outcome unknown: the server that comes back refuses everything until it has read its roles."""
    async with trouble(Given(text=DEDICATED)) as one:
        one.pod("before")
        one.pod("lost")
        await one.until_bound("before")
        one.pod("after")
        one.faults.add(Fault(FaultKind.LOSE), *BINDING)
        one.faults.add(Fault(FaultKind.FORBID), *BINDING, times=refusals)
        one.faults.add(Fault(FaultKind.FORBID), "get", "pods", times=refusals)
        await one.until_bound("lost", "after")
        await one.until(lambda: len(one.events(PodBound)) == 3, SOON_SECONDS * 4)
        assert one.events(BindFailed) == []
        assert one.events(ForeignPodPlaced) == []


@hurriedly
async def test_a_refusal_in_quiet_times_is_believed_at_once(trouble: StartTrial) -> None:
    async with trouble() as one:
        one.pod("before")
        await one.until_bound("before")
        await asyncio.sleep(60)
        one.faults.add(Fault(FaultKind.FORBID), *BINDING)
        one.pod("a")
        await one.until_bound("a")
        assert [event.code for event in one.events(BindFailed)] == ["Forbidden"]


@pytest.mark.parametrize("seconds", [5, 90])
@hurriedly
async def test_what_waits_for_the_server_is_done_soon_after_its_return(
    trouble: StartTrial, seconds: int
) -> None:
    """Back-off keeps a server that is down from being asked; it is no reason to wait for one that is up."""
    settings = Settings(listen="", log="memory:", leader_elect=False)
    async with trouble(Given(settings=settings)) as one:
        one.pod("before")
        await one.until_bound("before")
        one.faults.at(*BINDING, lambda: asyncio.get_running_loop().create_task(away()))

        async def away() -> None:
            await one.server.go_down()

        for index in range(4):
            one.pod(f"p{index}")
        await one.until(lambda: one.reasons or one.state.commitments)
        await asyncio.sleep(seconds)
        one.pod("unseen")
        await one.server.go_up()
        one.faults.add(Fault(FaultKind.FORBID), times=20)
        waiting = [f"p{index}" for index in range(4)] + ["unseen"]
        await one.until(
            lambda: all(one.node_of(name) for name in waiting), seconds=3 * SOON_SECONDS
        )
        assert one.events(BindFailed) == []


@hurriedly
async def test_an_eviction_whose_answer_was_lost_is_not_refused_by_a_server_that_comes_back(
    trouble: StartTrial,
) -> None:
    text = """\
policy:
  actions: "allocate, preempt"
  tiers:
    - plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: predicates}, {name: capacity}]
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 1, pods: 20}}}
  - {kind: PriorityClass, metadata: {name: high}, value: 100}
  - {kind: PodGroup, metadata: {name: low}, spec: {minMember: 1}}
  - {kind: PodGroup, metadata: {name: high}, spec: {minMember: 1, priorityClassName: high}}
"""
    async with trouble(Given(text=text)) as one:
        one.pod("low", group="low")
        await one.until_bound("low")
        slow: JsonObject = {"metadata": {"annotations": {"muster.sh/stop-seconds": "20"}}}
        one.ask("PATCH", f"{PODS}/low", slow, MERGE)
        one.faults.add(Fault(FaultKind.LOSE), "create", "pods/eviction")
        one.faults.add(Fault(FaultKind.FORBID), "create", "pods/eviction", times=2)
        one.faults.add(Fault(FaultKind.FORBID), "get", "pods", times=2)
        one.pod("high", group="high", priorityClassName="high")
        await one.until_bound("high")
        assert one.events(EvictionFailed) == []
