"""Trouble between a decision and its effect: what it is about goes away at that very moment."""

import asyncio

from events.normalize import Json
from events.outcome import BindFailed, PodBound
from tests.daemon.trouble.rig import GROUPS, PODS, Given, StartTrial, pod
from tests.storm.over_http.hurry import hurriedly

TWO = """\
cluster:
  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 2, pods: 20}}}
  - {kind: Node, metadata: {name: n2}, status: {allocatable: {cpu: 2, pods: 20}}}
"""
BINDING = ("create", "pods/binding")


@hurriedly
async def test_a_namespace_that_terminates_takes_no_binding(trouble: StartTrial) -> None:
    """K8: 403 with a cause gives up the pod, which is deleted soon."""
    async with trouble() as one:
        one.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
        one.faults.at(*BINDING, lambda: one.ask("DELETE", "/api/v1/namespaces/gone"))
        slow = pod("a", "", "gone")
        one.ask("POST", PODS.replace("default", "gone"), slow)
        await one.until(lambda: one.events(BindFailed) or one.events(PodBound))
        await one.until(lambda: one.server.api.simulated.find("Namespace", "", "gone") is None)
        one.pod("b")
        await one.until_bound("b")


@hurriedly
async def test_a_node_that_goes_while_a_pod_is_bound_to_it_is_forgotten(
    trouble: StartTrial,
) -> None:
    """K8: the server takes the name of any node; what it did is what muster knows."""
    async with trouble(Given(text=TWO)) as one:
        gone: list[str] = []

        def remove() -> None:
            (name,) = one.decided_nodes("a")
            gone.append(name)
            one.ask("DELETE", f"/api/v1/nodes/{name}")

        one.faults.at(*BINDING, remove)
        one.pod("a")
        await one.until(lambda: one.events(PodBound))
        await asyncio.sleep(60)
        for name in ("b", "c"):
            one.pod(name)
        await one.until_bound("b", "c")
        assert gone[0] not in (one.node_of("b"), one.node_of("c"))


@hurriedly
async def test_a_pod_group_that_goes_while_its_gang_is_bound_leaves_no_half_gang(
    trouble: StartTrial,
) -> None:
    """K8.6: what was decided is carried out, all of it."""
    async with trouble(Given(text=TWO)) as one:
        one.faults.at(*BINDING, lambda: one.ask("DELETE", f"{GROUPS}/gang"))
        one.group("gang", minimum=4)
        names = [f"g{index}" for index in range(4)]
        for name in names:
            one.pod(name, group="gang")
        await one.until_bound(*names)
        assert len({event.uid for event in one.events(PodBound)}) == 4


@hurriedly
async def test_a_pod_that_goes_while_it_is_bound_is_let_go(trouble: StartTrial) -> None:
    """K8: 404 drops the assumption, and its room is free at once."""
    async with trouble(Given(text=TWO)) as one:
        one.faults.at(*BINDING, lambda: one.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0}))
        whole: Json = [{"name": "m", "resources": {"requests": {"cpu": "2"}}}]
        one.pod("a", containers=whole)
        await one.until(lambda: one.events(BindFailed))
        for name in ("b", "c"):
            one.pod(name, containers=whole)
        await one.until_bound("b", "c")


@hurriedly
async def test_a_pod_that_someone_else_bound_first_is_theirs(trouble: StartTrial) -> None:
    """K8: 409; the pod is where the other has put it."""
    async with trouble(Given(text=TWO)) as one:

        def rival() -> None:
            (name,) = {"n1", "n2"} - set(one.decided_nodes("a"))
            target: Json = {"apiVersion": "v1", "kind": "Node", "name": name}
            one.ask("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": target})
            one.others.add("a")

        one.faults.at(*BINDING, rival)
        one.pod("a")
        await one.until(lambda: one.events(BindFailed))
        assert one.node_of("a") not in one.decided_nodes("a")
