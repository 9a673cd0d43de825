"""Gangs placed by leaf switches and in logical SuperPoDs, beside the same gangs without demands on the network.

A cluster of Ascend nodes under leaf switches of 32 servers, or in SuperPoDs of about 80 nodes: one large gang, and 64 jobs
in one cycle. Every pod asks for all chips of a node.
"""

from collections.abc import Iterator
from time import perf_counter
from typing import Final

import msgspec
from msgspec import Struct

from benchmarks.driving import append_all, begin, decide, folder, nothing_of, take_in, timed
from benchmarks.figures import Figure
from benchmarks.manifests import listed
from benchmarks.scale import Scale
from daemon.log.opening import open_log
from events.messages import ObjectSeen, WatchMessage
from events.normalize import JsonObject

CHIP: Final = "huawei.com/Ascend910"
SERVERS: Final = 32
"""Of a leaf switch."""
SUPER_POD_NODES: Final = 79
"""Of a SuperPoD: 10,000 nodes are in 127 of them."""
JOBS: Final = 64
BLOCK_NODES: Final = 16


class Demand(Struct, frozen=True, kw_only=True):
    """What jobs ask of the network."""

    name: str
    version: str = "2.0"
    labels: dict[str, str] = {}
    block: int = 0
    """Nodes of a logical SuperPoD; 0 for jobs of none."""

    @property
    def chips(self) -> int:
        """Return the chips of a node."""
        return 16 if self.block else 8

    @property
    def product(self) -> str:
        """Return the label of the nodes."""
        return "module-a3-16-super-pod" if self.block else "module"


LARGE: Final = {"tor-affinity": "large-model-schema"}
DEMANDS: Final = (
    Demand(name="no demands"),
    Demand(name="leaf switches 1.0", version="1.0", labels=LARGE),
    Demand(name="leaf switches 2.0", labels=LARGE),
    Demand(name="logical SuperPoDs of 16 nodes", block=BLOCK_NODES),
)


