"""The table of counts that muster ships instead of the openb trace: shapes of nodes and pods, and their numbers.

Made by `benchmarks/make_openb_table.py` from the published files; the arrival of each pod is not in it.
"""

from collections import Counter
from importlib.resources import files
from typing import Final

import msgspec
from msgspec import Struct

from simulator.openb import NodeShape, PodShape
from simulator.openb_trace import TraceText, read_nodes, read_pods

SOURCE: Final = (
    "Counts made from Alibaba cluster-trace-gpu-v2023, openb_node_list_all_node.csv and "
    "openb_pod_list_gpuspec33.csv (Weng et al., Beware of Fragmentation: Scheduling GPU-Sharing "
    "Workloads with Fragmentation Gradient Descent, USENIX ATC 2023; files distributed under "
    "Apache-2.0 in hkust-adsl/kubernetes-scheduler-simulator)"
)
LIFETIMES: Final = (0, 60, 300, 900, 3600, 14_400, 43_200, 172_800)
"""Bounds of the lifetime classes in seconds; the last class includes everything longer."""


class NodeCount(Struct, frozen=True, array_like=True):
    """The number of nodes of a shape."""

    shape: NodeShape
    count: int


class PodCount(Struct, frozen=True, array_like=True):
    """The number of pods of a shape and lifetime class."""

    shape: PodShape
    lifetime: int
    """Index of the lifetime class."""
    count: int


class OpenbTable(Struct, frozen=True):
    """All counts."""

    nodes: list[NodeCount]
    pods: list[PodCount]


class _File(Struct, frozen=True):
    """The table as a file: rows of plain values."""

    source: str
    lifetime_bounds_seconds: list[int]
    node_columns: list[str]
    nodes: list[tuple[int, int, int, str, int]]
    pod_columns: list[str]
    pods: list[tuple[int, int, int, int, str, str, int, int]]


def shipped_table() -> OpenbTable:
    """Return the table that is part of this release."""
    return read_table(files("simulator").joinpath("openb_counts.json").read_bytes())


def read_table(content: bytes) -> OpenbTable:
    """Decode the table from its file."""
    file = msgspec.json.decode(content, type=_File)
    return OpenbTable(
        [NodeCount(NodeShape(*row[:4]), row[4]) for row in file.nodes],
        [
            PodCount(
                PodShape(
                    row[0],
                    row[1],
                    row[2],
                    bool(row[3]),
                    tuple(row[4].split("|")) if row[4] else (),
                    row[5],
                ),
                row[6],
                row[7],
            )
            for row in file.pods
        ],
    )


def count_trace(nodes: TraceText, pods: TraceText) -> OpenbTable:
    """Count the published files, in a stated order."""
    node_counts = Counter(shape for _, shape in read_nodes(nodes))
    pod_counts = Counter(
        (pod.shape, lifetime_class(pod.run_seconds or 0))
        for pod in read_pods(pods, with_times=True)
    )
    return OpenbTable(
        [
            NodeCount(shape, count)
            for shape, count in sorted(node_counts.items(), key=lambda one: _order(one[0]))
        ],
        [
            PodCount(shape, lifetime, count)
            for (shape, lifetime), count in sorted(
                pod_counts.items(), key=lambda one: (_order(one[0][0]), one[0][1])
            )
        ],
    )


def write_table(table: OpenbTable) -> bytes:
    """Encode the table as a file: one row a line, so that diffs are readable."""
    encode = msgspec.json.encode
    nodes = [
        encode((one.cpu_milli, one.memory_mib, one.cards, one.model, row.count))
        for row in table.nodes
        for one in (row.shape,)
    ]
    pods = [
        encode(
            (
                *(one.cpu_milli, one.memory_mib, one.cards, int(one.is_share)),
                *("|".join(one.models), one.qos, row.lifetime, row.count),
            )
        )
        for row in table.pods
        for one in (row.shape,)
    ]
    node_columns = ("cpu_milli", "memory_mib", "cards", "model", "count")
    pod_columns = (
        *("cpu_milli", "memory_mib", "cards", "is_share", "models", "qos"),
        *("lifetime_class", "count"),
    )
    return b"".join(
        (
            b'{"source":',
            encode(SOURCE),
            b',\n"lifetime_bounds_seconds":',
            encode(LIFETIMES),
            b',\n"node_columns":',
            encode(node_columns),
            b',\n"nodes":[\n',
            b",\n".join(nodes),
            b'],\n"pod_columns":',
            encode(pod_columns),
            b',\n"pods":[\n',
            b",\n".join(pods),
            b"]}\n",
        )
    )


def lifetime_class(seconds: int) -> int:
    """Return the index of a lifetime's class."""
    return sum(seconds >= bound for bound in LIFETIMES[1:-1])


def _order(shape: NodeShape | PodShape) -> tuple[object, ...]:
    return msgspec.structs.astuple(shape)
