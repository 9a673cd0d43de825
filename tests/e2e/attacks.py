"""Attacks: objects that a tenant may create and the API server accepts, and requests to the daemon's HTTP server.

Each must leave the pods of other tenants scheduled.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from typing import Any, Final

from msgspec import Struct

from projections.api_resource import Resource
from projections.kinds.hyper_node import HYPER_NODES
from projections.kinds.pod import PODS
from projections.kinds.pod_group import POD_GROUPS
from projections.kinds.volcano_queue import QUEUES
from projections.kinds.workload import VOLCANO_JOBS
from tests.control_plane.api import Object
from tests.control_plane.manifests import pod, pod_spec
from tests.control_plane.volcano_jobs import VolcanoJobs
from tests.e2e.daemon import Daemon
from tests.e2e.rig import POOL, Rig, is_running

CONCURRENCY: Final = 16
"""Requests at a time while many objects are created or deleted."""
DIGITS: Final = "9" * 5_000
BRACKETS: Final = "[" * 100_000
DEPTH: Final = 3_000
LONG_NAME: Final = "n" * 9_000
TOLERATIONS: Final = 10_000
COMPACTED_TURNS: Final = 4
"""Turns with 240 such pods after which etcd is compacted: all their revisions take about 1.3 GB."""
PEERS: Final = 8
"""Loopback addresses from which HTTP requests are sent; probes come from another."""


class Attack(Struct, frozen=True, kw_only=True):
    """One row of the table."""

    name: str
    begin: Callable[["Attacker"], Awaitable[None]]
    policy: Object | None = None
    """For the form with a daemon of its own."""
    short: float = 0.2
    """The part of it that `make test-e2e` makes."""


class Attacker:
    """Creates the objects of attacks, and deletes them again.

    `size` is the share of a large attack that is made, between 0 and 1.
    """

    def __init__(self, rig: Rig, daemon: Daemon) -> None:
        self.rig = rig
        self.daemon = daemon
        self.size = 1.0
        self._made: list[str] = []
        self._pods: list[str] = []

    def count(self, full: int) -> int:
        """Return how many of the full attack's objects are made, at least one."""
        return max(1, int(full * self.size))

    def named(self, name: str) -> str:
        """Return a name that no other test uses."""
        return f"{self.rig.namespace}-{name}"

    async def queue(
        self, name: str, annotations: dict[str, str] | None = None, **spec: Any
    ) -> None:
        """Create a queue."""
        await self._create(QUEUES, name, annotations, {"weight": 1, **spec})

    async def group(
        self, name: str, annotations: dict[str, str] | None = None, **spec: Any
    ) -> None:
        """Create a pod group."""
        await self._create(POD_GROUPS, name, annotations, {"minMember": 1, **spec})

    async def hyper_node(self, name: str, **spec: Any) -> None:
        """Create a HyperNode."""
        await self._create(HYPER_NODES, name, None, spec)

    async def pod(
        self,
        name: str,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        cpu: str = "",
        **spec: Any,
    ) -> None:
        """Create a pod without cards."""
        manifest = {**pod(self.rig.namespace, name), "spec": self.rig.spec(0, **spec)}
        manifest["metadata"] |= {"annotations": annotations or {}, "labels": labels or {}}
        if cpu:
            manifest["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}}
        self._pods.append(PODS.object_path(name, self.rig.namespace))
        await self.rig.api.create(PODS, manifest)

    async def delete_pods(self) -> None:
        """Delete all pods, one by one: for large ones the answer to deleting a collection comes too late."""
        options = {"gracePeriodSeconds": 0}
        await concurrently(self.rig.api.delete(path, options) for path in self._pods)
        self._pods.clear()

    async def clear(self) -> None:
        """Delete all that was made."""
        await self.delete_pods()
        await concurrently(self.rig.api.delete(path) for path in self._made)
        self._made.clear()

    def created(self, path: str) -> None:
        """Remember to delete an object."""
        self._made.append(path)

    async def compact(self) -> None:
        """Compact etcd where it is ours: it holds no more than 2 GB, old revisions included."""
        plane = self.rig.cluster.plane
        if plane is not None:
            await asyncio.to_thread(plane.compact)

    async def _create(
        self, resource: Resource, name: str, annotations: dict[str, str] | None, spec: Object
    ) -> None:
        name, namespace = self.named(name), ""
        metadata: Object = {"name": name, "annotations": annotations or {}}
        if resource.is_namespaced:
            metadata["namespace"] = namespace = self.rig.namespace
        self.created(resource.object_path(name, namespace))
        manifest = {"apiVersion": resource.api_version, "kind": resource.kind}
        await self.rig.api.create(resource, {**manifest, "metadata": metadata, "spec": spec})


async def concurrently(calls: Iterable[Awaitable[object]]) -> None:
    """Make many calls, `CONCURRENCY` at a time."""
    limit = asyncio.Semaphore(CONCURRENCY)

    async def one(call: Awaitable[object]) -> None:
        async with limit:
            await call

    await asyncio.gather(*(one(call) for call in calls))


async def digits(attacker: Attacker) -> None:
    """Amounts of 5,000 digits."""
    await attacker.queue("digits", capability={"cpu": DIGITS})
    await attacker.group("digits", minResources={"cpu": DIGITS})
    await attacker.pod("digits", {"scheduling.k8s.io/group-name": attacker.named("digits")})


async def brackets(attacker: Attacker) -> None:
    """JSON that is 100,000 levels deep, in annotations."""
    await attacker.queue("brackets", {"volcano.sh/card.quota": BRACKETS})
    await attacker.group("brackets", {"volcano.sh/card.request": BRACKETS})
    await attacker.pod("brackets", {"scheduling.k8s.io/group-name": attacker.named("brackets")})


async def nested(attacker: Attacker) -> None:
    """An unknown field that is 3,000 levels deep, in a pod group and in a queue."""
    name, namespace = attacker.named("nested"), attacker.rig.namespace
    deep = '{"a":' * DEPTH + "1" + "}" * DEPTH
    for resource in (POD_GROUPS, QUEUES):
        within = namespace if resource.is_namespaced else ""
        manifest = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": name, **({"namespace": within} if within else {})},
            "spec": {"minMember": 1, "unknown": "DEEP"} if within else {"unknown": "DEEP"},
        }
        body = json.dumps(manifest).replace('"DEEP"', deep).encode()
        path = resource.collection_path(within) if within else resource.path
        answer = await attacker.rig.api.post(path, body)
        assert answer.status == 201  # The answer's body is as deep: it is not decoded.
        attacker.created(resource.object_path(name, within))
    queue = {"scheduling.volcano.sh/queue-name": name}
    await attacker.pod("nested", {"scheduling.k8s.io/group-name": name})
    await attacker.pod("nested-queue", queue)


