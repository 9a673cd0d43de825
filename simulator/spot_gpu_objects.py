"""The spot-gpu workload as Kubernetes objects: nodes, priority classes, one queue per organization, Volcano Jobs."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from events.normalize import Json, JsonObject
from simulator.manifest import RUN_SECONDS, STOP_SECONDS, VOLCANO_JOB, LocatedManifest, Manifest
from simulator.scenario import kind_named
from simulator.spot_gpu_table import Fleet

CARD: Final = "nvidia.com/gpu"
PODS_PER_NODE: Final = 256
PRIORITIES: Final = {"HP": 1000, "Spot": 100}
GRACE_SECONDS: Final = 30
"""How long a Spot pod takes to stop: Kubernetes' default grace period."""
RETRIES: Final = 1000
"""How often a job is restarted before it fails."""

ORDERING_TIER: Final[Json] = {
    "plugins": [
        {"name": "priority"},
        {"name": "gang", "enablePreemptable": False, "enableReclaimable": False},
        {"name": "conformance"},
    ]
}
"""The plugins that order jobs, and protect those that are not evicted."""

NODE_PLUGINS: Final[list[Json]] = [
    {
        "name": "nodeorder",
        "arguments": {"leastrequested.weight": 0, "balancedresource.weight": 0},
    },
    {
        "name": "binpack",
        "arguments": {
            "binpack.weight": 10,
            "binpack.resources": CARD,
            f"binpack.resources.{CARD}": 10,
        },
    },
]
"""The plugins that score nodes."""

POLICY: Final[dict[str, Json]] = {
    "actions": "allocate, backfill, preempt, reclaim",
    "tiers": [
        ORDERING_TIER,
        {"plugins": [{"name": "predicates"}, {"name": "capacity-card"}, *NODE_PLUGINS]},
    ],
}
"""The policy for a scenario that names none. Without `enqueue`, jobs have their pods from the start, and their whole
wait counts. Gangs may be broken, as in Volcano's usual file."""

JOB: Final = VOLCANO_JOB
_NODE: Final = kind_named("Node")
_QUEUE: Final = kind_named("Queue")
_PRIORITY_CLASS: Final = kind_named("PriorityClass")
_PLACE: Final = "workload spot-gpu"


class CardQuota(Struct, frozen=True):
    """The quota of an organization for a card model."""

    organization: int
    model: str
    cards: int


class Job(Struct, frozen=True):
    """A job that was drawn."""

    index: int
    at_ns: int
    organization: int
    model: str
    type: str
    workers: int
    cards: int
    """Whole cards of one worker."""
    cores: int
    """Cores of one worker."""
    run_seconds: int


def cluster_of(fleets: Iterable[Fleet], grants: Iterable[CardQuota]) -> Iterator[LocatedManifest]:
    """Yield the objects of the initial cluster."""
    index = 0
    for fleet in fleets:
        for _ in range(fleet.nodes):
            yield LocatedManifest(_NODE, _node(f"spot-gpu-{index:04}", fleet), _PLACE)
            index += 1
    for name, value in PRIORITIES.items():
        manifest: Manifest = {
            "apiVersion": _PRIORITY_CLASS.api_version,
            "kind": "PriorityClass",
            "metadata": {"name": name.lower()},
            "value": value,
        }
        yield LocatedManifest(_PRIORITY_CLASS, manifest, _PLACE)
    quotas: dict[int, dict[str, int]] = {}
    for grant in grants:
        quotas.setdefault(grant.organization, {})[grant.model] = grant.cards
    for organization, quota in sorted(quotas.items()):
        yield LocatedManifest(_QUEUE, _queue(organization, quota), _PLACE)


def job_of(job: Job) -> Manifest:
    """Return a Volcano Job as a gang; the eviction of one worker restarts all."""
    seconds: JsonObject = {RUN_SECONDS: str(job.run_seconds)}
    if job.type == "Spot":
        seconds[STOP_SECONDS] = str(GRACE_SECONDS)
    limits: JsonObject = {"cpu": str(job.cores), CARD: str(job.cards)}
    container: JsonObject = {
        "name": "main",
        "resources": {"limits": limits, "requests": dict(limits)},
    }
    task: JsonObject = {
        "name": "worker",
        "replicas": job.workers,
        "template": {
            "metadata": {"annotations": {"volcano.sh/card.name": job.model, **seconds}},
            "spec": {"containers": [container], "restartPolicy": "Never"},
        },
    }
    cards = msgspec.json.encode({job.model: job.workers * job.cards}).decode()
    return {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            "name": f"{job.type.lower()}-{job.index:06}",
            "namespace": "default",
            "annotations": {"volcano.sh/card.request": cards},
        },
        "spec": {
            "schedulerName": "volcano",
            "queue": queue_name(job.organization),
            "priorityClassName": job.type.lower(),
            "minAvailable": job.workers,
            "maxRetry": RETRIES,
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [task],
        },
    }


def queue_name(organization: int) -> str:
    """The queue of an organization; the trace has numbers instead of names."""
    return f"org-{organization:02}"


def _node(name: str, fleet: Fleet) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                f"{CARD}.product": fleet.model,
                f"{CARD}.count": str(fleet.cards),
            },
        },
        "status": {
            "allocatable": {
                "cpu": str(fleet.cores),
                "pods": str(PODS_PER_NODE),
                CARD: str(fleet.cards),
            }
        },
    }


def _queue(organization: int, quota: dict[str, int]) -> Manifest:
    text = msgspec.json.encode(quota, order="sorted").decode()
    return {
        "apiVersion": _QUEUE.api_version,
        "kind": "Queue",
        "metadata": {
            "name": queue_name(organization),
            "annotations": {"volcano.sh/card.quota": text},
        },
        "spec": {"weight": 1},
        "status": {"state": "Open"},
    }
