"""One cycle over pods that ask for Ascend chips and virtual NPUs, beside pods that ask for as many counted cards.

Runs with devices and with cards alternate, so that what disturbs the machine disturbs both.
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

CARD: Final = "nvidia.com/gpu"
CHIP: Final = "huawei.com/Ascend910"
CORE: Final = "huawei.com/npu-core"
CHIPS: Final = 8
GANG_PODS: Final = 64
RATIO: Final = 0.5


def rules(*plugins: str) -> bytes:
    """Return a policy with these plugins beside the usual ones."""
    usual = ({"name": one} for one in ("predicates", "nodeorder", *plugins))
    first = ({"name": one} for one in ("priority", "gang", "conformance"))
    tiers = [{"plugins": [*first]}, {"plugins": [*usual]}]
    return msgspec.json.encode({"actions": "enqueue, allocate, backfill", "tiers": tiers})


class Load(Struct, frozen=True):
    """Pods that each ask for an amount of a resource, alone or in gangs, and the cards asked for in comparison."""

    name: str
    resource: str
    amount: int
    cards: int
    gang: int = 1


LOADS: Final = (
    *(Load(f"{count} chips a pod", CHIP, count, count) for count in (1, 2, 4)),
    Load(f"gangs of {GANG_PODS} pods of 8 chips", CHIP, 8, 8, GANG_PODS),
    Load("virtual NPUs of 2 cores", CORE, 2, 1),
)


class Pace(Struct, frozen=True):
    """Pods a second of one cycle: decided, and decided and durable."""

    decided: float
    durable: float


async def measure(scale: Scale) -> list[Figure]:
    """Every load on devices, on cards, and the ratio of the two, at the second largest number of nodes."""
    nodes = scale.nodes[-2]
    figures: list[Figure] = []
    for load in LOADS:
        cards = Load(load.name, CARD, load.cards, load.cards, load.gang)
        size = min(scale.pods, nodes * CHIPS // max(1, load.cards) // 2)
        if load.gang > 1:
            size = max(1, size // load.gang) * load.gang
        runs = [
            (await _pace(load, nodes, size), await _pace(cards, nodes, size))
            for _ in range(scale.repeats)
        ]
        for what in ("decided", "durable"):
            mine, other = (max(getattr(run[side], what) for run in runs) for side in (0, 1))
            name = f"{load.name}, {nodes:,} nodes: {what}"
            figures += (
                Figure(benchmark="devices", name=name, value=mine, unit="pods/s"),
                Figure(
                    benchmark="devices",
                    name=f"{name}, to as many counted cards",
                    value=mine / other,
                    unit="",
                    bound="at least",
                    target=RATIO,
                    detail={"devices": mine, "cards": other},
                ),
            )
    return figures


async def _pace(load: Load, nodes: int, pods: int) -> Pace:
    with folder() as place:
        log = await open_log(str(place / "devices.db"), "write")
        head = await log.take_over("benchmark")
        policy = rules() if load.resource == CARD else rules("volcano-npu")
        engine, first = begin(with_views=True, head=head, rules=policy)
        await append_all(log, [first, *take_in(engine, _objects(load, nodes, pods))])
        seconds, batches = timed(lambda: decide(engine, 2_000_000_000))
        began = perf_counter()
        await append_all(log, batches)
        appended = perf_counter() - began
        await log.close()
    commitments = len(engine.state.commitments)
    assert commitments == pods, f"{commitments} of {pods} pods were placed: {load.name}"
    return Pace(pods / seconds, pods / (seconds + appended))


def _objects(load: Load, nodes: int, pods: int) -> Iterator[WatchMessage]:
    """The cluster and what waits, kind by kind."""
    yield from listed("Node", (_node(load.resource, index) for index in range(nodes)))
    yield from nothing_of("PriorityClass", "Namespace", "Queue")
    gangs = pods // load.gang if load.gang > 1 else 0
    yield from listed("PodGroup", (_gang(index, load.gang) for index in range(gangs)))
    yield from listed("Pod", (_pod(load, index) for index in range(pods)))


def _node(resource: str, index: int) -> WatchMessage:
    """A node with eight cards, or eight chips of 910 (rings), or eight of 310P that can be cut."""
    name = f"node-{index:05}"
    labels: JsonObject = {"nvidia.com/gpu.product": "H200"}
    annotations: JsonObject = {}
    amount = CHIPS
    if resource != CARD:
        kind = "Ascend910" if resource == CHIP else "Ascend310P"
        amount = CHIPS if resource == CHIP else CHIPS * 8
        labels = {"accelerator": f"huawei-{kind}", "servertype": f"{kind}-8"}
        base: JsonObject = {f"{kind}-{number}": {} for number in range(CHIPS)}
        annotations = {"baseDeviceInfos": msgspec.json.encode(base).decode()}
    amounts: JsonObject = {"cpu": "96", "memory": "1Ti", "pods": "110", resource: str(amount)}
    metadata: JsonObject = {
        "name": name,
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "labels": labels,
        "annotations": annotations,
    }
    status: JsonObject = {"allocatable": amounts, "capacity": amounts}
    return _seen("Node", metadata, {"spec": {}, "status": status})


def _gang(index: int, size: int) -> WatchMessage:
    metadata = _of_a_namespace(f"gang-{index:04}")
    parts: JsonObject = {"spec": {"minMember": size}, "status": {"phase": "Pending"}}
    return _seen("PodGroup", metadata, parts)


def _pod(load: Load, index: int) -> WatchMessage:
    metadata = _of_a_namespace(f"pod-{index:06}")
    if load.gang > 1:
        metadata["annotations"] = {"scheduling.k8s.io/group-name": f"gang-{index // load.gang:04}"}
    requests: JsonObject = {"cpu": "1", "memory": "1Gi", load.resource: str(load.amount)}
    container: JsonObject = {"name": "main", "resources": {"requests": requests}}
    spec: JsonObject = {"schedulerName": "muster", "containers": [container]}
    return _seen("Pod", metadata, {"spec": spec, "status": {"phase": "Pending"}})


def _of_a_namespace(name: str) -> JsonObject:
    return {"name": name, "namespace": "training", "uid": f"uid-{name}", "resourceVersion": "1"}


def _seen(kind: str, metadata: JsonObject, parts: JsonObject) -> WatchMessage:
    return ObjectSeen(raw=msgspec.json.encode({"kind": kind, "metadata": metadata, **parts}))
