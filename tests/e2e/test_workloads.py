"""What people hand to a cluster: a gang, a Deployment, an eviction under a budget, a queue with a quota."""

import asyncio

from projections.kinds.disruption_budget import BUDGETS
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from tests.control_plane.api import Object
from tests.control_plane.kubelet import FINISH
from tests.control_plane.manifests import GPU, budget, eviction
from tests.e2e.rig import PATIENCE_SECONDS, POLL_SECONDS, Rig, is_running, node_of, phase_of


async def test_the_gang_of_a_job_starts_whole_or_not_at_all(rig: Rig) -> None:
    """Rule K8.6"""
    await rig.add_nodes(1)
    daemon = await rig.started()
    await rig.group("gang", least=4)
    await rig.job("train", pods=4, cards=4, group="gang")
    await rig.until(lambda found: len(found) == 4, "train")
    alone = await rig.pod("alone", cards=8)
    found = await rig.until(lambda found: any(is_running(one) for one in found))
    assert [one["metadata"]["name"] for one in found if node_of(one)] == ["alone"]
    (await rig.api.delete(PODS.object_path("alone", rig.namespace))).expect(200)
    await rig.add_nodes(1, prefix="more")
    running = await rig.until_running(4, "train")
    assert sorted(map(node_of, running)).count(node_of(alone)) == 0
    assert len(set(map(node_of, running))) == 2
    path = POD_GROUPS.object_path("gang", rig.namespace)
    assert (await rig.api.get(path)).expect(200)["status"]["phase"] in ("Inqueue", "Running")
    for one in running:
        name = PODS.object_path(one["metadata"]["name"], rig.namespace)
        patch = {"metadata": {"annotations": {FINISH: "Succeeded"}}}
        (await rig.api.patch(name, patch)).expect(200)
    await rig.until(lambda found: {phase_of(one) for one in found} == {"Succeeded"}, "train")
    verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (5, {})
    assert rig.kubelet.rejected == []


async def test_a_deployment_grows_and_shrinks(rig: Rig) -> None:
    """Rule K10.3"""
    await rig.add_nodes(2)
    daemon = await rig.started()
    await rig.deployment("web", pods=4, cards=2)
    await rig.until_running(4, "web")
    await rig.scale("web", 8)
    await rig.until_running(8, "web")
    await rig.scale("web", 10)
    found = await rig.until(lambda found: sum(map(is_running, found)) == 8 and len(found) == 10)
    assert sum(not node_of(one) for one in found) == 2
    await rig.scale("web", 3)
    await rig.until_running(3, "web")
    await rig.scale("web", 6)
    await rig.until_running(6, "web")
    verdict = await rig.judged(daemon)
    assert verdict.refused == {}
    assert rig.kubelet.rejected == []


async def test_a_pending_pod_gets_its_condition_once(rig: Rig) -> None:
    """Rule K7.7"""
    await rig.add_nodes(1)
    daemon = await rig.started()
    await rig.pod("large", cards=9)

    def is_told(found: list[Object]) -> bool:
        return any("Unschedulable" in str(one["status"]) for one in found)

    (told,) = await rig.until(is_told)
    conditions = {one["type"]: one for one in told["status"]["conditions"]}
    assert conditions["PodScheduled"]["status"] == "False"
    assert conditions["PodScheduled"]["reason"] == "Unschedulable"
    assert "9" in conditions["PodScheduled"]["message"]
    for index in range(3):
        await rig.pod(f"small-{index}")
    await rig.until(lambda found: sum(map(is_running, found)) == 3)
    again = next(one for one in await rig.pods() if one["metadata"]["name"] == "large")
    assert again["metadata"]["resourceVersion"] == told["metadata"]["resourceVersion"]
    await rig.judged(daemon)


async def test_an_eviction_waits_for_the_budget_and_for_the_pod_that_takes_its_place(
    rig: Rig,
) -> None:
    """Rules K9.1, K9.2 and K9.6"""
    nodes = await rig.add_nodes(2, cards=2)
    daemon = await rig.started()
    await rig.api.create(BUDGETS, budget(rig.namespace, "web", {"app": "web"}, least=3))
    await rig.deployment("web", pods=4)
    first, second, *_ = await rig.until_running(4, "web")
    await rig.cordon(nodes)
    await rig.settle(daemon)
    await evict(rig, first)
    assert not await is_evicted(rig, second), "none may go while the first has no successor"
    await rig.cordon(nodes, is_closed=False)
    await evict(rig, second)
    gone = {one["metadata"]["uid"] for one in (first, second)}
    await rig.until(lambda found: gone.isdisjoint(one["metadata"]["uid"] for one in found), "web")
    await rig.until_running(4, "web")
    verdict = await rig.judged(daemon)
    assert (verdict.bound, verdict.refused) == (6, {})
    assert rig.kubelet.rejected == []


async def evict(rig: Rig, pod: Object) -> None:
    """Ask for an eviction until the budget allows it."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await is_evicted(rig, pod):  # noqa: ASYNC110 - only the server knows when
            await asyncio.sleep(POLL_SECONDS)


async def is_evicted(rig: Rig, pod: Object) -> bool:
    """Ask for an eviction once: whether the budget allows it."""
    path = PODS.object_path(pod["metadata"]["name"], rig.namespace, "eviction")
    answer = await rig.api.post(path, eviction(pod))
    answer.expect(200, 201, 429)
    return answer.status != 429


async def test_a_queue_holds_back_what_is_over_its_quota(rig: Rig) -> None:
    await rig.add_nodes(2)
    daemon = await rig.started()
    queue = f"queue-{rig.namespace}"
    await rig.queue(queue, gpus=4)
    for name in ("first", "second"):
        await rig.group(name, least=2, queue=queue)
        await rig.job(name, pods=2, cards=2, group=name, product=GPU)
        await rig.until(lambda found: len(found) == 2, name)
        if name == "first":
            await rig.until_running(2, "first")
    await rig.settle(daemon)
    assert not any(node_of(one) for one in await rig.pods("second"))
    for one in await rig.pods("first"):
        path = PODS.object_path(one["metadata"]["name"], rig.namespace)
        patch = {"metadata": {"annotations": {FINISH: "Succeeded"}}}
        (await rig.api.patch(path, patch)).expect(200)
    await rig.until_running(2, "second")
    await rig.judged(daemon)