async def waiting_time(attacker: Attacker) -> None:
    """A duration of 250,000 digits and a letter."""
    await attacker.group("sla", {"volcano.sh/sla-waiting-time": "1" * 250_000 + "x"})
    await attacker.pod("sla", {"scheduling.k8s.io/group-name": attacker.named("sla")})


async def pattern(attacker: Attacker) -> None:
    """A regular expression that backtracks, and a node's name that makes it."""
    name = "a" * 50
    await attacker.rig.add_nodes(1, prefix=name)
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": "^(a+)+$"}}}
    whole = {"type": "Node", "selector": {"regexMatch": {"pattern": ".*-(a+)+$"}}}
    await attacker.hyper_node("pattern", tier=1, members=[member])
    await attacker.hyper_node("pattern-2", tier=1, members=[whole])


async def names(attacker: Attacker) -> None:
    """NUL in names of groups and queues, and names of 9,000 characters."""
    for index, name in enumerate(("a\0b", LONG_NAME)):
        await attacker.pod(f"name-{index}", {"scheduling.k8s.io/group-name": name})
        await attacker.pod(f"queue-{index}", {"scheduling.volcano.sh/queue-name": name})
        await attacker.group(f"name-{index}", queue=name)


async def unlike_pods(attacker: Attacker) -> None:
    """1,500 pods in one queue, no two of them alike."""
    queue = {"scheduling.volcano.sh/queue-name": attacker.named("unlike")}
    await attacker.queue("unlike")
    await concurrently(
        attacker.pod(f"unlike-{index}", queue, cpu=f"{60_000 + index}m")
        for index in range(attacker.count(1_500))
    )


async def chain(attacker: Attacker) -> None:
    """1,200 queues, each the parent of the next, and a pod in each of the last five."""
    count = attacker.count(1_200)
    for index in range(count):
        parent = attacker.named(f"chain-{index - 1}") if index else "root"
        depth = min(index, 400) + 1
        path = "/".join(["root", *(f"c{one}" for one in range(depth))])
        weights = "/".join(["1"] * (depth + 1))
        annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
        await attacker.queue(f"chain-{index}", annotations, parent=parent)
    for index in range(max(0, count - 5), count):
        queue = {"scheduling.volcano.sh/queue-name": attacker.named(f"chain-{index}")}
        await attacker.pod(f"chain-{index}", queue, cpu="100m")


