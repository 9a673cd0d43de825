"""The actor and the recorder, with muster's own client and rights, on each server (K7.7, K8, K9, K11, K13)."""

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from daemon.cluster.acting.actor import Actor
from daemon.cluster.acting.binding import binding_of
from daemon.cluster.acting.k8s_events import EventNotice, Regarding
from daemon.cluster.acting.recorder import Recorder
from daemon.cluster.acting.request_budget import Pacing
from daemon.cluster.client.calls import BIND_POD, EVENTS, PATCH_POD, Call
from daemon.cluster.client.credentials import Access
from daemon.cluster.client.errors import ForbiddenError
from daemon.cluster.client.http_client import Client
from events.messages import (
    Accepted,
    AnnotateRequest,
    BindRequest,
    EvictRequest,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Rejected,
    Reply,
)
from projections.kinds.disruption_budget import BUDGETS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from tests.contract.served import MUSTER, Served
from tests.control_plane.api import Object
from tests.control_plane.manifests import budget

AT_NS = 1_763_712_900_000_042_000
NOBODY = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
async def client(
    server: Served, request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[Client]:
    """Muster's own client, with no more than muster's own rights."""
    if request.node.callspec.params["server"] == "real":
        path = request.getfixturevalue("cluster").muster
    else:
        path = tmp_path / "muster.yaml"
        config = json.loads(server.kubeconfig.read_bytes())
        config["users"][0]["user"] = {"token": MUSTER}
        path.write_text(json.dumps(config))
    client = await Client.connect(Access(path), secrets.SystemRandom().random, "muster/test")
    yield client
    await client.close()


@pytest.fixture
async def pacing() -> Pacing:
    """Short pauses, a short deadline."""
    clock = asyncio.get_running_loop().time
    return Pacing(jitter=lambda: 0.1, elapsed_seconds=clock, effect_seconds=5.0)


@pytest.fixture
async def actor(client: Client, pacing: Pacing) -> Actor:
    """The acting side, as the daemon has it."""
    return Actor(client, pacing, lambda: AT_NS)


def bind_request(pod: Object, node: str, uid: str = "", **annotations: str) -> BindRequest:
    metadata = pod["metadata"]
    return BindRequest(
        decision=7,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=uid or metadata["uid"],
        node=node,
        annotations={f"muster.sh/{key}": value for key, value in annotations.items()},
    )


def evict_request(pod: Object, uid: str = "") -> EvictRequest:
    metadata = pod["metadata"]
    return EvictRequest(
        decision=7,
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=uid or metadata["uid"],
        node="n",
    )


def code_of(reply: Reply) -> str:
    assert isinstance(reply, Rejected), reply
    return reply.code


async def test_a_pod_is_bound_with_its_annotations_and_again_without_harm(
    server: Served, actor: Actor
) -> None:
    """Rules K8.1 and K8.4, rows 201 and 409"""
    pod = await server.pod()
    request = bind_request(pod, "n1", devices="0,1")
    assert await actor.attempt(request) == (Accepted(), 1)
    found = await server.read(pod)
    assert found["spec"]["nodeName"] == "n1"
    assert found["metadata"]["annotations"]["muster.sh/devices"] == "0,1"
    assert await actor.attempt(request) == (Accepted(), 2)
    assert code_of(await actor.perform(bind_request(pod, "n1", devices="2,3"))) == "Conflict"
    assert code_of(await actor.perform(bind_request(pod, "n2", devices="0,1"))) == "Conflict"


async def test_devices_are_written_on_the_pod_that_was_meant_before_it_is_bound(
    server: Served, actor: Actor
) -> None:
    """Rule K13.1: a merge patch with another UID is refused."""
    pod = await server.pod()
    metadata = pod["metadata"]
    place = (7, metadata["namespace"], metadata["name"])
    written = {"huawei.com/Ascend910": "Ascend910-0", "predicate-time": "1700000000000000001"}
    request = AnnotateRequest(*place, metadata["uid"], "n1", written)
    assert await actor.attempt(request) == (Accepted(), 2)
    assert await actor.attempt(request) == (Accepted(), 1), "they are there"
    found = await server.read(pod)
    assert found["metadata"]["annotations"].items() >= written.items()
    assert "nodeName" not in found["spec"]
    other = AnnotateRequest(*place, "another-uid", "n1", {"huawei.com/Ascend910": "Ascend910-1"})
    assert code_of(await actor.perform(other)) == "Conflict"
    assert (await server.read(pod))["metadata"]["annotations"].items() >= written.items()
    assert await actor.perform(bind_request(pod, "n1")) == Accepted()
    absent = AnnotateRequest(7, metadata["namespace"], "absent", "1", "n1", written)
    assert code_of(await actor.perform(absent)) == "NotFound"


class LatePatch:
    """A client whose first patch arrives after `release`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.is_sent, self.release = asyncio.Event(), asyncio.Event()

    async def request(self, call: Call, **options: Any) -> bytes:
        """Make a request, the first patch later."""
        if call == PATCH_POD and not self.is_sent.is_set():
            self.is_sent.set()
            await self.release.wait()
        return await self._client.request(call, **options)


async def test_devices_of_an_earlier_decision_are_not_written_after_the_binding(
    server: Served, client: Client, pacing: Pacing, actor: Actor
) -> None:
    """A patch that a daemon sent before it ended may arrive when another daemon has bound the pod."""
    pod = await server.pod()
    metadata = pod["metadata"]
    place = (metadata["namespace"], metadata["name"], metadata["uid"], "n1")
    late = LatePatch(client)
    async with asyncio.TaskGroup() as tasks:
        request = AnnotateRequest(6, *place, {"huawei.com/Ascend910": "Ascend910-0"})
        earlier = tasks.create_task(Actor(late, pacing, lambda: AT_NS).perform(request))
        await late.is_sent.wait()
        request = AnnotateRequest(7, *place, {"huawei.com/Ascend910": "Ascend910-1"})
        assert await actor.perform(request) == Accepted()
        assert await actor.perform(bind_request(pod, "n1")) == Accepted()
        late.release.set()
    assert earlier.result() == Rejected("Conflict", "already assigned to node n1")
    found = await server.read(pod)
    assert found["metadata"]["annotations"]["huawei.com/Ascend910"] == "Ascend910-1"


async def test_a_pod_with_devices_is_not_bound_by_an_earlier_request_once_its_refusal_is_known(
    server: Served, client: Client, pacing: Pacing
) -> None:
    """The devices of a refused binding go to other pods."""
    pod = await server.pod()
    request = structs.replace(
        bind_request(pod, "n1"), devices={"predicate-time": "1"}, is_in_doubt=True
    )
    reply = await Actor(Refusing(client), pacing, lambda: AT_NS).perform(request)
    assert code_of(reply) == "Forbidden"
    found = await server.read(pod)
    assert found["metadata"]["annotations"]["muster.sh/withdrawn-decision"] == "7"
    earlier = json.loads(binding_of(request, pod["metadata"]["resourceVersion"]))
    assert (await server.api.post(server.path(pod, "binding"), earlier)).status == 409
    assert "nodeName" not in (await server.read(pod))["spec"]


class Refusing:
    """A client whose bindings an admission rule refuses."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def request(self, call: Call, **options: Any) -> bytes:
        """Make a request that is no binding."""
        if call == BIND_POD:
            raise ForbiddenError(call.what, 403, "Forbidden", "no", (), None)
        return await self._client.request(call, **options)


async def test_only_the_pod_that_was_meant_is_bound(server: Served, actor: Actor) -> None:
    """Rows 404 and 409 of rule K8"""
    pod = await server.pod()
    assert code_of(await actor.perform(bind_request(pod, "n1", NOBODY))) == "Conflict"
    gated = await server.pod("gated", schedulingGates=[{"name": "muster.sh/wait"}])
    assert code_of(await actor.perform(bind_request(gated, "n1"))) == "Conflict"
    gone = {"metadata": {**pod["metadata"], "name": "gone"}}
    assert code_of(await actor.perform(bind_request(gone, "n1"))) == "NotFound"
    assert "nodeName" not in (await server.read(pod))["spec"]


async def test_nothing_is_bound_or_evicted_in_a_namespace_that_is_ending(
    server: Served, actor: Actor
) -> None:
    """Row 403 of rule K8"""
    pod = await server.pod()
    path = server.path(pod)
    (await server.api.patch(path, {"metadata": {"finalizers": ["muster.sh/test"]}})).expect(200)
    namespace = f"/api/v1/namespaces/{server.namespace}"
    (await server.api.delete(namespace)).expect(200, 202)
    await server.until(namespace, lambda found: found["status"]["phase"] == "Terminating")
    reply = await actor.perform(bind_request(pod, "n1"))
    (await server.api.patch(path, {"metadata": {"finalizers": None}})).expect(200, 404)
    assert code_of(reply) in ("NamespaceTerminating", "Conflict")


async def test_an_eviction_checks_uid_and_disruption_budget(server: Served, actor: Actor) -> None:
    """Rules K9.1 and K9.2"""
    node = (await server.node())["metadata"]["name"]
    pod = await server.run("pod", node, {"app": "a"})
    assert await actor.perform(evict_request(pod, NOBODY)) == Accepted(), "that pod is gone already"
    guarded = await server.run("guarded", node, {"app": "b"})
    await server.api.create(BUDGETS, budget(server.namespace, "b", {"app": "b"}, 1))
    reply = await actor.perform(evict_request(guarded))
    assert code_of(reply) == "DisruptionBudget"
    await server.api.create(BUDGETS, budget(server.namespace, "b2", {"app": "b"}, 1))
    assert code_of(await actor.perform(evict_request(guarded))) == "TooManyBudgets"
    assert await actor.attempt(evict_request(pod)) == (Accepted(), 1)
    assert "deletionTimestamp" in (await server.read(pod))["metadata"]
    assert await actor.perform(evict_request(pod)) == Accepted()
    gone = {"metadata": {**pod["metadata"], "name": "gone"}}
    assert await actor.perform(evict_request(gone)) == Accepted()


async def test_the_pod_scheduled_condition_keeps_conditions_of_other_writers(
    server: Served, actor: Actor
) -> None:
    """Rules K7.3, K7.7, K13.1 and K13.2"""
    pod = await server.pod()
    foreign = {"type": "example.com/Ready", "status": "True"}
    status = {"status": {"conditions": [foreign]}}
    (await server.api.patch(server.path(pod, "status"), status)).expect(200)

    def told(message: str, node: str = "", uid: str = "") -> PodConditionRequest:
        return PodConditionRequest(
            decision=7,
            namespace=server.namespace,
            name="pod",
            uid=uid or pod["metadata"]["uid"],
            reason="Unschedulable",
            message=message,
            nominated_node=node,
        )

    assert await actor.perform(told("0/1 nodes are available", "n1")) == Accepted()
    found = (await server.read(pod))["status"]
    conditions = {one["type"]: one for one in found["conditions"]}
    assert conditions["example.com/Ready"]["status"] == "True"
    assert conditions["PodScheduled"]["status"] == "False"
    assert conditions["PodScheduled"]["message"] == "0/1 nodes are available"
    assert conditions["PodScheduled"]["lastTransitionTime"] == "2025-11-21T08:15:00Z"
    assert found["nominatedNodeName"] == "n1"
    assert await actor.perform(told("0/2 nodes are available")) == Accepted()
    found = (await server.read(pod))["status"]
    conditions = {one["type"]: one for one in found["conditions"]}
    assert conditions["PodScheduled"]["message"] == "0/2 nodes are available"
    assert conditions["PodScheduled"]["lastTransitionTime"] == "2025-11-21T08:15:00Z"
    assert "nominatedNodeName" not in found
    assert code_of(await actor.perform(told("m", uid=NOBODY))) == "Conflict"


async def test_pod_group_phase_and_condition_keep_conditions_of_other_writers(
    server: Served, actor: Actor
) -> None:
    """Volcano B.14, rules K13.1 and K13.2"""
    name = "group"
    foreign = {"type": "Scheduled", "status": "True", "reason": "r", "message": "of another"}
    metadata = {"name": name, "namespace": server.namespace}
    manifest = {
        "apiVersion": POD_GROUPS.api_version,
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": 2},
        "status": {"phase": "Pending", "conditions": [foreign]},
    }
    group = await server.api.create(POD_GROUPS, manifest)
    uid = group["metadata"]["uid"]

    def phase(uid: str, phase: str) -> PodGroupPhaseRequest:
        return PodGroupPhaseRequest(
            decision=7, namespace=server.namespace, name=name, uid=uid, phase=phase
        )

    def condition(message: str) -> PodGroupConditionRequest:
        return PodGroupConditionRequest(
            decision=8,
            namespace=server.namespace,
            name=name,
            uid=uid,
            type="Unschedulable",
            reason="NotEnoughResources",
            message=message,
        )

    assert await actor.perform(phase(uid, "Inqueue")) == Accepted()
    assert await actor.perform(condition("first")) == Accepted()
    assert await actor.perform(condition("second")) == Accepted()
    path = POD_GROUPS.object_path(name, server.namespace)
    found = (await server.api.get(path)).expect(200)
    assert found["spec"] == {"minMember": 2}
    assert found["status"]["phase"] == "Inqueue"
    told = {one["type"]: one["message"] for one in found["status"]["conditions"]}
    assert told["Unschedulable"] == "second"
    assert len(told) == len(found["status"]["conditions"])
    # Again, and nothing is written.
    assert await actor.attempt(condition("second")) == (Accepted(), 1)
    again = (await server.api.get(path)).expect(200)
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    assert code_of(await actor.perform(phase(NOBODY, "Running"))) == "Conflict"


async def test_queue_status_allocated_drops_resources_that_are_released(
    server: Served, actor: Actor
) -> None:
    """Volcano A.1: the map holds cpu and memory, and nothing that was"""
    name = server.unique("queue")
    manifest = {
        "apiVersion": QUEUES.api_version,
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": 1},
    }
    uid = (await server.api.create(QUEUES, manifest))["metadata"]["uid"]

    async def told(allocated: dict[str, str], uid: str = uid) -> Reply:
        return await actor.perform(
            QueueStatusRequest(decision=7, name=name, uid=uid, allocated=allocated)
        )

    path = QUEUES.object_path(name)
    try:
        assert await told({"cpu": "4", "nvidia.com/gpu": "3"}) == Accepted()
        found = (await server.api.get(path)).expect(200)
        assert found["status"]["allocated"] == {"cpu": "4", "memory": "0", "nvidia.com/gpu": "3"}
        assert await told({}) == Accepted()
        found = (await server.api.get(path)).expect(200)
        assert found["status"]["allocated"] == {"cpu": "0", "memory": "0"}
        assert code_of(await told({}, NOBODY)) == "Conflict"
    finally:
        (await server.api.delete(path)).expect(200)


async def test_k8s_events_are_accepted_and_recreated_after_deletion(
    server: Served, client: Client, pacing: Pacing
) -> None:
    """Rules K11.1 and K11.2"""
    now_ns = AT_NS
    recorder = Recorder(client, pacing, lambda: now_ns, "host-" + "x" * 200)
    regarding = Regarding("Pod", "p" * 200, NOBODY, server.namespace)
    notice = EventNotice(regarding, "Warning", "FailedScheduling", "NotEnoughResources", "é" * 2000)
    path = EVENTS.collection_path(server.namespace)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(recorder.run())
        recorder.note([notice, notice, notice])
        assert await recorder.drained(10.0)
        (event,) = await _events(server, path)
        assert event["series"]["count"] == 3
        assert event["eventTime"] == "2025-11-21T08:15:00.000042Z"
        assert event["regarding"]["uid"] == NOBODY
        (await server.api.delete(f"{path}/{event['metadata']['name']}")).expect(200)
        recorder.note([notice])
        assert await recorder.drained(10.0)
        (anew,) = await _events(server, path)
        assert anew["metadata"]["name"] != event["metadata"]["name"]
        task.cancel()
    assert (recorder.written, recorder.dropped) == (4, 0)


async def _events(server: Served, path: str) -> list[Object]:
    found = await server.api.items(path)
    return [one for one in found if one["reason"] == "FailedScheduling"]
