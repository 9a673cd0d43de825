"""Quotas of cards on a real API server: admission, messages, and a changed quota."""

import asyncio
import json
from collections.abc import Callable

from daemon.cluster.client.calls import EVENTS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from projections.kinds.workload import VOLCANO_JOBS
from tests.control_plane.api import Object
from tests.control_plane.manifests import GPU, GPU_NAME, pod_spec
from tests.control_plane.volcano_jobs import VolcanoJobs, group_name
from tests.e2e.rig import PATIENCE_SECONDS, POLL_SECONDS, POOL, Rig, is_running, node_of

CARD = {"volcano.sh/card.name": GPU_NAME}


async def group_until(rig: Rig, job: Object, is_so: Callable[[Object], bool]) -> Object:
    """The pod group of a Job, once it is there and is so."""
    path = POD_GROUPS.object_path(group_name(job), rig.namespace)
    found: Object = {}
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = (await rig.api.get(path)).expect(200, 404)
                if is_so(found):
                    return found
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"it never came so far: {found}") from None


async def until_noted(rig: Rig, made: Object, reason: str, text: str) -> Object:
    """An Event about an object, once there is one with this reason and text."""
    uid, found = made["metadata"]["uid"], []
    namespace = made["metadata"].get("namespace", "default")
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                events = await rig.api.items(EVENTS.collection_path(namespace))
                found = [one for one in events if one["regarding"].get("uid") == uid]
                for one in found:
                    if one["reason"] == reason and text in one["note"]:
                        return one
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        told = [(one["reason"], one["note"]) for one in found]
        raise AssertionError(f"no {reason} says {text!r}: {told}") from None


async def set_quota(rig: Rig, queue: str, quota: str) -> None:
    """Change what the queue may hold, to whatever text."""
    patch = {"metadata": {"annotations": {"volcano.sh/card.quota": quota}}}
    (await rig.api.patch(QUEUES.object_path(queue), patch)).expect(200)


def quota_of(cards: int) -> str:
    """A quota, as the annotation has it."""
    return json.dumps({GPU_NAME: cards})


async def volcano_job(rig: Rig, queue: str, pods: int) -> Object:
    """A Job of one-card pods, which says how many cards it will ask for."""
    template = {
        "metadata": {"annotations": CARD},
        "spec": pod_spec(cards=1, product=GPU, nodeSelector={POOL: rig.namespace}),
    }
    manifest = {
        "apiVersion": VOLCANO_JOBS.api_version,
        "kind": VOLCANO_JOBS.kind,
        "metadata": {
            "name": "train",
            "namespace": rig.namespace,
            "annotations": {"volcano.sh/card.request": quota_of(pods)},
        },
        "spec": {
            "minAvailable": pods,
            "schedulerName": rig.scheduler,
            "queue": queue,
            "tasks": [{"name": "w", "replicas": pods, "template": template}],
        },
    }
    template["spec"]["schedulerName"] = rig.scheduler
    return await rig.api.create(VOLCANO_JOBS, manifest)


async def test_a_job_above_quota_gets_a_pod_group_condition_before_it_has_pods(
    rig: Rig,
) -> None:
    """No pods exist, so the group says it; with a larger quota the job runs."""
    await rig.add_nodes(1)
    daemon = await rig.started()
    queue = f"queue-{rig.namespace}"
    await rig.queue(queue, gpus=3)
    async with VolcanoJobs(rig.api).at_work():
        job = await volcano_job(rig, queue, pods=5)
        text = (
            f"Queue <{queue}> has insufficient <{GPU_NAME}> quota: requested <5000>, "
            "total would be <5000>, but capability is <3000>"
        )
        group = await group_until(rig, job, lambda one: text in str(one.get("status")))
        event = await until_noted(rig, group, "InsufficientScalarQuota", text)
        assert event["note"] == text
        assert (event["type"], event["reportingController"]) == ("Warning", "volcano.capacity-card")
        assert group["status"]["phase"] == "Pending"
        (condition,) = group["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("Unschedulable", "NotEnoughResources")
        assert await rig.pods() == []
        await set_quota(rig, queue, quota_of(5))
        await rig.until_running(5)
    await rig.judged(daemon)


async def test_a_deployment_scales_up_to_its_quota_and_releases_it_when_scaled_down(
    rig: Rig,
) -> None:
    """The pod beyond the quota waits and says why, running pods stay."""
    await rig.add_nodes(1)
    daemon = await rig.started()
    queue = f"queue-{rig.namespace}"
    await rig.queue(queue, gpus=2)
    annotations = {**CARD, "scheduling.volcano.sh/queue-name": queue}
    await rig.deployment("web", pods=2, product=GPU, annotations=annotations)
    await rig.until_running(2, "web")
    await rig.scale("web", 3)
    text = f"Queue <{queue}> has insufficient <{GPU_NAME}> quota: requested <1000>, total would be <3000>"

    def is_told(found: list[Object]) -> bool:
        waiting = [one for one in found if not node_of(one)]
        return len(found) == 3 and len(waiting) == 1 and text in str(waiting[0]["status"])

    (waits,) = [one for one in await rig.until(is_told, "web") if not node_of(one)]
    await until_noted(rig, waits, "InsufficientScalarQuota", text)
    await rig.scale("web", 1)
    await rig.until_running(1, "web")
    await rig.scale("web", 2)
    await rig.until_running(2, "web")
    await rig.judged(daemon)


async def test_a_quota_of_nonsense_counts_for_nothing_and_is_said_once_and_back_all_is_well(
    rig: Rig,
) -> None:
    """What runs stays, whatever the annotation becomes."""
    await rig.add_nodes(1)
    daemon = await rig.started()
    queue = f"queue-{rig.namespace}"
    made = await rig.queue(queue, gpus=2)
    annotations = {**CARD, "scheduling.volcano.sh/queue-name": queue}
    await rig.deployment("web", pods=2, product=GPU, annotations=annotations)
    await rig.until_running(2, "web")
    await set_quota(rig, queue, '{"NVIDIA-H200": 2.5}')
    event = await until_noted(rig, made, "InvalidQueue", "volcano.sh/card.quota")
    await rig.scale("web", 3)
    await rig.until(lambda found: len(found) == 3 and "capability is <0>" in str(found), "web")
    assert sum(map(is_running, await rig.pods("web"))) == 2
    await set_quota(rig, queue, quota_of(3))
    await rig.until_running(3, "web")
    await set_quota(rig, queue, quota_of(1))
    await rig.settle(daemon)
    assert sum(map(is_running, await rig.pods("web"))) == 3, "no pod is evicted for a lower quota"
    events = await rig.api.items(EVENTS.collection_path("default"))
    about = [one for one in events if one["regarding"].get("uid") == made["metadata"]["uid"]]
    assert [one["metadata"]["name"] for one in about] == [event["metadata"]["name"]]
    assert "series" not in about[0]
    await rig.judged(daemon)
