"""What goes wrong beside a scheduler: nodes and pods that go, a rival, a server that is killed or forgets."""

import asyncio
from typing import Any, Final

import pytest

from projections.kinds.pod import PODS
from tests.control_plane.api import GONE, Object
from tests.control_plane.plane import ControlPlane
from tests.e2e.between import between
from tests.e2e.rig import PATIENCE_SECONDS, Rig, is_running, node_of, phase_of

SOON: Final[dict[str, Any]] = {"lease_seconds": 4, "renew_seconds": 0.5, "give_up_seconds": 3.0}
"""A Lease that is not long waited for."""


def plane_of(rig: Rig) -> ControlPlane:
    """A control plane that may be killed; a skip where the cluster is someone else's."""
    if rig.cluster.plane is None:
        pytest.skip("this cluster is not ours to kill")
    return rig.cluster.plane


async def test_a_recreated_node_is_another_node(rig: Rig) -> None:
    """Rules K6.8 and K1.1"""
    (name,) = await rig.add_nodes(1, cards=2)
    daemon = await rig.started()
    await rig.job("first", pods=2)
    await rig.until_running(2, "first")
    await rig.kubelet.remove(name)
    await rig.job("second", pods=2)
    await rig.until(lambda found: len(found) == 2, "second")
    await rig.settle(daemon)
    assert not any(node_of(one) for one in await rig.pods("second")), "the node is gone"
    await rig.kubelet.add(name, 4, {"muster.test/pool": rig.namespace})
    running = await rig.until_running(2, "second")
    assert {node_of(one) for one in running} == {name}
    verdict = await rig.judged(daemon)
    assert verdict.refused == {}
    assert rig.kubelet.rejected == []


async def test_a_pod_that_goes_between_decision_and_binding_is_let_go(rig: Rig) -> None:
    """Rule K8, 404: drop the assumption; what it would have held goes to another."""
    await rig.add_nodes(1, cards=1)
    async with between(rig.cluster.muster, rig.folder) as (one, kubeconfig):
        once = asyncio.Event()

        async def delete(path: str) -> None:
            if not once.is_set():
                once.set()
                (await rig.api.delete(path, {"gracePeriodSeconds": 0})).expect(200)

        one.before = delete
        daemon = await rig.started(kubeconfig=kubeconfig)
        await rig.pod("goes")
        await asyncio.wait_for(once.wait(), 30)
        await rig.pod("stays")
        (found,) = await rig.until_running(1)
        assert found["metadata"]["name"] == "stays"
        assert one.statuses == [404, 201]
        verdict = await rig.judged(daemon)
    assert (verdict.bound, sum(verdict.refused.values())) == (1, 1)


async def test_a_pod_that_is_another_by_the_time_of_its_binding_is_not_bound_for_it(
    rig: Rig,
) -> None:
    """Rules K8.4 and K8, 409: the same name, another UID."""
    await rig.add_nodes(1, cards=2)
    async with between(rig.cluster.muster, rig.folder) as (one, kubeconfig):
        once = asyncio.Event()

        async def replace(path: str) -> None:
            if not once.is_set():
                once.set()
                (await rig.api.delete(path, {"gracePeriodSeconds": 0})).expect(200)
                await rig.pod("name", cards=2)

        one.before = replace
        daemon = await rig.started(kubeconfig=kubeconfig)
        await rig.pod("name", cards=1)
        await asyncio.wait_for(once.wait(), 30)
        await rig.until_running(1)
        assert one.statuses == [409, 201]
        verdict = await rig.judged(daemon)
    assert (verdict.bound, sum(verdict.refused.values())) == (1, 1)


async def test_an_answer_that_is_lost_is_found_out(rig: Rig) -> None:
    """Rule K8, outcome unknown: read the pod; it was bound by this very decision."""
    await rig.add_nodes(2)
    async with between(rig.cluster.muster, rig.folder) as (one, kubeconfig):
        one.loses_answers = 3
        daemon = await rig.started(kubeconfig=kubeconfig)
        await rig.group("gang", least=6)
        await rig.job("train", pods=6, cards=2, group="gang")
        await rig.until_running(6, "train")
        verdict = await rig.judged(daemon)
        assert one.loses_answers == 0
    assert (verdict.bound, verdict.refused) == (6, {})


async def test_a_refusal_after_a_lost_answer_is_not_final(rig: Rig) -> None:
    """The binding took effect, its answer was lost, and the server that comes back refuses everything at first."""
    await rig.add_nodes(2)
    async with between(rig.cluster.muster, rig.folder) as (one, kubeconfig):
        daemon = await rig.started(kubeconfig=kubeconfig)
        await rig.pod("before")
        await rig.until_running(1)
        one.loses_answers, one.forbids = 3, 9
        await rig.group("gang", least=6)
        await rig.job("train", pods=6, cards=2, group="gang")
        await rig.until_running(6, "train")
        verdict = await rig.judged(daemon)
        assert (one.loses_answers, one.forbids) == (0, 0)
    assert (verdict.bound, verdict.refused) == (7, {})
    assert "foreign_pod_placed.v1" not in verdict.kinds


