"""The manifests with which the card-quota design is explained, as they stand, on a real API server.

`MUSTER_TRACES` names the folder that holds `cards/`. A manifest is handed over as `kubectl create` does it:
unchanged, in a namespace that the path names.
"""

import asyncio
import copy
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

import pytest
import yaml

from daemon.cluster.client.calls import EVENTS
from projections.api_resource import Resource
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from projections.kinds.workload import DEPLOYMENT, VOLCANO_JOBS
from tests.control_plane.api import Object
from tests.control_plane.volcano_jobs import VolcanoJobs, group_name
from tests.e2e.daemon import Daemon
from tests.e2e.rig import PATIENCE_SECONDS, POLL_SECONDS, Rig, node_of

H200: Final = "NVIDIA-H200"
RTX_4090: Final = "NVIDIA-GeForce-RTX-4090"
MODELS: Final = {"h200": H200, "rtx-4090": RTX_4090, "rtx-4090-d": f"{RTX_4090}-D"}
BOTH: Final = (
    f"<{RTX_4090}|{RTX_4090}-D> and matches the node affinity <nvidia.com/gpu.product in ({{}})>"
)
SEED: Final = (
    *("--logtostderr", "--enable-healthz=true", "--enable-metrics=true", "--leader-elect=true"),
    *("--kube-api-qps=2000", "--kube-api-burst=2000", "--schedule-period=100ms"),
    *("--node-worker-threads=20", "-v=3", "2>&1", "--healthz-address=127.0.0.1:0"),
)
"""The start-up list of the design, with a shorter period than 3 s, and a free port."""


def path_of(name: str) -> Path:
    """A file of the design; a skip where it is not at hand."""
    folder = os.environ.get("MUSTER_TRACES")
    path = Path(folder or "").absolute() / "cards" / name
    if not folder or not path.is_file():
        pytest.skip(f"MUSTER_TRACES does not name a folder that holds cards/{name}")
    return path


def manifest(name: str) -> Object:
    """It, decoded."""
    found: Object = yaml.safe_load(path_of(name).read_text(encoding="utf-8"))
    return found


class Design:
    """A cluster of the three models, the queue of the design, and a daemon in Volcano's place."""

    def __init__(self, rig: Rig, daemon: Daemon, nodes: dict[str, str]) -> None:
        self.rig = rig
        self.daemon = daemon
        self.nodes = nodes
        """Node to model."""

    async def create(self, resource: Resource, manifest: Object) -> Object:
        """Hand it over as it stands."""
        path = resource.collection_path(self.rig.namespace)
        return (await self.rig.api.post(path, manifest)).expect(201)

    async def remove(self, resource: Resource, made: Object) -> None:
        """Take it away, and wait until its pods are gone."""
        path = resource.object_path(made["metadata"]["name"], self.rig.namespace)
        (await self.rig.api.delete(path, {"propagationPolicy": "Background"})).expect(200)
        await self.rig.until(lambda found: not found)

    async def until_running_on(self, model: str) -> list[Object]:
        """Until two pods run, both on nodes of a model."""
        pods = await self.rig.until_running(2)
        assert {self.nodes[node_of(one)] for one in pods} == {model}
        return pods

    async def until_told(self, text: str) -> list[Object]:
        """Until two pods, without a node, have a text in the condition by which one sees that they wait."""

        def is_told(found: list[Object]) -> bool:
            return len(found) == 2 and all(text in _waits(one) for one in found)

        pods = await self.rig.until(is_told)
        assert [node_of(one) for one in pods] == ["", ""]
        return pods

    async def object_until(
        self, resource: Resource, name: str, is_so: Callable[[Object], bool]
    ) -> Object:
        """An object, once its status is so."""
        found: Object = {}
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    answer = await self.rig.api.get(resource.object_path(name, self.rig.namespace))
                    found = answer.expect(200)
                    if is_so(found.get("status", {})):
                        return found
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"it never came so far: {found}") from None

    async def until_noted(self, reason: str, text: str, *made: Object) -> None:
        """Until an Event of muster's says so about one of these objects."""
        uids = {one["metadata"]["uid"] for one in made}
        found: list[Object] = []
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not any(one["reason"] == reason and text in one["note"] for one in found):
                    await asyncio.sleep(POLL_SECONDS)
                    events = await self.rig.api.items(EVENTS.collection_path(self.rig.namespace))
                    found = [one for one in events if one["regarding"].get("uid") in uids]
        except TimeoutError:
            told = [(one["reason"], one["note"]) for one in found]
            raise AssertionError(f"no {reason} says {text!r}: {told}") from None

    async def allocated(self, amount: str) -> Object:
        """What the queue's status says is allocated, once that many cards of the model `H200` are."""

        def is_so(status: Object) -> bool:
            return bool(status.get("allocated", {}).get(H200, "0") == amount)

        queue = await self.object_until(QUEUES, "cr-queue1", is_so)
        found: Object = queue["status"]["allocated"]
        return found


