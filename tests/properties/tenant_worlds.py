"""Clusters that tenants share, one for each way in which muster divides one."""

from typing import Final

import msgspec
from msgspec import Struct

from events.normalize import Json, JsonObject

VICTIMS: Final = ("blue", "green")
ATTACKERS: Final = ("red", "black")
TENANTS: Final = (*VICTIMS, *ATTACKERS)
SHARES: Final = {"blue": 4, "green": 4, "red": 2, "black": 2}
"""Tenant to the pods that its share of the cluster is for. A tenant has a namespace, a queue and a share."""
NODES: Final = 3
SLOTS: Final = 4
"""Pods that a node has devices for."""
GPU: Final = "nvidia.com/gpu"
NPU: Final = "huawei.com/Ascend910"


class World(Struct, frozen=True, kw_only=True):
    """A policy, its nodes and queues, and what each pod requests."""

    name: str
    policy: JsonObject
    cluster: tuple[JsonObject, ...]
    resources: JsonObject
    """Requests and limits of every container."""
    annotations: JsonObject
    """Of every pod."""
    levels_shares: bool = False
    """Whether a queue within its share may lose pods to a queue that has less of its own."""
    is_wait_compared: bool = True
    """Whether pods without a promise start about when they do without the privileged writes of others."""
    queue: str = ""
    """The queue that all tenants share; empty where each has its own."""
    promised: int = 0
    """Pods that each victim gets from others who hold more than their share, within a stated time; 0 if there is no such
    promise."""

    def __repr__(self) -> str:
        return self.name


ALL_ACTIONS: Final = "enqueue, allocate, preempt, reclaim, backfill"
GANG_ACTIONS: Final = "enqueue, allocate, gangpreempt, gangreclaim, backfill"


def _tiers(*second: JsonObject) -> Json:
    first: Json = [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]
    return [
        {"plugins": first},
        {"plugins": [*second, {"name": "predicates"}, {"name": "nodeorder"}]},
    ]


def _node(index: int, resource: str, labels: JsonObject, annotations: JsonObject) -> JsonObject:
    name = f"n{index}"
    return {
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **labels},
            "annotations": annotations,
        },
        "status": {
            "allocatable": {"cpu": "64", "memory": "256Gi", "pods": "110", resource: str(SLOTS)},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _nodes(resource: str, labels: JsonObject, annotations: JsonObject) -> list[JsonObject]:
    return [_node(index + 1, resource, labels, annotations) for index in range(NODES)]


def _queue(name: str, spec: JsonObject, annotations: "JsonObject | None" = None) -> JsonObject:
    return {
        "kind": "Queue",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"weight": 1, **spec},
    }


def _deserved(resource: str, amount: int = 1) -> list[JsonObject]:
    return [
        _queue(
            name,
            {
                "weight": share,
                "deserved": {
                    "cpu": str(share),
                    "memory": f"{share}Gi",
                    resource: str(share * amount),
                },
            },
        )
        for name, share in SHARES.items()
    ]


def _spec(manifest: JsonObject) -> JsonObject:
    spec = manifest["spec"]
    assert isinstance(spec, dict)
    return spec


_PODS: Final[JsonObject] = {"cpu": "1", "memory": "1Gi"}
_H100: Final[JsonObject] = {"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.memory": "80000"}
_CHIPS: Final[JsonObject] = {
    "baseDeviceInfos": "{" + ",".join(f'"Ascend910-{one}":{{}}' for one in range(SLOTS)) + "}"
}


def _resources(resource: str) -> JsonObject:
    return {"requests": {**_PODS, resource: "1"}, "limits": {resource: "1"}}


_TIMES: Final[Json] = [{"name": "cycle", "arguments": {"budgetTimeout": "10s"}}]
"""Disruption budgets hold victims up for so long, where they are above what their queue deserves."""
_USE: Final[Json] = [
    {"name": name, "namespaceSelector": {"matchLabels": {"team": name}}} for name in SHARES
]
"""Who may use the queues: the namespaces that a label names."""
_BOUNDS: Final[JsonObject] = {
    "priorityMax": 50,
    "weightMax": 1,
    "preemptionTimeoutMax": "10s",
    "preemptible": False,
}
"""What jobs may state in a pool: nothing by which they would be more than others."""


