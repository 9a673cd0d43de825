"""A cluster of the openb trace as Kubernetes objects: nodes with card labels, pods, one queue per QoS class.

The trace is Alibaba's cluster-trace-gpu-v2023 (Weng et al., "Beware of Fragmentation", USENIX ATC 2023).
A share of a card counts as a whole card here, unless the trace is read with its shares: then nodes share their GPUs, and
pods ask for thousandths (`docs/gpu-sharing.md`). A pod that names models accepts any of them; one that names
none accepts any card and is charged the one that it gets (`unnamedCardPolicy: infer`).
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from events.normalize import Json, JsonObject
from simulator.generated_workload import GeneratedWorkload, WorkloadSummary
from simulator.manifest import RUN_SECONDS, LocatedManifest, Manifest
from simulator.scenario import Apply, kind_named

CARD: Final = "nvidia.com/gpu"
PODS_PER_NODE: Final = 256
POLICY: Final[dict[str, Json]] = {
    "actions": "enqueue, allocate, backfill",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
        {
            "plugins": [
                {"name": "predicates"},
                {"name": "capacity-card", "arguments": {"unnamedCardPolicy": "infer"}},
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
        },
    ],
}
"""The policy for a scenario that names none: the capacities of the trace, and binpack on nodes."""

_NODE: Final = kind_named("Node")
_QUEUE: Final = kind_named("Queue")
_POD: Final = kind_named("Pod")


class NodeShape(Struct, frozen=True):
    """The resources of a node."""

    cpu_milli: int
    memory_mib: int
    cards: int
    model: str


class PodShape(Struct, frozen=True):
    """The request of a pod."""

    cpu_milli: int
    memory_mib: int
    cards: int
    is_share: bool
    """Whether it asked for less than one card, which counts as one."""
    models: tuple[str, ...]
    """Accepted models in order; empty: any."""
    qos: str
    gpu_milli: int = 0
    """Thousandths of each card; 0 if shares count as whole cards."""

    @property
    def queue(self) -> str:
        """The queue of its QoS class."""
        return self.qos.lower()


NamedNode: TypeAlias = tuple[str, NodeShape]
Arrival: TypeAlias = tuple[int, str, PodShape, int | None]
"""Time in nanoseconds, name, shape, and lifetime in seconds (None: for ever)."""


def models_of(spec: str) -> tuple[str, ...]:
    """Split `A|B|B` into a list of models without repetition; the order is kept."""
    return tuple(dict.fromkeys(name for part in spec.split("|") if (name := part.strip())))


def build_workload(
    nodes: list[NamedNode],
    arrivals: list[Arrival],
    source: str,
    policy: dict[str, Json] = POLICY,
    *,
    with_shares: bool = False,
) -> GeneratedWorkload:
    """Return the objects of a cluster and of its pods. Equal pods share one spec."""
    cards: dict[str, int] = {}
    for _, node in nodes:
        if node.cards:
            cards[node.model] = cards.get(node.model, 0) + node.cards
    queues = dict.fromkeys(shape.queue for _, _, shape, _ in arrivals)
    specs: dict[PodShape, Manifest] = {}
    steps = [
        Apply(at, _POD, _pod(name, shape, run, specs.setdefault(shape, _pod_spec(shape))))
        for at, name, shape, run in arrivals
    ]
    quota = {f"{name}/milli": 1000 * count for name, count in cards.items()}
    quota = quota if with_shares else cards
    cluster = [
        LocatedManifest(_NODE, _node(name, node, with_shares=with_shares), source)
        for name, node in nodes
    ]
    cluster += [LocatedManifest(_QUEUE, _queue(name, quota), source) for name in sorted(queues)]
    return GeneratedWorkload(tuple(cluster), tuple(steps), policy, _notes(nodes, arrivals, cards))


def _notes(
    nodes: list[NamedNode], arrivals: list[Arrival], cards: dict[str, int]
) -> WorkloadSummary:
    shapes = [shape for _, _, shape, _ in arrivals]
    return WorkloadSummary(
        nodes=len(nodes),
        pods=len(shapes),
        card_pods=sum(shape.cards > 0 for shape in shapes),
        shares=sum(shape.is_share and not shape.gpu_milli for shape in shapes),
        cards=dict(sorted(cards.items())),
        cards_asked=sum(shape.cards for shape in shapes),
    )


def policy_for_shares(shapes: Iterable[PodShape]) -> dict[str, Json]:
    """Return the policy of a trace with its shares: the fragmentation of GPUs is measured against the pods of the trace,
    and no other plugin scores nodes."""
    types = Counter(
        (one.cpu_milli, one.memory_mib, one.cards, one.gpu_milli if one.cards else 0)
        for one in shapes
    )
    workload: list[Json] = [
        {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "gpus": gpus, "milli": milli, "pods": pods}
        for (cpu, memory, gpus, milli), pods in sorted(types.items())
    ]
    scoring: JsonObject = {"stranding.weight": 1, "workload": workload}
    return {
        "actions": "enqueue, allocate, backfill",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {
                "plugins": [
                    {"name": "predicates"},
                    {"name": "capacity-card", "arguments": {"unnamedCardPolicy": "infer"}},
                    {"name": "gpu-fragmentation", "arguments": scoring},
                ]
            },
        ],
    }


def _node(name: str, node: NodeShape, *, with_shares: bool) -> Manifest:
    allocatable: JsonObject = {
        "cpu": f"{node.cpu_milli}m",
        "memory": f"{node.memory_mib}Mi",
        "pods": str(PODS_PER_NODE),
    }
    labels: JsonObject = {"kubernetes.io/hostname": name}
    if node.cards:
        allocatable[CARD] = str(node.cards)
        labels[f"{CARD}.product"] = node.model
        labels[f"{CARD}.count"] = str(node.cards)
        if with_shares:
            labels["muster.sh/gpu-sharing"] = "true"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


def _queue(name: str, cards: dict[str, int]) -> Manifest:
    """A queue that may use every card: a card that its quota does not list could not be used."""
    quota = msgspec.json.encode(cards, order="sorted").decode()
    return {
        "apiVersion": _QUEUE.api_version,
        "kind": "Queue",
        "metadata": {"name": name, "annotations": {"volcano.sh/card.quota": quota}},
        "spec": {"weight": 1},
        "status": {"state": "Open"},
    }


def _pod(name: str, shape: PodShape, run_seconds: int | None, spec: Manifest) -> Manifest:
    annotations: JsonObject = {"scheduling.volcano.sh/queue-name": shape.queue}
    if shape.cards and shape.models:
        part = "/milli" if shape.gpu_milli else ""
        annotations["volcano.sh/card.name"] = "|".join(f"{one}{part}" for one in shape.models)
    if shape.cards and shape.gpu_milli:
        annotations["alibabacloud.com/gpu-milli"] = str(shape.gpu_milli)
        annotations["alibabacloud.com/gpu-count"] = str(shape.cards)
    if run_seconds is not None:
        annotations[RUN_SECONDS] = str(run_seconds)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": spec,
    }


def _pod_spec(shape: PodShape) -> Manifest:
    limits: JsonObject = {"cpu": f"{shape.cpu_milli}m", "memory": f"{shape.memory_mib}Mi"}
    if shape.cards and not shape.gpu_milli:
        limits[CARD] = str(shape.cards)
    container: JsonObject = {
        "name": "main",
        "resources": {"limits": limits, "requests": dict(limits)},
    }
    return {"schedulerName": "muster", "containers": [container], "restartPolicy": "Never"}
