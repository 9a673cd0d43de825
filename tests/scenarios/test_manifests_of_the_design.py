"""The manifests with which the card-quota design is explained, as they stand, where they are at hand."""

import json
import os
from pathlib import Path

import pytest
import yaml

from events.normalize import Json, JsonObject
from simulator.scenario import parse_scenario
from tests.scenarios.play import Played, play

BOTH = (
    "<NVIDIA-GeForce-RTX-4090|NVIDIA-GeForce-RTX-4090-D> and matches the node affinity "
    "<nvidia.com/gpu.product in ({})>"
)


def manifest(name: str) -> JsonObject:
    """A manifest of the design, unchanged."""
    folder = os.environ.get("MUSTER_TRACES")
    path = Path(folder or "") / "cards" / name
    if not folder or not path.is_file():
        pytest.skip(f"MUSTER_TRACES does not name a folder that holds cards/{name}")
    found: JsonObject = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def node(product: str) -> JsonObject:
    """A node with eight cards of a model."""
    amounts: JsonObject = {"cpu": "64", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "8"}
    meta: JsonObject = {"name": product.lower(), "labels": {"nvidia.com/gpu.product": product}}
    return {"kind": "Node", "metadata": meta, "status": {"allocatable": amounts}}


async def run(workload: JsonObject) -> Played:
    """The workload in the queue and under the policy of the design, on nodes of three models."""
    models: list[Json] = [
        node(one) for one in ("NVIDIA-H200", "NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-4090-D")
    ]
    scenario: JsonObject = {
        "scenario": "a manifest of the design",
        "policy": manifest("scheduler.yaml"),
        "cluster": [*models, manifest("queue.yaml"), workload],
        "until": "30s",
    }
    return await play(parse_scenario(json.dumps(scenario), "design"))


def placed(played: Played) -> list[tuple[str, str]]:
    """Phase and node of each pod."""
    return [
        (pod.facts.phase, pod.node)
        for pod in sorted(played.end.state.cluster.pods.values(), key=lambda one: one.key)
    ]


def without_affinity(workload: JsonObject) -> JsonObject:
    """The same without what it contradicts itself with."""
    text = json.loads(json.dumps(workload))
    spec = text["spec"]
    for one in spec.get("tasks", [spec]):
        del one["template"]["spec"]["affinity"]
    changed: JsonObject = text
    return changed


@pytest.mark.parametrize("name", ["job.yaml", "deployment.yaml"])
async def test_job_and_deployment_run_as_they_stand(name: str) -> None:
    played = await run(manifest(name))
    assert placed(played) == [("Running", "nvidia-h200")] * 2
    queue = played.end.state.cluster.queues["cr-queue1"]
    assert queue.allocated == {"NVIDIA-H200": 2}
    assert played.divergence is None


@pytest.mark.parametrize(
    ("name", "product"),
    [("job-alternatives.yaml", "H200"), ("deployment-alternatives.yaml", "NVIDIA-H200")],
)
async def test_a_selector_conflict_is_reported_with_both_demands(name: str, product: str) -> None:
    played = await run(manifest(name))
    assert placed(played) == [("Pending", "")] * 2
    groups = played.end.state.cluster.groups.values()
    told = [one.message for group in groups for one in group.decided.refusals.values()]
    assert told
    assert all(BOTH.format(product) in message for message in told)


@pytest.mark.parametrize("name", ["job-alternatives.yaml", "deployment-alternatives.yaml"])
async def test_without_the_affinity_the_first_alternative_is_taken(name: str) -> None:
    played = await run(without_affinity(manifest(name)))
    assert placed(played) == [("Running", "nvidia-geforce-rtx-4090")] * 2
    assert played.end.state.cluster.queues["cr-queue1"].allocated == {"NVIDIA-GeForce-RTX-4090": 2}
