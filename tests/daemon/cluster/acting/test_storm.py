"""Effects over HTTP while the server fails: what is answered is so (rules K8, K9, K11, K13)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from daemon.cluster.acting import recorder as recording
from daemon.cluster.acting import request_budget
from daemon.cluster.acting.actor import Actor
from daemon.cluster.acting.k8s_events import EventNotice, Regarding
from daemon.cluster.acting.recorder import Recorder
from daemon.cluster.acting.request_budget import Pacing
from daemon.cluster.client.calls import EVENTS
from daemon.cluster.client.credentials import Access
from daemon.cluster.client.http_client import Client
from daemon.cluster.server.simulated_api_server import running_server
from events.messages import (
    Accepted,
    BindRequest,
    EvictRequest,
    OutcomeUnknown,
    PodConditionRequest,
    PodGroupConditionRequest,
    PodGroupPhaseRequest,
    QueueStatusRequest,
    Rejected,
    Reply,
    Request,
)
from projections.kinds.namespace import NAMESPACES
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from simulator.api_server.api import Behaviour
from simulator.api_server.faults import Fault, FaultContext, SeededFaults
from simulator.scenario import Scenario
from tests.control_plane.api import Api, Object
from tests.control_plane.manifests import pod

FASTER = 50
"""So many times faster than real time passes where the actor waits between requests."""

PODS_AT_ONCE = 24
NAMESPACE = "default"
STRUCK_PER_THOUSAND = 300


def chance() -> Callable[[], float]:
    """The same jitter in every run."""
    numbers = iter(range(1_000_000))
    return lambda: next(numbers) * 0.618 % 1


class Faults(SeededFaults):
    """Faults that are counted."""

    struck = 0

    def pick(self, ask: FaultContext) -> Fault | None:
        """What befalls a request."""
        fault = super().pick(ask)
        self.struck += fault is not None
        return fault


class Storm:
    """An actor, and a server that can be made to fail."""

    def __init__(self, api: Api, client: Client, faults: Faults) -> None:
        loop = asyncio.get_running_loop()
        self.api = api
        self.pacing = Pacing(
            jitter=chance(),
            elapsed_seconds=lambda: loop.time() * FASTER,
            sleep=lambda seconds: asyncio.sleep(seconds / FASTER),
            # Requests themselves pass in real time.
            effect_seconds=25.0 * FASTER,
        )
        self.client = client
        self.actor = Actor(client, self.pacing, lambda: 0)
        self.faults = faults

    async def create(self, name: str) -> Object:
        """A pod that waits."""
        return await self.api.create(PODS, pod(NAMESPACE, name))

    async def answered(self, requests: list[Request]) -> list[Reply]:
        """What comes of requests while the server fails; what is unknown is asked again."""
        self.faults.is_on = True
        async with asyncio.timeout(60.0), asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._answered(one)) for one in requests]
        self.faults.is_on = False
        return [one.result() for one in running]

    async def _answered(self, request: Request) -> Reply:
        reply: Reply = OutcomeUnknown(message="")
        for _ in range(20):
            reply = await self.actor.perform(request)
            if not isinstance(reply, OutcomeUnknown):
                break
        return reply

    async def found(self, path: str) -> Object | None:
        """An object as it is, or None."""
        answer = await self.api.get(path)
        return None if answer.status == 404 else answer.expect(200)


@asynccontextmanager
async def storm(seed: int, folder: Path) -> AsyncIterator[Storm]:
    faults = Faults(seed, STRUCK_PER_THOUSAND)
    faults.is_on = False
    behaviour = Behaviour(has_kubelets=False)
    async with running_server(Scenario(name="storm"), behaviour=behaviour, faults=faults) as server:
        kubeconfig = server.kubeconfig(folder / "config")
        client = await Client.connect(Access(kubeconfig), chance(), "muster/test")
        async with Api.of(kubeconfig) as api:
            if (await api.get(NAMESPACES.object_path(NAMESPACE))).status == 404:
                await api.create(NAMESPACES, {"kind": "Namespace", "metadata": {"name": NAMESPACE}})
            yield Storm(api, client, faults)
        await client.close()
    assert faults.struck > 5


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says no more is given up soon."""
    monkeypatch.setattr(request_budget, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(request_budget, "SHORTEST_REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(recording, "REQUEST_SECONDS", 0.5)


def path_of(name: str) -> str:
    return PODS.object_path(name, NAMESPACE)


@pytest.mark.parametrize("seed", range(3))
async def test_bindings_and_evictions_are_what_the_answers_say(seed: int, tmp_path: Path) -> None:
    async with storm(seed, tmp_path) as given:
        names = [f"p-{number}" for number in range(PODS_AT_ONCE)]
        uids = {name: (await given.create(name))["metadata"]["uid"] for name in names}
        binds: list[Request] = [
            BindRequest(7, NAMESPACE, name, uids[name], f"n-{name}", {"muster.sh/devices": name})
            for name in names
        ]
        bound = dict(zip(names, await given.answered(binds), strict=True))
        for name, reply in bound.items():
            seen = await given.found(path_of(name))
            assert seen is not None
            is_bound = seen["spec"].get("nodeName") == f"n-{name}"
            assert isinstance(reply, Accepted) == is_bound
            assert isinstance(reply, Rejected) == (not is_bound)
            if is_bound:
                assert seen["metadata"]["annotations"]["muster.sh/devices"] == name
        evictions: list[Request] = [
            EvictRequest(8, NAMESPACE, name, uids[name], f"n-{name}") for name in names
        ]
        evicted = dict(zip(names, await given.answered(evictions), strict=True))
        for name, reply in evicted.items():
            left = await given.found(path_of(name))
            is_ending = left is None or "deletionTimestamp" in left["metadata"]
            assert isinstance(reply, Accepted) == is_ending
    assert sum(isinstance(one, Accepted) for one in bound.values()) > PODS_AT_ONCE // 2


@pytest.mark.parametrize("seed", range(3))
async def test_statuses_say_what_the_answers_say(seed: int, tmp_path: Path) -> None:
    async with storm(seed, tmp_path) as given:
        waiting = await given.create("p")
        group = await given.api.create(POD_GROUPS, custom(POD_GROUPS.api_version, "PodGroup", "g"))
        queue = await given.api.create(QUEUES, custom(QUEUES.api_version, "Queue", "q"))
        for turn in range(8):
            text = f"turn {turn}"
            phase = ("Pending", "Inqueue")[turn % 2]
            requests: list[Request] = [
                PodConditionRequest(7, NAMESPACE, "p", uid(waiting), "Unschedulable", text),
                PodGroupPhaseRequest(7, NAMESPACE, "g", uid(group), phase),
                PodGroupConditionRequest(7, NAMESPACE, "g", uid(group), "Unschedulable", "r", text),
                QueueStatusRequest(7, "q", uid(queue), {f"x/{turn}": "1"}),
            ]
            replies = await given.answered(requests)
            seen = [
                await given.found(path)
                for path in (
                    path_of("p"),
                    POD_GROUPS.object_path("g", NAMESPACE),
                    POD_GROUPS.object_path("g", NAMESPACE),
                    QUEUES.object_path("q"),
                )
            ]
            said = [one and one.get("status", {}) for one in seen]
            assert said[0] is not None
            assert said[1] is not None
            assert said[2] is not None
            assert said[3] is not None
            is_so = [
                text in _messages(said[0]),
                said[1].get("phase") == phase,
                text in _messages(said[2]),
                said[3].get("allocated") == {"cpu": "0", "memory": "0", f"x/{turn}": "1"},
            ]
            for reply, so in zip(replies, is_so, strict=True):
                assert so or not isinstance(reply, Accepted)


async def test_events_come_through_a_storm_or_are_counted(tmp_path: Path) -> None:
    async with storm(1, tmp_path) as given:
        recorder = Recorder(given.client, given.pacing, lambda: 1_763_712_900_000_000_000, "h")
        names = [f"e-{number}" for number in range(40)]
        notices = [
            EventNotice(
                Regarding("Pod", name, "u", NAMESPACE), "Normal", "Scheduled", "Binding", "m"
            )
            for name in names
        ]
        given.faults.is_on = True
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(recorder.run())
            recorder.note(notices)
            assert await recorder.drained(60.0)
            task.cancel()
        given.faults.is_on = False
        there = await given.api.items(EVENTS.collection_path(NAMESPACE))
    told = {one["regarding"]["name"] for one in there}
    assert recorder.written + recorder.dropped == len(names)
    assert len(told) >= recorder.written > len(names) // 2


def custom(api_version: str, kind: str, name: str) -> Object:
    metadata = {"name": name} | ({} if kind == "Queue" else {"namespace": NAMESPACE})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": {}}


def uid(found: Object) -> str:
    return str(found["metadata"]["uid"])


def _messages(status: dict[str, Any]) -> list[str]:
    return [one.get("message", "") for one in status.get("conditions", [])]
