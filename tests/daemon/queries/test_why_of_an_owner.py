"""The name of what owns pods finds their pod group."""

from pathlib import Path

import pytest

from tests.daemon.cli.builders import documents, muster, scenario

TEMPLATE = (
    "{metadata: {labels: {a: b}}, spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}"
)
TEXT = f"""
until: 5s
cluster:
  - {{apiVersion: v1, kind: Node, metadata: {{name: n1}}, status: {{allocatable: {{cpu: 8, memory: 8Gi, pods: 10}}}}}}
  - {{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {{name: default}}, spec: {{weight: 1}}}}
steps:
  - at: 1s
    apply:
      - apiVersion: batch.volcano.sh/v1alpha1
        kind: Job
        metadata: {{name: vj}}
        spec: {{schedulerName: volcano, minAvailable: 1, tasks: [{{name: t, replicas: 1, template: {TEMPLATE}}}]}}
      - {{apiVersion: batch/v1, kind: Job, metadata: {{name: j}}, spec: {{template: {TEMPLATE}}}}}
      - apiVersion: apps/v1
        kind: Deployment
        metadata: {{name: d}}
        spec: {{replicas: 2, selector: {{matchLabels: {{a: b}}}}, template: {TEMPLATE}}}
      - apiVersion: apps/v1
        kind: StatefulSet
        metadata: {{name: s}}
        spec: {{replicas: 1, selector: {{matchLabels: {{a: b}}}}, template: {TEMPLATE}}}
      - apiVersion: v1
        kind: Pod
        metadata:
          name: py-0
          ownerReferences: [{{apiVersion: kubeflow.org/v1, kind: PyTorchJob, name: py, uid: u-py, controller: true}}]
        spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]}}
      - apiVersion: v1
        kind: Pod
        metadata:
          name: two-0
          annotations: {{scheduling.k8s.io/group-name: one}}
          ownerReferences: [{{apiVersion: kubeflow.org/v1, kind: MPIJob, name: two, uid: u-2, controller: true}}]
        spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]}}
      - apiVersion: v1
        kind: Pod
        metadata:
          name: two-1
          ownerReferences: [{{apiVersion: kubeflow.org/v1, kind: MPIJob, name: two, uid: u-2, controller: true}}]
        spec: {{containers: [{{name: c, resources: {{requests: {{cpu: 1}}}}}}]}}
  - at: 3s
    delete: [{{apiVersion: batch/v1, kind: Job, namespace: default, name: j}}]
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of a cluster with owners of many kinds."""
    folder = tmp_path_factory.mktemp("owners")
    path = folder / "a.db"
    result = muster("simulate", scenario(folder, TEXT), "--log", path)
    assert result.exit_code == 0, result.stderr
    return path


@pytest.mark.parametrize(
    ("subject", "pod"),
    [
        ("default/vj", "vj-t-0"),
        ("vj", "vj-t-0"),
        ("Job/default/vj", "vj-t-0"),
        ("vcjob/default/vj", "vj-t-0"),
        ("default/d", "d-"),
        ("Deployment/default/d", "d-"),
        ("deploy/default/d", "d-"),
        ("default/s", "s-0"),
        ("sts/default/s", "s-0"),
        ("default/py", "py-0"),
        ("PyTorchJob/default/py", "py-0"),
    ],
)
def test_an_owner_s_name_finds_its_group(log: Path, subject: str, pod: str) -> None:
    result = muster("why", subject, "--log", log)
    assert result.exit_code == 0, result.stderr
    assert f"bound default/{pod}" in result.stdout.replace("  ", " ") or pod in result.stdout
    (answer,) = documents(muster("why", subject, "--log", log, "-o", "json"))
    assert str(answer["subject"]).startswith("PodGroup/default/")


def test_the_group_of_an_owner_that_is_gone_is_found_and_at_an_earlier_moment_too(
    log: Path,
) -> None:
    for moment in ((), ("--at", "2s")):
        result = muster("why", "default/j", "--log", log, *moment)
        assert result.exit_code == 0, result.stderr
        assert "PodGroup/default/podgroup-" in result.stdout or "default/podgroup-" in result.stdout


def test_several_groups_are_named(log: Path) -> None:
    result = muster("why", "MPIJob/default/two", "--log", log)
    assert result.exit_code == 2
    assert "has 2 pod groups: default/one, default/podgroup-u-2; name one of them" in result.stderr


@pytest.mark.parametrize(
    "subject", ["default/none", "Deployment/default/vj", "StatefulSet/default/d"]
)
def test_what_owns_nothing_is_unknown(log: Path, subject: str) -> None:
    result = muster("why", subject, "--log", log)
    assert result.exit_code == 2
