"""The API shows the conditions, times and containers that kubelets and controllers of a real cluster report."""

from events.duration import SECOND
from events.normalize import JsonObject
from simulator.api_server.api import Api
from simulator.manifest_fields import list_at, section
from tests.simulator.api_server.builders import (
    MERGE,
    PODS,
    STRATEGIC,
    ask,
    bound,
    done,
    found,
    pod,
    posted,
    served,
)

NODE = """
start_delay: 2s
cluster:
  - {apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: "4", pods: "10"}}}
"""


def status_of(api: Api, path: str) -> JsonObject:
    """The status of an object."""
    return dict(section(found(api, path), "status"))


def conditions_of(status: JsonObject) -> dict[str, str]:
    """Condition to status, with the reason behind it if there is one."""
    return {
        str(one["type"]): " ".join(str(one[key]) for key in ("status", "reason") if key in one)
        for one in list_at(status, "conditions")
    }


def at(api: Api, seconds: int) -> None:
    """Let time pass."""
    api.advance(seconds * SECOND)


def test_a_pod_tells_its_story_by_its_conditions() -> None:
    api = served(NODE)
    done(ask(api, "POST", PODS, pod("a") | {"metadata": run_for("a", 5)}))
    assert conditions_of(status_of(api, f"{PODS}/a")) == {}
    at(api, 1)
    bound(api, "a")
    unready = "False ContainersNotReady"
    assert conditions_of(status_of(api, f"{PODS}/a")) == {
        "PodReadyToStartContainers": "False",
        "Initialized": "True",
        "Ready": unready,
        "ContainersReady": unready,
        "PodScheduled": "True",
    }
    at(api, 3)
    running = status_of(api, f"{PODS}/a")
    assert set(conditions_of(running).values()) == {"True"}
    (container,) = list_at(running, "containerStatuses")
    assert (container["ready"], container["restartCount"]) == (True, 0)
    assert container["state"] == {"running": {"startedAt": "1970-01-01T00:00:03Z"}}
    at(api, 8)
    ended = status_of(api, f"{PODS}/a")
    assert conditions_of(ended)["Ready"] == "False PodCompleted"
    assert conditions_of(ended)["Initialized"] == "True PodCompleted"
    (container,) = list_at(ended, "containerStatuses")
    terminated = section(container, "state", "terminated")
    assert (terminated["startedAt"], terminated["finishedAt"]) == (
        *("1970-01-01T00:00:03Z", "1970-01-01T00:00:08Z"),
    )
    times = {str(one["type"]): one["lastTransitionTime"] for one in list_at(ended, "conditions")}
    assert times["PodScheduled"] == "1970-01-01T00:00:01Z"
    assert times["Ready"] == "1970-01-01T00:00:08Z"