def _waits(pod: Object) -> str:
    conditions = {one["type"]: one for one in pod["status"].get("conditions", ())}
    return str(conditions.get("PodScheduled", {}).get("message", ""))


@pytest.fixture
async def design(rig: Rig) -> AsyncIterator[Design]:
    """All that the manifests of workloads need."""
    policy = path_of("scheduler.yaml")
    nodes: dict[str, str] = {}
    for prefix, product in MODELS.items():
        (name,) = await rig.add_nodes(1, prefix=prefix, product=product)
        nodes[name] = product
    (await rig.api.post(QUEUES.path, manifest("queue.yaml"))).expect(201)
    rig.scheduler = "volcano"
    arguments = ("--scheduler-name=volcano", f"--scheduler-conf={policy}", *SEED)
    daemon = await rig.started(options=arguments)
    async with VolcanoJobs(rig.api).at_work():
        yield Design(rig, daemon, nodes)


async def test_the_job_of_the_design_runs_and_a_selector_conflict_is_reported(
    design: Design,
) -> None:
    job = await design.create(VOLCANO_JOBS, manifest("job.yaml"))
    await design.until_running_on(H200)
    group = await design.object_until(
        POD_GROUPS, group_name(job), lambda status: status.get("running") == 2
    )
    assert group["status"]["phase"] == "Running"
    assert (await design.allocated("2"))["nvidia.com/gpu"] == "2"
    await design.remove(VOLCANO_JOBS, job)
    await design.allocated("0")

    contradicting = manifest("job-alternatives.yaml")
    job = await design.create(VOLCANO_JOBS, contradicting)
    text = BOTH.format("H200")
    for pod in await design.until_told(text):
        await design.until_noted("FailedScheduling", text, pod)
    group = await design.object_until(
        POD_GROUPS, group_name(job), lambda status: text in str(status.get("conditions"))
    )
    (condition,) = group["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Unschedulable", "True")
    await design.until_noted("Unschedulable", text, group)
    await design.remove(VOLCANO_JOBS, job)

    for task in contradicting["spec"]["tasks"]:
        task["template"]["spec"].pop("affinity", None)  # The tasks share what is there twice.
    await design.create(VOLCANO_JOBS, contradicting)
    await design.until_running_on(RTX_4090)
    await design.rig.judged(design.daemon)


async def test_the_deployment_of_the_design_runs_and_a_selector_conflict_is_reported(
    design: Design,
) -> None:
    deployment = await design.create(DEPLOYMENT.resource, manifest("deployment.yaml"))
    await design.until_running_on(H200)
    assert (await design.allocated("2"))["nvidia.com/gpu"] == "2"
    await design.remove(DEPLOYMENT.resource, deployment)

    contradicting = manifest("deployment-alternatives.yaml")
    await design.create(DEPLOYMENT.resource, contradicting)
    text = BOTH.format(H200)
    # A pod that comes while the refusal of its group stands has the condition, and no Event of its own.
    await design.until_noted("FailedScheduling", text, *await design.until_told(text))

    without = copy.deepcopy(contradicting)
    without["spec"]["template"]["spec"]["affinity"] = None
    path = DEPLOYMENT.resource.object_path("cr-deployment", design.rig.namespace)
    (await design.rig.api.patch(path, {"spec": without["spec"]})).expect(200)
    await design.until_running_on(RTX_4090)
    await design.rig.judged(design.daemon)
