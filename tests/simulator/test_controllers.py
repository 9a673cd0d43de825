"""Workloads make their pods, and lost ones are replaced."""

from events.normalize import Json
from simulator.cluster import SimulatedCluster
from simulator.manifest_fields import section
from tests.simulator.builders import SECOND, admit, bind, seen, simulated

NODE = "cluster:\n  - {kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 64, memory: 1Ti}}}\n"
TEMPLATE = "template: {metadata: {labels: {app: x}}, spec: {containers: [{name: c, resources: {limits: {cpu: 2}}}]}}"


def running(made: SimulatedCluster, *names: str) -> None:
    """Bind pods and forget what that showed."""
    for name in names:
        bind(made, name)
    seen(made)


def pods(made: SimulatedCluster) -> list[str]:
    """What the watch showed of pods since the last look."""
    return [one for one in seen(made) if "Pod/" in one]


def test_a_job_makes_pods_until_enough_have_succeeded() -> None:
    made = simulated(
        NODE
        + "  - {kind: Job, metadata: {name: train}, spec: {parallelism: 2, completions: 3, "
        + 'template: {metadata: {annotations: {muster.sh/run-seconds: "5"}}, spec: {}}}}\n'
    )
    running(made, "train-0", "train-1")
    made.advance(5 * SECOND)
    assert "Pod/train-2 Pending" in seen(made)
    running(made, "train-2")
    made.advance(10 * SECOND)
    job = made.find("Job", "default", "train") or {}
    assert section(job, "status")["conditions"] == [{"type": "Complete", "status": "True"}]
    assert made.settled


def test_a_job_gives_up_after_too_many_failures() -> None:
    made = simulated(
        NODE
        + f"  - {{kind: Job, metadata: {{name: train}}, spec: {{backoffLimit: 1, {TEMPLATE}}}}}\n"
        + "steps:\n  - {at: 1s, fail: [{pod: train-0}]}\n  - {at: 2s, delete: [{kind: Pod, name: train-1}]}\n"
    )
    running(made, "train-0")
    made.advance(SECOND)
    assert pods(made) == ["Pod/train-0 Failed n1", "Pod/train-1 Pending"]
    made.advance(2 * SECOND)
    assert pods(made) == ["gone Pod/train-1 Pending"]
    job = made.find("Job", "default", "train") or {}
    conditions: list[Json] = [
        {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}
    ]
    assert section(job, "status") == {"failed": 2, "conditions": conditions}


def test_an_indexed_job_replaces_a_pod_by_one_of_the_same_index() -> None:
    made = simulated(
        NODE
        + f"  - {{kind: Job, metadata: {{name: j}}, spec: {{completionMode: Indexed, parallelism: 2, completions: 2, {TEMPLATE}}}}}\n"
        + "steps:\n  - {at: 1s, fail: [{pod: j-0-0}]}\n"
    )
    running(made, "j-0-0", "j-1-1")
    made.advance(SECOND)
    assert pods(made) == ["Pod/j-0-0 Failed n1", "Pod/j-0-2 Pending"]


def test_a_deployment_is_scaled_by_a_patch() -> None:
    made = simulated(
        NODE
        + f"  - {{kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 2, {TEMPLATE}}}}}\n"
        + "steps:\n"
        + "  - {at: 1s, patch: [{kind: Deployment, name: web, merge: {spec: {replicas: 3}}}]}\n"
        + "  - {at: 2s, patch: [{kind: Deployment, name: web, merge: {spec: {replicas: 1}}}]}\n"
    )
    running(made, "web-1-0", "web-1-1")
    made.advance(SECOND)
    assert pods(made) == ["Pod/web-1-2 Pending"]
    made.advance(2 * SECOND)
    assert pods(made) == ["gone Pod/web-1-2 Pending", "gone Pod/web-1-1 Running n1"]


def test_a_lost_pod_of_a_deployment_is_replaced_and_a_deleted_deployment_leaves_nothing() -> None:
    made = simulated(
        NODE
        + f"  - {{kind: Deployment, metadata: {{name: web}}, spec: {{replicas: 1, {TEMPLATE}}}}}\n"
        + "steps:\n"
        + "  - {at: 1s, delete: [{kind: Pod, name: web-1-0}]}\n"
        + "  - {at: 2s, delete: [{kind: Deployment, name: web}]}\n"
    )
    made.advance(SECOND)
    assert pods(made) == ["gone Pod/web-1-0 Pending", "Pod/web-1-1 Pending"]
    seen(made)
    made.advance(2 * SECOND)
    assert seen(made) == [
        "gone Deployment/web",
        "gone ReplicaSet/web-1",
        "gone Pod/web-1-1 Pending",
    ]