def test_a_change_of_the_pod_does_not_change_since_when_it_is_ready() -> None:
    api = served(NODE)
    posted(api, "a")
    bound(api, "a")
    at(api, 2)
    before = status_of(api, f"{PODS}/a")
    at(api, 60)
    done(ask(api, "PATCH", f"{PODS}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE))
    own: JsonObject = {"type": "example.com/checked", "status": "True"}
    done(ask(api, "PATCH", f"{PODS}/a/status", {"status": {"conditions": [own]}}, STRATEGIC))
    after = status_of(api, f"{PODS}/a")
    assert list_at(after, "containerStatuses") == list_at(before, "containerStatuses")
    known = [one for one in list_at(after, "conditions") if one["type"] != own["type"]]
    assert known == list_at(before, "conditions")
    assert conditions_of(after)["example.com/checked"] == "True"


def test_a_pod_that_its_kubelet_rejects_has_no_containers() -> None:
    api = served(NODE)
    done(ask(api, "POST", PODS, pod("a", containers=[needing("9")])))
    bound(api, "a")
    rejected = status_of(api, f"{PODS}/a")
    assert (rejected["phase"], rejected["reason"]) == ("Failed", "OutOfcpu")
    assert conditions_of(rejected) == {"PodScheduled": "True"}
    assert "containerStatuses" not in rejected


def test_a_container_that_is_started_again_shows_when_and_how_it_ended() -> None:
    api = served(
        """
        cluster:
          - apiVersion: v1
            kind: Node
            metadata: {name: n1}
            status: {allocatable: {cpu: "4", pods: "10", nvidia.com/gpu: "1"}}
        steps:
          - {at: 10s, fail: [{node: n1, device: nvidia.com/gpu, exit_code: 3}]}
        """
    )
    done(ask(api, "POST", PODS, pod("a", containers=[needing("1", gpu="1")])))
    at(api, 2)
    bound(api, "a")
    at(api, 30)
    (container,) = list_at(status_of(api, f"{PODS}/a"), "containerStatuses")
    assert container["restartCount"] == 1
    assert container["state"] == {"running": {"startedAt": "1970-01-01T00:00:10Z"}}
    last = section(container, "lastState", "terminated")
    assert (last["exitCode"], last["startedAt"], last["finishedAt"]) == (
        *(3, "1970-01-01T00:00:02Z", "1970-01-01T00:00:10Z"),
    )


def test_a_silent_node_is_unknown_and_its_pods_are_not_ready_until_it_reports_again() -> None:
    api = served(
        NODE + "steps:\n  - {at: 10s, fail: [{node: n1, for: 100s, detected_after: 40s}]}\n"
    )
    posted(api, "a")
    bound(api, "a")
    at(api, 3)
    node = "/api/v1/nodes/n1"
    assert conditions_of(status_of(api, node)) == {
        "MemoryPressure": "False KubeletHasSufficientMemory",
        "DiskPressure": "False KubeletHasNoDiskPressure",
        "PIDPressure": "False KubeletHasSufficientPID",
        "Ready": "True KubeletReady",
    }
    at(api, 60)
    unknown = "Unknown NodeStatusUnknown"
    assert set(conditions_of(status_of(api, node)).values()) == {unknown}
    silent = conditions_of(status_of(api, f"{PODS}/a"))
    assert silent["Ready"].startswith("False")
    assert silent["ContainersReady"] == "True"
    at(api, 120)
    assert conditions_of(status_of(api, node))["PIDPressure"] == "False KubeletHasSufficientPID"
    assert conditions_of(status_of(api, f"{PODS}/a"))["Ready"].startswith("True")


def test_a_node_shows_its_version_its_name_as_address_and_its_capacity() -> None:
    status = status_of(served(NODE), "/api/v1/nodes/n1")
    assert section(status, "nodeInfo")["kubeletVersion"] == "v1.34.4"
    assert status["addresses"] == [{"type": "Hostname", "address": "n1"}]
    assert status["capacity"] == status["allocatable"] == {"cpu": "4", "pods": "10"}


def test_one_can_wait_for_a_deployment_and_for_a_job() -> None:
    api = served(NODE)
    template: JsonObject = {
        "metadata": {"labels": {"app": "a"}, "annotations": {"muster.sh/run-seconds": "5"}},
        "spec": {"nodeName": "n1", "restartPolicy": "Never", "containers": [needing("1")]},
    }
    selector: JsonObject = {"matchLabels": {"app": "a"}}
    deployment: JsonObject = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 2,
            "selector": selector,
            "template": {**template, "metadata": {"labels": {"app": "a"}}},
        },
    }
    deployments, jobs = (
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/batch/v1/namespaces/default/jobs",
    )
    done(ask(api, "POST", deployments, deployment))
    done(ask(api, "POST", jobs, {"metadata": {"name": "once"}, "spec": {"template": template}}))
    early = conditions_of(status_of(api, f"{deployments}/web"))
    assert early == {
        "Available": "False MinimumReplicasUnavailable",
        "Progressing": "True ReplicaSetUpdated",
    }
    at(api, 3)
    whole = status_of(api, f"{deployments}/web")
    assert conditions_of(whole)["Available"] == "True MinimumReplicasAvailable"
    assert conditions_of(whole)["Progressing"] == "True NewReplicaSetAvailable"
    assert whole["observedGeneration"] == 1
    assert "completionTime" not in status_of(api, f"{jobs}/once")
    at(api, 20)
    job = status_of(api, f"{jobs}/once")
    assert conditions_of(job)["Complete"] == "True"
    assert (job["startTime"], job["completionTime"]) == (
        *("1970-01-01T00:00:00Z", "1970-01-01T00:00:07Z"),
    )


def test_where_a_client_acts_as_the_kubelets_nothing_is_added() -> None:
    api = served(NODE, has_kubelets=False, has_controllers=False)
    posted(api, "a")
    bound(api, "a")
    assert conditions_of(status_of(api, f"{PODS}/a")) == {"PodScheduled": "True"}
    assert conditions_of(status_of(api, "/api/v1/nodes/n1")) == {}


def run_for(name: str, seconds: int) -> JsonObject:
    """The metadata of a pod that ends by itself."""
    return {"name": name, "annotations": {"muster.sh/run-seconds": str(seconds)}}


def needing(cpu: str, gpu: str = "") -> JsonObject:
    """A container."""
    limits: JsonObject = {"nvidia.com/gpu": gpu} if gpu else {}
    return {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}, "limits": limits}}