async def tolerations(attacker: Attacker) -> None:
    """240 pods with 10,000 tolerations each, created and deleted, 12 times over."""
    count = attacker.count(240)

    async def one(turn: int, index: int) -> None:
        keys = (f"k{turn}-{index}-{number}" for number in range(TOLERATIONS))
        wanted = [{"key": key, "operator": "Exists"} for key in keys]
        await attacker.pod(f"tolerations-{turn}-{index}", tolerations=wanted, cpu="60")

    for turn in range(attacker.count(12)):
        await concurrently(one(turn, index) for index in range(count))
        await attacker.delete_pods()
        if turn % COMPACTED_TURNS == COMPACTED_TURNS - 1:
            await attacker.compact()


async def spread(attacker: Attacker) -> None:
    """600 unlike pods that must be spread over ten nodes, most of which are full after 100 pods."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    await attacker.rig.add_nodes(8, prefix="spread")
    await concurrently(
        attacker.pod(
            f"spread-{index}",
            labels={"app": "spread", "index": str(index)},
            topologySpreadConstraints=[constraint],
            cpu=f"{1000 + index}m",
        )
        for index in range(attacker.count(600))
    )


async def half_requests(attacker: Attacker) -> None:
    """1,000 HTTP requests, from eight addresses, of which only the beginning is sent."""
    async with AsyncExitStack() as stack:
        for index in range(attacker.count(1_000)):
            source = (f"127.0.0.{index % PEERS + 2}", 0)
            try:
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", attacker.daemon.port, local_addr=source
                )
            except OSError:
                continue  # The daemon may refuse it.
            stack.callback(writer.close)
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n")
        await asyncio.sleep(5.0)


async def volcano_job(attacker: Attacker) -> None:
    """A Volcano Job of a launcher without requests and two workers, `minAvailable` 3: all three run."""
    rig = attacker.rig

    def task(name: str, replicas: int, requests: dict[str, str]) -> Object:
        spec = pod_spec(schedulerName=rig.scheduler, nodeSelector={POOL: rig.namespace})
        spec["containers"][0]["resources"] = {"requests": requests} if requests else {}
        template = {"metadata": {"labels": {"app": "mpi"}}, "spec": spec}
        return {"name": name, "replicas": replicas, "template": template}

    manifest = {
        "apiVersion": VOLCANO_JOBS.api_version,
        "kind": VOLCANO_JOBS.kind,
        "metadata": {"name": "mpi", "namespace": rig.namespace},
        "spec": {
            "minAvailable": 3,
            "schedulerName": rig.scheduler,
            "queue": "default",
            "tasks": [task("launcher", 1, {}), task("worker", 2, {"cpu": "1"})],
        },
    }
    async with VolcanoJobs(rig.api).at_work():
        await rig.api.create(VOLCANO_JOBS, manifest)
        attacker.created(VOLCANO_JOBS.object_path("mpi", rig.namespace))
        await rig.until(lambda found: len(found) == 3 and all(map(is_running, found)), "mpi")


HIERARCHY: Final[Object] = {
    "actions": "enqueue, allocate, backfill",
    "quotas": "none",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {
            "plugins": [
                *({"name": "drf", "enableHierarchy": True}, {"name": "predicates"}),
                {"name": "nodeorder"},
            ]
        },
    ],
}
SLA: Final[Object] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "sla"}]},
        {
            "plugins": [
                *({"name": "drf"}, {"name": "predicates"}, {"name": "capacity-card"}),
                *({"name": "nodeorder"}, {"name": "network-topology-aware"}),
            ]
        },
    ],
}

OBJECTS: Final = (
    Attack(name="5,000 digits", begin=digits),
    Attack(name="100,000 brackets", begin=brackets),
    Attack(name="3,000 levels", begin=nested),
    Attack(name="sla-waiting-time of 250,000 digits", begin=waiting_time),
    Attack(name="HyperNode pattern", begin=pattern),
    Attack(name="NUL and 9,000 characters in names", begin=names),
    Attack(name="Volcano Job", begin=volcano_job),
)
"""Single objects, under the policy `SLA`."""

LOADS: Final = (
    Attack(name="unlike pods", begin=unlike_pods, policy=HIERARCHY),
    Attack(name="chain of queues", begin=chain, policy=HIERARCHY),
    Attack(name="tolerations", begin=tolerations, short=0.1),
    Attack(name="spread", begin=spread),
    Attack(name="half-sent HTTP requests", begin=half_requests),
)
"""Many objects or requests."""
