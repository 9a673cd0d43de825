"""A person with kubectl at the simulated API server sees what a real one shows."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from daemon.cluster.server.simulated_api_server import running_server
from projections.kinds.node import NODES
from projections.kinds.pod import PODS
from simulator.scenario import Scenario
from tests.control_plane.api import Api
from tests.control_plane.kubectl import Kubectl, needs_kubectl, rows_of
from tests.control_plane.manifests import binding, node, pod

pytestmark = needs_kubectl

QUEUE_AND_GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec: {weight: 3}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: train, namespace: default}
spec: {minMember: 4, queue: research}
"""


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[Path]:
    """A cluster of one node with a pod that runs on it and one that waits."""
    async with running_server(Scenario(name="by hand")) as server:
        path = server.kubeconfig(tmp_path / "kubeconfig")
        async with Api.of(path) as api:
            await api.create(NODES, node("n1"))
            for name in ("runs", "waits"):
                await api.create(PODS, pod("default", name))
            runs = (await api.get(PODS.object_path("runs", "default"))).expect(200)
            bound = PODS.object_path("runs", "default", "binding")
            (await api.post(bound, binding(runs, "n1"))).expect(201)
        yield path


@pytest.fixture
def kubectl(kubeconfig: Path, tmp_path: Path) -> Kubectl:
    """kubectl for this cluster."""
    return Kubectl(kubeconfig, tmp_path)


async def test_pods_and_nodes_are_listed_under_their_short_names(kubectl: Kubectl) -> None:
    await kubectl("wait --for=condition=Ready pod/runs --timeout=30s")
    header, *rows = rows_of(await kubectl("get po -o wide"))
    assert header[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [(*row[:4], row[6]) for row in rows] == [
        ("runs", "1/1", "Running", "0", "n1"),
        ("waits", "0/1", "Pending", "0", "<none>"),
    ]
    _, row = rows_of(await kubectl("get no"))
    assert (row[:3], row[4]) == (["n1", "Ready", "<none>"], "v1.34.4")


async def test_queues_and_pod_groups_have_the_columns_of_their_definitions(
    kubectl: Kubectl,
) -> None:
    await kubectl("apply --validate=false -f -", QUEUE_AND_GROUP)
    header, row = rows_of(await kubectl("get q"))
    assert (header, row[:2]) == (["NAME", "PARENT", "WEIGHT", "STATE", "AGE"], ["research", "3"])
    header, row = rows_of(await kubectl("get pg"))
    assert header == ["NAME", "PHASE", "MINIMUM", "RUNNING", "QUEUE", "AGE"]
    assert "4" in row
    assert "research" in row


async def test_events_are_listed_and_described(kubectl: Kubectl, kubeconfig: Path) -> None:
    async with Api.of(kubeconfig) as api:
        waits = (await api.get(PODS.object_path("waits", "default"))).expect(200)
        event = {
            "metadata": {"name": "waits.1", "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "regarding": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": "default",
                "name": "waits",
                "uid": waits["metadata"]["uid"],
            },
            "reason": "Insufficient",
            "note": "no node has a free card",
            "type": "Warning",
            "action": "Scheduling",
            "reportingController": "muster.sh/scheduler",
            "reportingInstance": "m-0",
        }
        (await api.post("/apis/events.k8s.io/v1/namespaces/default/events", event)).expect(201)
    wanted = ["Warning", "Insufficient", "pod/waits", "no node has a free card"]
    listed = rows_of(await kubectl("get events --field-selector reason=Insufficient"))
    assert [row[1:] for row in listed[1:]] == [wanted]
    of_pod = rows_of(await kubectl("events --for pod/waits --types Warning"))
    assert [row[1:] for row in of_pod[1:]] == [[*wanted[:2], "Pod/waits", wanted[3]]]
    told = await kubectl("describe pod waits")
    assert "no node has a free card" in told.split("Events:")[1]


async def test_a_watch_shows_a_pod_as_it_is_deleted(kubectl: Kubectl) -> None:
    await kubectl("wait --for=condition=Ready pod/runs --timeout=30s")
    seen = []
    async with aclosing(kubectl.until("get pods runs --watch", "Terminating")) as lines:
        async for line in lines:
            seen.append(line)
            if line[:3] == ["runs", "1/1", "Running"]:
                await kubectl("delete pod runs --wait=false")
    assert [line[0] for line in seen] == ["NAME", "runs", "runs"]
    await kubectl("wait --for=delete pod/runs --timeout=60s")


async def test_the_server_says_that_it_is_ready(kubectl: Kubectl) -> None:
    assert await kubectl("get --raw /readyz") == "ok"
    assert "readyz check passed" in await kubectl("get --raw /readyz?verbose")
    assert await kubectl("get --raw /livez") == "ok"


async def test_waiting_for_what_does_not_come_ends_with_an_error(kubectl: Kubectl) -> None:
    code, _, warned = await kubectl.run("wait --for=condition=Ready pod/waits --timeout=1s")
    assert code == 1
    assert "timed out" in warned
