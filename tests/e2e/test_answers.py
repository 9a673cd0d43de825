"""What `kubectl describe` shows of a gang: its phase, counts and conditions, and Events, on a real API server."""

import asyncio
from collections.abc import Callable

from daemon.cluster.client.calls import EVENTS
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from tests.control_plane.api import Object
from tests.control_plane.kubelet import FINISH
from tests.control_plane.manifests import GPU, GPU_NAME
from tests.e2e.rig import PATIENCE_SECONDS, POLL_SECONDS, Rig


async def status_until(rig: Rig, name: str, is_so: Callable[[Object], bool]) -> Object:
    """A pod group, once its status is so."""
    path = POD_GROUPS.object_path(name, rig.namespace)
    found: Object = {}
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = (await rig.api.get(path)).expect(200)
                if is_so(found.get("status", {})):
                    return found
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        shown = rig.shown(await rig.pods())
        raise AssertionError(f"never so: {found.get('status')}; {shown}") from None


def conditions(group: Object) -> dict[str, Object]:
    """Its conditions by type."""
    return {one["type"]: one for one in group["status"].get("conditions", ())}


async def notes(rig: Rig, kind: str, name: str) -> list[tuple[str, str, str]]:
    """Reason, reporter and text of the Events about an object."""
    found = await rig.api.items(EVENTS.collection_path(rig.namespace))
    about = [one for one in found if one["regarding"]["kind"] == kind]
    return [
        (one["reason"], one["reportingController"], one["note"])
        for one in about
        if one["regarding"]["name"] == name
    ]


async def test_a_gang_says_what_keeps_it_and_then_that_it_runs_and_only_when_that_changes(
    rig: Rig,
) -> None:
    """Volcano B.14"""
    await rig.add_nodes(2)
    daemon = await rig.started()
    queue = f"queue-{rig.namespace}"
    await rig.queue(queue, gpus=3)
    await rig.group("first", least=2, queue=queue)
    await rig.job("first", pods=2, cards=1, group="first", product=GPU)
    await status_until(rig, "first", lambda one: one.get("running") == 2)
    await rig.group("second", least=2, queue=queue)
    await rig.job("second", pods=2, cards=1, group="second", product=GPU)
    text = f"Queue <{queue}> has insufficient <{GPU_NAME}> quota: requested <1000>"
    waits = await status_until(rig, "second", lambda one: text in str(one.get("conditions")))
    told = conditions(waits)["Unschedulable"]
    assert (told["status"], told["reason"]) == ("True", "NotEnoughResources")
    assert "total would be <4000>, but capability is <3000>" in told["message"]
    await rig.settle(daemon)
    again = await status_until(rig, "second", bool)
    assert again["metadata"]["resourceVersion"] == waits["metadata"]["resourceVersion"]
    group_notes = await notes(rig, "PodGroup", "second")
    assert ("InsufficientScalarQuota", "volcano.capacity-card", text) in [
        (why, by, note[: len(text)]) for why, by, note in group_notes
    ]
    for one in await rig.pods("second"):
        (waiting,) = [
            each for each in one["status"]["conditions"] if each["type"] == "PodScheduled"
        ]
        assert (waiting["status"], waiting["reason"]) == ("False", "NotReadyForScheduling")
        assert waiting["message"].startswith(f"InsufficientScalarQuota: {text}")
    for one in await rig.pods("first"):
        path = PODS.object_path(one["metadata"]["name"], rig.namespace)
        patch = {"metadata": {"annotations": {FINISH: "Succeeded"}}}
        (await rig.api.patch(path, patch)).expect(200)
    ended = await status_until(rig, "first", lambda one: one.get("succeeded") == 2)
    assert (ended["status"]["phase"], ended["status"]["running"]) == ("Completed", 0)
    runs = await status_until(
        rig, "second", lambda one: one.get("running") == 2 and "Scheduled'" in str(one)
    )
    assert runs["status"]["phase"] == "Running"
    said = {kind: one["status"] for kind, one in conditions(runs).items()}
    assert said == {"Unschedulable": "False", "Scheduled": "True"}
    await rig.settle(daemon)
    allocated = (await rig.api.get(QUEUES.object_path(queue))).expect(200)["status"]["allocated"]
    assert (allocated[GPU_NAME], allocated[GPU], allocated["pods"]) == ("2", "2", "2")
    await rig.judged(daemon)


async def test_as_long_as_nothing_changes_nothing_is_written(rig: Rig) -> None:
    """Volcano B.14: neither the objects that wait, nor those that run, nor the queue."""
    await rig.add_nodes(2)
    daemon = await rig.started(anchor_seconds=0)  # The Event of an anchor comes in its time.
    queue = f"queue-{rig.namespace}"
    await rig.queue(queue, gpus=2)
    for name in ("runs", "waits"):
        await rig.group(name, least=2, queue=queue)
        await rig.job(name, pods=2, cards=1, group=name, product=GPU)
        await rig.until(lambda found: len(found) == 2, name)
        if name == "runs":
            await status_until(rig, "runs", lambda one: one.get("running") == 2)
    await status_until(rig, "waits", lambda one: "Unschedulable" in str(one))
    await rig.settle(daemon)
    before, revisions = await daemon.writes(), await all_revisions(rig)
    assert before["PATCH podgroups"] > 0
    for index in range(
        3
    ):  # What is none of muster's business wakes it, and changes nothing for these.
        await rig.pod(f"other-{index}", schedulerName="nobody")
        await asyncio.sleep(0.5)
    assert await daemon.writes() == before
    assert await all_revisions(rig) == revisions
    await rig.judged(daemon)


async def all_revisions(rig: Rig) -> dict[str, str]:
    """Each object that muster tells something, with its version."""
    paths = [POD_GROUPS.collection_path(rig.namespace), QUEUES.path]
    found = [one for path in paths for one in await rig.api.items(path)]
    found += [one for app in ("runs", "waits") for one in await rig.pods(app)]
    found += await rig.api.items(EVENTS.collection_path(rig.namespace))
    mine = [one for one in found if one.get("regarding", {}).get("kind") != "Job"]
    return {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in mine}
