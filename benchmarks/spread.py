"""How far gangs are spread over a real network, by how they are placed: the same load node by node, by HyperNode tiers, and
by leaf switches (rules 2.0).

MUSTER_TRACES names a folder with `lingjun-topo/topo.csv`: the racks (ToR) and aggregation groups of 847 hosts of a production
cluster, made from `data/topo.csv` of https://github.com/alibaba/alibaba-lingjun-dataset-2023, with the columns `host`, `core`,
`aggregation` and `tor`. Each host gets eight chips, and each gang takes whole hosts. A rack holds up to eight hosts, so a gang
of n hosts needs at least ceil(n / 8) racks.
"""

import csv
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from benchmarks.driving import SECOND, begin, decide, nothing_of, take_in
from benchmarks.figures import Figure
from benchmarks.manifests import listed
from benchmarks.scale import Scale
from events.messages import ObjectSeen, WatchMessage
from events.normalize import Json, JsonObject

CHIP: Final = "huawei.com/Ascend910"
RACK: Final = 8
"""Most hosts of a rack."""
SIZES: Final = (8, 16, 32, 64, 128)
"""Hosts of the gangs, in turn."""
ROUNDS: Final = 2
BUSY: Final = (0, 30)
"""Percent of the hosts, at random, that others use."""
SEED: Final = 1


class Host(Struct, frozen=True):
    """A host and where it hangs in the network."""

    name: str
    aggregation: str
    rack: str
    """Unique in the cluster."""


class Way(Struct, frozen=True, kw_only=True):
    """How gangs are placed."""

    name: str
    labels: dict[str, str] = {}
    spec: dict[str, JsonObject] = {}
    plugins: tuple[str, ...] = ()
    has_tiers: bool = False


WAYS: Final = (
    Way(name="node by node"),
    Way(
        name="HyperNode tiers",
        spec={"networkTopology": {"mode": "soft"}},
        plugins=("network-topology-aware",),
        has_tiers=True,
    ),
    Way(name="leaf switches 2.0, common jobs", labels={"tor-affinity": "normal-schema"}),
    Way(name="leaf switches 2.0, large models", labels={"tor-affinity": "large-model-schema"}),
)


async def measure(scale: Scale) -> list[Figure]:  # one shape for all benchmarks
    """Racks and aggregation groups of the gangs, each way, on an empty cluster and on one that others use."""
    path = Path(os.environ.get("MUSTER_TRACES") or "") / "lingjun-topo" / "topo.csv"
    if not os.environ.get("MUSTER_TRACES") or not path.is_file():
        print(
            "spread: MUSTER_TRACES does not name a folder that holds lingjun-topo", file=sys.stderr
        )
        return []
    hosts = hosts_of(path)
    return [one for busy in BUSY for way in WAYS for one in _figures(hosts, way, busy)]