async def measure(scale: Scale) -> list[Figure]:
    """The large gang and the jobs of one cycle with each demand, decided and durable, in the largest cluster."""
    nodes = scale.nodes[-1]
    figures: list[Figure] = []
    many = min(JOBS, max(2, scale.large_gang // 4))
    for jobs, size in ((1, scale.large_gang), (many, scale.large_gang // many)):
        what = f"{jobs} jobs of {size:,} pods" if jobs > 1 else f"a gang of {size:,} pods"
        for demand in DEMANDS:
            runs = [await _seconds(demand, nodes, jobs, size) for _ in range(scale.repeats)]
            decided, durable = (min(run[side] for run in runs) for side in (0, 1))
            name = f"{what}, {nodes:,} nodes, {demand.name}"
            figures += (
                Figure(benchmark="switches", name=f"{name}: decided", value=decided, unit="s"),
                Figure(
                    benchmark="switches",
                    name=f"{name}: durable",
                    value=durable,
                    unit="s",
                    bound="at most",
                    target=1,
                ),
            )
    return figures


async def _seconds(demand: Demand, nodes: int, jobs: int, size: int) -> tuple[float, float]:
    with folder() as place:
        log = await open_log(str(place / "switches.db"), "write")
        head = await log.take_over("benchmark")
        engine, first = begin(with_views=True, head=head, rules=rules(demand))
        batches = take_in(engine, _objects(demand, nodes, jobs, size))
        await append_all(log, [first, *batches])
        seconds, decided = timed(lambda: decide(engine, 2_000_000_000))
        began = perf_counter()
        await append_all(log, decided)
        appended = perf_counter() - began
        await log.close()
    commitments = len(engine.state.commitments)
    assert commitments == jobs * size, f"{commitments} pods were placed: {demand.name}"
    return seconds, seconds + appended


def rules(demand: Demand) -> bytes:
    """Return the policy."""
    first = [{"name": one} for one in ("priority", "gang", "conformance")]
    second = [{"name": one} for one in ("predicates", "nodeorder", "volcano-npu")]
    init = {"nslb-version": demand.version, "super-pod-size": "80"}
    policy = {
        "actions": "enqueue, allocate, backfill",
        "configurations": [{"name": "init-params", "arguments": init}],
        "tiers": [{"plugins": first}, {"plugins": second}],
    }
    return msgspec.json.encode(policy)


def _objects(demand: Demand, nodes: int, jobs: int, size: int) -> Iterator[WatchMessage]:
    yield from listed("Node", (_node(demand, index) for index in range(nodes)))
    yield from nothing_of("PriorityClass", "Namespace", "Queue")
    yield from listed("ConfigMap.device-info", (_report(demand, index) for index in range(nodes)))
    yield from listed("ConfigMap.switch-map", [_map(nodes)])
    yield from listed("PodGroup", (_gang(index, size) for index in range(jobs)))
    yield from listed("Pod", (_pod(demand, index, size) for index in range(jobs * size)))


def _address(index: int) -> str:
    return f"10.{index >> 16}.{index >> 8 & 255}.{index & 255}"


def _node(demand: Demand, index: int) -> WatchMessage:
    name = f"node-{index:05}"
    amounts: JsonObject = {"cpu": "96", "memory": "1Ti", "pods": "110", CHIP: str(demand.chips)}
    labels: JsonObject = {"accelerator": "huawei-Ascend910", "accelerator-type": demand.product}
    annotations: JsonObject = {"superPodID": str(index // SUPER_POD_NODES)} if demand.block else {}
    metadata: JsonObject = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1"}
    address: JsonObject = {"type": "InternalIP", "address": _address(index)}
    status: JsonObject = {"allocatable": amounts, "capacity": amounts, "addresses": [address]}
    return _seen(
        "Node",
        {**metadata, "labels": labels, "annotations": annotations},
        {"spec": {}, "status": status},
    )


def _report(demand: Demand, index: int) -> WatchMessage:
    chips = ",".join(f"Ascend910-{number}" for number in range(demand.chips))
    lists = {CHIP: chips, f"{CHIP}-NetworkUnhealthy": ""}
    cfg = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}, "CheckCode": ""}
    name = f"mindx-dl-deviceinfo-node-{index:05}"
    metadata: JsonObject = {"name": name, "namespace": "kube-system", "uid": f"uid-{name}"}
    data: JsonObject = {"DeviceInfoCfg": msgspec.json.encode(cfg).decode()}
    return _seen("ConfigMap", {**metadata, "resourceVersion": "1"}, {"data": data})


def _map(nodes: int) -> WatchMessage:
    switches = [
        {
            "tor_id": number,
            "tor_ip": f"192.168.{number >> 8}.{number & 255}",
            "server": [
                {"server_ip": _address(index), "npu_count": 8, "slice_id": at}
                for at, index in enumerate(range(first, min(first + SERVERS, nodes)))
            ],
        }
        for number, first in enumerate(range(0, nodes, SERVERS))
    ]
    info = {"version": "1.0", "tor_count": SERVERS, "server_list": switches}
    metadata: JsonObject = {"name": "basic-tor-node-cm", "namespace": "kube-system"}
    data: JsonObject = {"tor_info": msgspec.json.encode(info).decode()}
    return _seen("ConfigMap", {**metadata, "uid": "map", "resourceVersion": "1"}, {"data": data})


def _gang(index: int, size: int) -> WatchMessage:
    parts: JsonObject = {"spec": {"minMember": size}, "status": {"phase": "Pending"}}
    return _seen("PodGroup", _of_a_namespace(f"gang-{index:04}"), parts)


def _pod(demand: Demand, index: int, size: int) -> WatchMessage:
    notes: JsonObject = {"scheduling.k8s.io/group-name": f"gang-{index // size:04}"}
    if demand.block:
        notes["sp-block"] = str(min(demand.block, size) * demand.chips)
    metadata = _of_a_namespace(f"pod-{index:06}")
    metadata |= {"annotations": notes, "labels": {**demand.labels}}
    requests: JsonObject = {"cpu": "1", "memory": "1Gi", CHIP: str(demand.chips)}
    container: JsonObject = {"name": "main", "resources": {"requests": requests}}
    spec: JsonObject = {
        "schedulerName": "muster",
        "nodeSelector": {"accelerator-type": demand.product},
        "containers": [container],
    }
    return _seen("Pod", metadata, {"spec": spec, "status": {"phase": "Pending"}})


def _of_a_namespace(name: str) -> JsonObject:
    return {"name": name, "namespace": "training", "uid": f"uid-{name}", "resourceVersion": "1"}


def _seen(kind: str, metadata: JsonObject, parts: JsonObject) -> WatchMessage:
    return ObjectSeen(raw=msgspec.json.encode({"kind": kind, "metadata": metadata, **parts}))
