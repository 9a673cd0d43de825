"""A controller for Volcano's Jobs, for tests: a PodGroup first, and pods once that has left Pending (volcano A.3)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.workload import VOLCANO_JOBS
from simulator.quota_usage import min_resources
from tests.control_plane.api import GONE, Api, Object

LOOK_SECONDS: Final = 0.1
PENDING: Final = ("", "Pending")


class VolcanoJobs:
    """Makes what Jobs ask for. Pods that were made are left alone; the server collects those of a Job that goes."""

    def __init__(self, api: Api) -> None:
        self._api = api

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """Look after all Jobs, meanwhile."""
        async with asyncio.TaskGroup() as group:
            work = group.create_task(self._work())
            try:
                yield
            finally:
                work.cancel()

    async def _work(self) -> None:
        while True:
            with contextlib.suppress(*GONE):
                for job in await self._api.items(VOLCANO_JOBS.path):
                    if not job["metadata"].get("deletionTimestamp"):
                        await self._reconcile(job)
            await asyncio.sleep(LOOK_SECONDS)

    async def _reconcile(self, job: Object) -> None:
        namespace, name = job["metadata"]["namespace"], group_name(job)
        found = await self._api.get(POD_GROUPS.object_path(name, namespace))
        if found.status == 404:
            await self._make(POD_GROUPS.collection_path(namespace), group_of(job))
        elif found.expect(200).get("status", {}).get("phase", "") not in PENDING:
            for pod in pods_of(job):
                path = PODS.object_path(pod["metadata"]["name"], namespace)
                if (await self._api.get(path)).status == 404:
                    await self._make(PODS.collection_path(namespace), pod)

    async def _make(self, path: str, manifest: Object) -> None:
        (await self._api.post(path, manifest)).expect(201, 409)


def group_name(job: Object) -> str:
    """The name of a Job's group."""
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def group_of(job: Object) -> Object:
    """The group of a Job: its least number of pods, and what these ask for."""
    spec = job["spec"]
    least = {one["name"]: one.get("minAvailable", one.get("replicas", 1)) for one in spec["tasks"]}
    given = {key: job["metadata"].get(key, {}) for key in ("annotations", "labels")}
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": group_name(job), "ownerReferences": [owner_of(job)], **given},
        "spec": {
            "minMember": spec.get("minAvailable", sum(least.values())),
            "minTaskMember": least,
            "minResources": min_resources(
                (one["template"]["spec"], least[one["name"]]) for one in spec["tasks"]
            ),
            "queue": spec.get("queue", "default"),
        },
        "status": {"phase": "Pending"},
    }


def pods_of(job: Object) -> list[Object]:
    """All pods of a Job, task by task."""
    return [
        _pod(job, task, index)
        for task in job["spec"]["tasks"]
        for index in range(task.get("replicas", 1))
    ]


def _pod(job: Object, task: Object, index: int) -> Object:
    template, spec = task["template"], job["spec"]
    labels = {
        "volcano.sh/job-name": job["metadata"]["name"],
        "volcano.sh/queue-name": spec.get("queue", "default"),
        "volcano.sh/task-spec": task["name"],
    }
    given = template.get("metadata", {})
    annotations = {"scheduling.k8s.io/group-name": group_name(job), **labels}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{job['metadata']['name']}-{task['name']}-{index}",
            "labels": given.get("labels", {}) | labels,
            "annotations": given.get("annotations", {}) | annotations,
            "ownerReferences": [owner_of(job)],
        },
        "spec": {"schedulerName": spec["schedulerName"], **template["spec"]},
    }


def owner_of(job: Object) -> Object:
    """The reference by which a Job owns what is made for it."""
    metadata = job["metadata"]
    return {
        "apiVersion": VOLCANO_JOBS.api_version,
        "kind": VOLCANO_JOBS.kind,
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