def hosts_of(path: Path) -> list[Host]:
    """Read the hosts of the network."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Host(row["host"], row["aggregation"], f"{row['aggregation']}-{row['tor']}".lower())
            for row in csv.DictReader(file)
        ]


def _figures(hosts: list[Host], way: Way, busy: int) -> Iterator[Figure]:
    gangs = [size for _ in range(ROUNDS) for size in SIZES]
    used = {one.name for one in random.Random(SEED).sample(hosts, len(hosts) * busy // 100)}  # noqa: S311
    engine, _ = begin(with_views=False, rules=_rules(way))
    for _ in take_in(engine, _objects(hosts, used, way, gangs)):
        pass
    decide(engine, 2 * SECOND)
    place = {one.name: one for one in hosts}
    racks: dict[str, set[str]] = {}
    groups: dict[str, set[str]] = {}
    for pod in engine.state.cluster.pods.values():
        if pod.node:
            racks.setdefault(pod.group_key, set()).add(place[pod.node].rack)
            groups.setdefault(pod.group_key, set()).add(place[pod.node].aggregation)
    name = f"{busy} % of the hosts busy, {way.name}"
    placed = [size for index, size in enumerate(gangs) if f"training/{_gang(index)}" in racks]
    fewest = sum(-(-size // RACK) for size in placed)
    found = sum(map(len, racks.values()))
    for what, value in (
        (f"gangs placed, of {len(gangs)}", len(placed)),
        ("racks of a gang, to the fewest possible", found / max(1, fewest)),
        ("aggregation groups of a gang", sum(map(len, groups.values())) / max(1, len(groups))),
    ):
        yield Figure(benchmark="spread", name=f"{name}: {what}", value=value, unit="")


def _rules(way: Way) -> bytes:
    first = [{"name": one} for one in ("priority", "gang", "conformance")]
    second = [{"name": one} for one in ("predicates", "nodeorder", "volcano-npu", *way.plugins)]
    policy = {
        "actions": "enqueue, allocate, backfill",
        "configurations": [{"name": "init-params", "arguments": {"nslb-version": "2.0"}}],
        "tiers": [{"plugins": first}, {"plugins": second}],
    }
    return msgspec.json.encode(policy)


def _objects(
    hosts: list[Host], used: set[str], way: Way, gangs: list[int]
) -> Iterator[WatchMessage]:
    yield from listed(
        "Node", [_node(index, one, one.name in used) for index, one in enumerate(hosts)]
    )
    yield from nothing_of("PriorityClass", "Namespace", "Queue")
    yield from listed("ConfigMap.device-info", map(_report, hosts))
    yield from listed("ConfigMap.switch-map", [_map(hosts)])
    yield from listed("HyperNode", _hyper_nodes(hosts) if way.has_tiers else ())
    yield from listed("PodGroup", [_pod_group(at, size, way) for at, size in enumerate(gangs)])
    yield from listed(
        "Pod", [_pod(at, index, way) for at, size in enumerate(gangs) for index in range(size)]
    )


def _address(index: int) -> str:
    return f"10.0.{index >> 8}.{index & 255}"


def _node(index: int, host: Host, is_busy: bool) -> WatchMessage:
    amounts: JsonObject = {"cpu": "96", "memory": "1Ti", "pods": "110", CHIP: "8"}
    labels: JsonObject = {"accelerator": "huawei-Ascend910", "accelerator-type": "module"}
    address: JsonObject = {"type": "InternalIP", "address": _address(index)}
    status: JsonObject = {"allocatable": amounts, "capacity": amounts, "addresses": [address]}
    metadata = {**_named(host.name), "labels": labels}
    return _seen("Node", metadata, {"spec": {"unschedulable": is_busy}, "status": status})


def _report(host: Host) -> WatchMessage:
    chips = ",".join(f"Ascend910-{number}" for number in range(8))
    lists = {CHIP: chips, f"{CHIP}-NetworkUnhealthy": ""}
    cfg = {"DeviceInfo": {"DeviceList": lists, "UpdateTime": 1}, "CheckCode": ""}
    metadata = _named(f"mindx-dl-deviceinfo-{host.name}", "kube-system")
    return _seen(
        "ConfigMap", metadata, {"data": {"DeviceInfoCfg": msgspec.json.encode(cfg).decode()}}
    )


def _map(hosts: list[Host]) -> WatchMessage:
    racks: dict[str, list[JsonObject]] = {}
    for index, one in enumerate(hosts):
        servers = racks.setdefault(one.rack, [])
        servers.append({"server_ip": _address(index), "npu_count": 8, "slice_id": len(servers)})
    switches = [
        {"tor_id": number, "tor_ip": rack, "server": servers}
        for number, (rack, servers) in enumerate(sorted(racks.items()))
    ]
    info = {"version": "1.0", "tor_count": RACK, "server_list": switches}
    metadata = _named("basic-tor-node-cm", "kube-system")
    return _seen("ConfigMap", metadata, {"data": {"tor_info": msgspec.json.encode(info).decode()}})


def _hyper_nodes(hosts: list[Host]) -> Iterator[WatchMessage]:
    """Racks, aggregation groups, and the core."""
    racks: dict[str, list[str]] = {}
    groups: dict[str, dict[str, None]] = {}
    for one in hosts:
        racks.setdefault(one.rack, []).append(one.name)
        groups.setdefault(one.aggregation.lower(), {})[one.rack] = None
    for name, members in racks.items():
        yield _hyper_node(name, 1, "Node", members)
    for name, below in groups.items():
        yield _hyper_node(name, 2, "HyperNode", list(below))
    yield _hyper_node("core", 3, "HyperNode", list(groups))


def _hyper_node(name: str, tier: int, kind: str, members: list[str]) -> WatchMessage:
    found: list[Json] = [
        {"type": kind, "selector": {"exactMatch": {"name": one}}} for one in members
    ]
    return _seen("HyperNode", _named(name), {"spec": {"tier": tier, "members": found}})


def _gang(index: int) -> str:
    return f"gang-{index:02}"


def _pod_group(index: int, size: int, way: Way) -> WatchMessage:
    parts: JsonObject = {"spec": {"minMember": size, **way.spec}, "status": {"phase": "Pending"}}
    return _seen("PodGroup", _named(_gang(index), "training"), parts)


def _pod(gang: int, index: int, way: Way) -> WatchMessage:
    metadata: JsonObject = {
        **_named(f"{_gang(gang)}-{index:03}", "training"),
        "annotations": {"scheduling.k8s.io/group-name": _gang(gang)},
        "labels": {**way.labels},
    }
    requests: JsonObject = {"cpu": "1", "memory": "1Gi", CHIP: "8"}
    container: JsonObject = {"name": "main", "resources": {"requests": requests}}
    spec: JsonObject = {"schedulerName": "muster", "containers": [container]}
    return _seen("Pod", metadata, {"spec": spec, "status": {"phase": "Pending"}})


def _named(name: str, namespace: str = "") -> JsonObject:
    place: JsonObject = {"namespace": namespace} if namespace else {}
    return {"name": name, **place, "uid": f"uid-{name}", "resourceVersion": "1"}


def _seen(kind: str, metadata: JsonObject, parts: JsonObject) -> WatchMessage:
    return ObjectSeen(raw=msgspec.json.encode({"kind": kind, "metadata": metadata, **parts}))
