"""`workload: openb`: the cluster and pod mix of the openb trace, made from the shipped counts.

SHA-256 over the seed and the index of a pod gives the order of arrival and a lifetime within the pod's class, so
the same seed gives the same bytes on every machine. Pods arrive evenly, on whole seconds, over a window that is
short compared with their lifetimes, so the cluster fills up: the pods ask for more whole cards than exist, and
some wait until others have finished.
"""

from collections.abc import Iterator
from hashlib import sha256
from typing import TypeVar

from events.duration import SECOND
from simulator.generated_workload import GeneratedWorkload
from simulator.openb import Arrival, NamedNode, PodShape, build_workload
from simulator.openb_table import LIFETIMES, NodeCount, OpenbTable, PodCount
from simulator.scenario import WorkloadSource

_CountT = TypeVar("_CountT", NodeCount, PodCount)


def openb_workload(source: WorkloadSource, table: OpenbTable) -> GeneratedWorkload:
    """Return the workload for a scenario."""
    nodes: list[NamedNode] = [
        (f"openb-node-{index:04}", row.shape)
        for index, row in enumerate(_spread(table.nodes, source.scale_percent))
    ]
    drawn: list[tuple[bytes, PodShape, int]] = []
    for index, row in enumerate(_spread(table.pods, source.scale_percent)):
        chance = sha256(f"openb/{source.seed}/{index}".encode()).digest()
        drawn.append((chance, row.shape, _lifetime(row.lifetime, chance)))
    drawn.sort(key=lambda pod: pod[0])
    arrivals: list[Arrival] = [
        (_arrival_ns(index, len(drawn), source), f"openb-pod-{index:04}", shape, lifetime)
        for index, (_, shape, lifetime) in enumerate(drawn)
    ]
    return build_workload(nodes, arrivals, "workload openb")


def _spread(rows: list[_CountT], percent: int) -> Iterator[_CountT]:
    """Repeat each row by its count, scaled so that the total is right."""
    total = 0
    for row in rows:
        before, total = total, total + row.count
        for _ in range(before * percent // 100, total * percent // 100):
            yield row


def _lifetime(index: int, chance: bytes) -> int:
    low, high = LIFETIMES[index], LIFETIMES[index + 1]
    return low + int.from_bytes(chance[16:24], "big") % (high - low)


def _arrival_ns(index: int, count: int, source: WorkloadSource) -> int:
    at = index * source.window_ns // count
    return at - at % SECOND