def test_pods_that_stop_slowly_are_deleted_once() -> None:
    made = simulated(
        NODE
        + "  - {kind: ReplicaSet, metadata: {name: r}, spec: {replicas: 2, template: "
        + '{metadata: {annotations: {muster.sh/stop-seconds: "9"}}, spec: {}}}}\n'
        + "steps: [{at: 1s, patch: [{kind: ReplicaSet, name: r, merge: {spec: {replicas: 1}}}]}]\n"
    )
    running(made, "r-0", "r-1")
    made.advance(SECOND)
    assert pods(made) == ["Pod/r-1 Running n1 terminating"]
    made.advance(20 * SECOND)
    assert pods(made) == ["gone Pod/r-1 Running n1 terminating"]


def test_a_stateful_set_starts_its_pods_one_after_the_other_and_keeps_their_names() -> None:
    made = simulated(
        NODE
        + f"  - {{kind: StatefulSet, metadata: {{name: db}}, spec: {{replicas: 2, {TEMPLATE}}}}}\n"
        + "steps: [{at: 1s, fail: [{pod: db-0}]}]\n"
    )
    assert made.find("Pod", "default", "db-1") is None
    bind(made, "db-0")
    assert pods(made)[-1] == "Pod/db-1 Pending"
    made.advance(SECOND)
    assert pods(made) == ["Pod/db-0 Failed n1", "gone Pod/db-0 Failed n1", "Pod/db-0 Pending"]


VOLCANO = """\
  - kind: Job
    apiVersion: batch.volcano.sh/v1alpha1
    metadata: {name: j, uid: u1, annotations: {volcano.sh/card.request: '{"A": 1}'}}
    spec:
      minAvailable: %d
      queue: q1
      tasks:
        - {name: ps, replicas: 1, template: {spec: {containers: [{resources: {limits: {cpu: 2}}}]}}}
        - {name: worker, replicas: 3, template: {spec: {containers: [{resources: {limits: {cpu: 4}}}]}}}
"""


def test_a_volcano_job_makes_its_group_and_its_pods_when_that_is_admitted() -> None:
    made = simulated(NODE + VOLCANO % 4)
    group = made.find("PodGroup", "default", "j-u1") or {}
    assert section(group, "spec") == {
        "minMember": 4,
        "minTaskMember": {"ps": 1, "worker": 3},
        "minResources": {
            "count/pods": "4",
            "pods": "4",
            "cpu": "14",
            "requests.cpu": "14",
            "limits.cpu": "14",
        },
        "queue": "q1",
    }
    assert section(group, "metadata", "annotations") == {"volcano.sh/card.request": '{"A": 1}'}
    assert section(group, "status") == {"phase": "Pending"}
    assert made.find("Pod", "default", "j-ps-0") is None
    admit(made, "j-u1")
    assert seen(made) == [
        "PodGroup/j-u1 Inqueue",
        "Pod/j-ps-0 Pending",
        "Pod/j-worker-0 Pending",
        "Pod/j-worker-1 Pending",
        "Pod/j-worker-2 Pending",
        "Job/j",
    ]
    pod = made.find("Pod", "default", "j-worker-2") or {}
    annotations = section(pod, "metadata", "annotations")
    assert annotations["scheduling.k8s.io/group-name"] == "j-u1"
    assert annotations["volcano.sh/task-spec"] == "worker"
    assert annotations["volcano.sh/task-index"] == "2"


def test_the_minimum_of_a_smaller_gang_is_its_first_pods() -> None:
    made = simulated(NODE + VOLCANO % 2)
    group = made.find("PodGroup", "default", "j-u1") or {}
    assert section(group, "spec", "minResources")["cpu"] == "6"
    assert section(group, "spec", "minResources")["count/pods"] == "2"


def test_a_lost_pod_of_a_volcano_job_returns_once_its_group_is_admitted_again() -> None:
    made = simulated(
        NODE + VOLCANO % 4 + "steps: [{at: 1s, delete: [{kind: Pod, name: j-worker-1}]}]\n"
    )
    admit(made, "j-u1")
    admit(made, "j-u1", "Pending")
    seen(made)
    made.advance(SECOND)
    assert seen(made) == ["gone Pod/j-worker-1 Pending", "Job/j"]
    admit(made, "j-u1")
    assert seen(made) == ["PodGroup/j-u1 Inqueue", "Pod/j-worker-1 Pending", "Job/j"]


def test_a_finished_volcano_job_says_so() -> None:
    made = simulated(
        NODE
        + VOLCANO.replace(
            "template: {", 'template: {metadata: {annotations: {muster.sh/run-seconds: "1"}}, '
        )
        % 4
    )
    admit(made, "j-u1")
    running(made, "j-ps-0", "j-worker-0", "j-worker-1", "j-worker-2")
    made.advance(SECOND)
    job = made.find("Job.batch.volcano.sh", "default", "j") or {}
    assert section(job, "status", "state")["phase"] == "Completed"
    assert section(job, "status")["succeeded"] == 4
    assert made.find("PodGroup", "default", "j-u1") is None