def _session(
    name: str, tiers: Json, queues: list[JsonObject], actions: str = ALL_ACTIONS, promised: int = 4
) -> World:
    return World(
        name=name,
        policy={"actions": actions, "tiers": tiers, "queues": _USE, "configurations": _TIMES},
        cluster=(*_nodes(GPU, _H100, {}), *queues),
        resources=_resources(GPU),
        annotations={"volcano.sh/card.name": "H100"} if name == "capacity-card" else {},
        promised=promised,
    )


def _pool(decider: str) -> World:
    pool: JsonObject = {
        "name": "main",
        "decider": decider,
        "slots": [GPU],
        "preemptionTimeout": "10s",
        **_BOUNDS,
    }
    return World(
        name=f"pool {decider}",
        levels_shares=decider == "fair_share",
        policy={
            "pools": [pool],
            "defaultComputePool": "main",
            "queues": _USE,
            "configurations": _TIMES,
        },
        cluster=(*_nodes(GPU, _H100, {}), *[_queue(name, {}) for name in TENANTS]),
        resources=_resources(GPU),
        annotations={},
    )


WORLDS: Final = (
    _session("capacity", _tiers({"name": "capacity"}), _deserved(GPU)),
    # A gang is reclaimed as a whole, and only where its queue keeps what it deserves without it: one job that is refused lets
    # another one start that others cannot reclaim from.
    msgspec.structs.replace(
        _session(
            "capacity with whole gangs",
            _tiers({"name": "capacity"}),
            _deserved(GPU),
            GANG_ACTIONS,
            0,
        ),
        is_wait_compared=False,
    ),
    _session(
        "hierarchical capacity",
        _tiers({"name": "capacity", "enableHierarchy": True}),
        [{**one, "spec": {**_spec(one), "parent": "research"}} for one in _deserved(GPU)]
        + [_queue("research", {"deserved": {"cpu": "12", "memory": "12Gi", GPU: "12"}})],
    ),
    # `overcommit` admits by the whole cluster: who comes first is admitted, whatever its queue deserves.
    _session(
        "capacity with sla and overcommit",
        _tiers({"name": "capacity"}, {"name": "overcommit"}, {"name": "sla"}),
        _deserved(GPU),
        promised=0,
    ),
    # Tenants who share a queue: jobs start in the order of their creation.
    World(
        name="one queue",
        policy={
            "actions": ALL_ACTIONS,
            "tiers": _tiers({"name": "capacity"}),
            "queues": [{"name": "common", "priorityMax": 0}],
            "configurations": _TIMES,
        },
        cluster=(*_nodes(GPU, _H100, {}), _queue("common", {})),
        resources=_resources(GPU),
        annotations={},
        queue="common",
    ),
    _session("proportion", _tiers({"name": "proportion"}), _deserved(GPU)),
    _session(
        "capacity-card",
        _tiers({"name": "capacity-card"}),
        [
            _queue(
                name,
                {"capability": {"cpu": "16"}},
                {"volcano.sh/card.quota": f'{{"H100":{share}}}'},
            )
            for name, share in SHARES.items()
        ],
    ),
    # Where the last pod of a share would make queues equal, it is not reclaimed.
    msgspec.structs.replace(
        _session(
            "hierarchical drf",
            _tiers({"name": "drf", "enableHierarchy": True}),
            [
                _queue(
                    name,
                    {},
                    {
                        "volcano.sh/hierarchy": f"root/{name}",
                        "volcano.sh/hierarchy-weights": f"1/{share}",
                    },
                )
                for name, share in SHARES.items()
            ],
            promised=3,
        ),
        levels_shares=True,
    ),
    World(
        name="ascend devices",
        policy={
            "actions": ALL_ACTIONS,
            "tiers": _tiers({"name": "capacity"}, {"name": "volcano-npu"}),
            "queues": _USE,
            "configurations": _TIMES,
        },
        cluster=(
            *_nodes(NPU, {"accelerator": "huawei-Ascend910"}, _CHIPS),
            *_deserved(NPU),
        ),
        resources=_resources(NPU),
        annotations={},
        promised=4,
    ),
    World(
        name="shared GPUs",
        policy={
            "actions": ALL_ACTIONS,
            "tiers": _tiers({"name": "capacity"}),
            "queues": _USE,
            "configurations": _TIMES,
        },
        cluster=(
            *_nodes(GPU, {**_H100, "muster.sh/gpu-sharing": "true"}, {}),
            *_deserved("muster.sh/gpu-milli", 1000),
        ),
        resources={"requests": _PODS},
        annotations={"alibabacloud.com/gpu-milli": "1000"},
        promised=4,
    ),
    _pool("priority"),
    _pool("fair_share"),
    _pool("round_robin"),
)