async def test_a_second_scheduler_on_the_same_nodes_costs_no_pod_twice(rig: Rig) -> None:
    """Rules K7.6 and K5.12: the kubelet turns the loser away, and its owner makes another."""
    names = await rig.add_nodes(3, cards=4)
    daemon = await rig.started()

    async def rival() -> None:
        """Bind pods of its own to whatever node it likes, blind to all others."""
        for index in range(6):
            manifest = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"foreign-{index}", "namespace": rig.namespace},
                "spec": {
                    **rig.spec(1, schedulerName="rival"),
                    "nodeName": names[index % len(names)],
                },
            }
            await rig.api.create(PODS, manifest)
            await asyncio.sleep(0.02)

    await asyncio.gather(rival(), rig.deployment("web", pods=6))

    def are_settled(found: list[Object]) -> bool:
        ours = [one for one in found if one["spec"]["schedulerName"] == rig.scheduler]
        return sum(map(is_running, ours)) == 6

    found = await rig.until(are_settled)
    foreign = [one for one in found if one["spec"]["schedulerName"] == "rival"]
    assert all(phase_of(one) in ("Running", "Failed") for one in foreign)
    verdict = await rig.judged(daemon)
    assert verdict.kinds["foreign_pod_placed.v1"] == len(foreign) == 6


async def test_the_server_is_killed_in_the_middle_and_nothing_is_lost(rig: Rig) -> None:
    """Rules K3.6, K3.11 and K8: outcome unknown while it is away, found out when it is back."""
    plane = plane_of(rig)
    await rig.add_nodes(5)
    daemon = await rig.started()

    async def make() -> None:
        for index in range(40):
            while not await is_made(rig, f"pod-{index}"):  # noqa: ASYNC110 - the server is away
                await asyncio.sleep(0.01)

    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(make())
        for _ in range(2):
            await asyncio.sleep(0.15)
            await asyncio.to_thread(plane.kill_server)
            await asyncio.to_thread(plane.start_server)
    # A server that is only just back answers 403 for want of its roles: that must not cost a minute.
    await rig.until(lambda found: sum(map(is_running, found)) == 40, seconds=45)
    verdict = await rig.judged(daemon)
    assert verdict.bound == 40
    assert set(verdict.refused) <= {"Forbidden"}
    assert "foreign_pod_placed.v1" not in verdict.kinds
    assert rig.kubelet.rejected == []


async def is_made(rig: Rig, name: str) -> bool:
    """Ask for a pod; whether it is there, as it also is when the answer to asking before was lost."""
    try:
        await rig.pod(name)
    except GONE:
        return False
    except AssertionError as error:
        return "AlreadyExists" in str(error)
    return True


async def test_a_server_that_has_forgotten_is_listed_again(rig: Rig) -> None:
    """Rules K3.7, K2 and K4: 410 on every watch; what went unseen is found by the list."""
    plane = plane_of(rig)
    await rig.add_nodes(2)
    daemon = await rig.started()
    await rig.deployment("web", pods=4)
    await rig.until_running(4, "web")
    daemon.pause()
    try:
        await rig.scale("web", 2)
        await rig.pod("unseen", cards=2)
        await rig.until(lambda found: len(found) == 3)
        # The pods' last events may still reach the daemon: what is compacted must be newer than they are.
        await rig.queue("newer", gpus=1)
        await asyncio.to_thread(plane.kill_server)
        plane.compact()
        await asyncio.to_thread(plane.start_server)
    finally:
        daemon.resume()
    await rig.until_running(3)
    verdict = await rig.judged(daemon)
    assert verdict.refused == {}
    assert verdict.closes["expired"] >= 1, verdict.closes
    assert verdict.lists["Pod"] == 2


async def test_a_daemon_that_comes_back_goes_on_where_it_was(rig: Rig) -> None:
    """Rule K3.3: from the last revision in the log, without a list where the server still knows it."""
    await rig.add_nodes(2)
    daemon = await rig.started(None, **SOON)
    await rig.deployment("web", pods=4)
    await rig.until_running(4, "web")
    await daemon.kill()
    await rig.scale("web", 6)
    await rig.until(lambda found: len(found) == 6)
    await daemon.start()
    await daemon.until_ready()
    await rig.until_running(6, "web")
    verdict = await rig.judged(daemon)
    assert (verdict.starts, verdict.bound, verdict.refused) == (2, 6, {})
    assert verdict.lists["Pod"] == 1, "the server still knew"


async def test_a_daemon_may_begin_before_its_server(rig: Rig) -> None:
    """It waits, says for what, and decides when everything required is listed."""
    plane = plane_of(rig)
    await rig.add_nodes(1)
    await rig.pod("waits")
    await asyncio.to_thread(plane.kill_server)
    daemon = rig.daemon()
    await daemon.start()
    async with asyncio.timeout(30):
        while not (said := await daemon.readiness()).get("reasons"):  # noqa: ASYNC110 - of a process
            await asyncio.sleep(0.05)
    assert said["ready"] is False
    await asyncio.to_thread(plane.start_server)
    await rig.until(lambda found: all(map(is_running, found)), seconds=90)
    await daemon.until_ready()
    verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (1, {})
