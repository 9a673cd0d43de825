"""`muster fit` is asked of the manifests with which the card-quota design is explained, as they stand."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.daemon.cli.builders import muster, scenario

H200 = "NVIDIA-H200"
RTX_4090 = "NVIDIA-GeForce-RTX-4090"
BOTH = f"<{RTX_4090}|{RTX_4090}-D> and matches the node affinity <nvidia.com/gpu.product in "

NODES = """\
cluster:
  - kind: Node
    metadata: {name: h200, labels: {nvidia.com/gpu.product: NVIDIA-H200}}
    status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}
  - kind: Node
    metadata: {name: rtx-4090, labels: {nvidia.com/gpu.product: NVIDIA-GeForce-RTX-4090}}
    status: {allocatable: {cpu: 64, memory: 64Gi, pods: 110, nvidia.com/gpu: 8}}
"""


def file(name: str) -> Path:
    """A file of the design; a skip where it is not at hand."""
    folder = os.environ.get("MUSTER_TRACES")
    path = Path(folder or "").absolute() / "cards" / name
    if not folder or not path.is_file():
        pytest.skip(f"MUSTER_TRACES does not name a folder that holds cards/{name}")
    return path


def asked(tmp_path: Path, workload: Path) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer for a workload in the queue of the design, under its policy."""
    log = tmp_path / "log.db"
    assert muster("simulate", scenario(tmp_path, NODES), "--log", log).exit_code == 0
    files = (file("queue.yaml"), workload, "--policy", file("scheduler.yaml"))
    result = muster("fit", *files, "--log", log, "-o", "json")
    answer: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, answer


def places(answer: dict[str, Any]) -> list[tuple[str, dict[str, int]]]:
    """Where the pods would go, and what they would be charged."""
    return [(one["node"], one["cards"]) for each in answer["pod_groups"] for one in each["placed"]]


@pytest.mark.parametrize("name", ["job.yaml", "deployment.yaml"])
def test_job_and_deployment_fit(tmp_path: Path, name: str) -> None:
    code, answer = asked(tmp_path, file(name))
    assert (code, answer["fits"]) == (0, True)
    assert places(answer) == [("h200", {H200: 1})] * 2


@pytest.mark.parametrize("name", ["job-alternatives.yaml", "deployment-alternatives.yaml"])
def test_a_selector_conflict_is_reported_and_the_job_fits_without_its_affinity(
    tmp_path: Path, name: str
) -> None:
    code, answer = asked(tmp_path, file(name))
    assert (code, places(answer)) == (1, [])
    (group,) = answer["pod_groups"]
    assert BOTH in group["waiting"]["message"]
    manifest = yaml.safe_load(file(name).read_text(encoding="utf-8"))
    for one in manifest["spec"].get("tasks", [manifest["spec"]]):
        one["template"]["spec"].pop("affinity", None)  # The tasks share what is there twice.
    changed = tmp_path / "changed.yaml"
    changed.write_text(yaml.safe_dump(manifest))
    (tmp_path / "log.db").unlink()
    code, answer = asked(tmp_path, changed)
    assert (code, places(answer)) == (0, [("rtx-4090", {RTX_4090: 1})] * 2)
