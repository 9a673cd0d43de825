"""A cluster in which another scheduler is at work, too: what is its own is left alone, on a real API server."""

import asyncio

from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from projections.kinds.workload import VOLCANO_JOBS
from tests.control_plane.manifests import pod_spec
from tests.control_plane.volcano_jobs import VolcanoJobs, group_name
from tests.e2e.rig import POLL_SECONDS, Rig


async def test_a_pod_group_of_another_scheduler_and_its_queue_get_no_status(rig: Rig) -> None:
    await rig.add_nodes(1)
    daemon = await rig.started()
    theirs, ours = f"theirs-{rig.namespace}", f"ours-{rig.namespace}"
    for queue in (theirs, ours):
        await rig.queue(queue, gpus=8)
    jobs = {}
    async with VolcanoJobs(rig.api).at_work():
        for queue, scheduler in ((theirs, "volcano"), (ours, rig.scheduler)):
            spec = pod_spec(nodeSelector={"muster.test/pool": rig.namespace})
            del spec["schedulerName"]
            task = {"name": "w", "replicas": 2, "template": {"spec": spec}}
            manifest = {
                "apiVersion": VOLCANO_JOBS.api_version,
                "kind": VOLCANO_JOBS.kind,
                "metadata": {"name": queue, "namespace": rig.namespace},
                "spec": {
                    "minAvailable": 2,
                    "schedulerName": scheduler,
                    "queue": queue,
                    "tasks": [task],
                },
            }
            jobs[queue] = await rig.api.create(VOLCANO_JOBS, manifest)
        await rig.until_running(2)
    await rig.settle(daemon)
    path = QUEUES.object_path(theirs)
    said = {"state": "Open", "allocated": {"cpu": "3", "memory": "1Gi"}}
    (await rig.api.patch(f"{path}/status", {"status": said})).expect(200)
    await rig.settle(daemon)
    group = (
        await rig.api.get(POD_GROUPS.object_path(group_name(jobs[theirs]), rig.namespace))
    ).expect(200)
    assert group["status"] == {"phase": "Pending"}
    assert (await rig.api.get(path)).expect(200)["status"] == said
    async with asyncio.timeout(30.0):
        while True:
            found = (await rig.api.get(QUEUES.object_path(ours))).expect(200)
            if found.get("status", {}).get("allocated", {}).get("pods") == "2":
                break
            await asyncio.sleep(POLL_SECONDS)
    await rig.judged(daemon)
