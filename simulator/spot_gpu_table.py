"""The table of counts that muster ships of the spot-gpu trace: nodes, who asks for what, how long, and when.

Made by `benchmarks/make_spot_gpu_table.py` from the published node list and from published tables about
the jobs; no job of the trace is in it. Which of its figures are published as they stand and which were
fitted to published sums is said there and in `docs/scenarios.md`.
"""

from functools import cache
from importlib.resources import files
from typing import Final

import msgspec
from msgspec import Struct

SOURCE: Final = (
    "Counts made from the node list of Alibaba cluster-trace-v2026-spot-gpu (Duan et al., GFS: A "
    "Preemptive Scheduling Framework for GPU Clusters with Predictive Spot Management, ASPLOS 2026; "
    "published for research and study) and from tables about its jobs in "
    "sultanul-ovi/GPU-Cluster-Spot-Resource-Dataset-Analysis (MIT License, Copyright (c) 2025 "
    "Md Sultanul Islam Ovi)"
)
TYPES: Final = ("HP", "Spot")
"""The two classes of work: high priority, and what may be taken back."""


class Fleet(Struct, frozen=True, array_like=True):
    """Nodes that are alike."""

    model: str
    cards: int
    cores: int
    nodes: int


class Model(Struct, frozen=True, array_like=True):
    """How much of a card model was asked for at a time, in whole cards over all hours of the trace."""

    name: str
    median: int
    mean: int
    most: int


class Tenancy(Struct, frozen=True, array_like=True):
    """What an organization asked of a card model in the whole trace."""

    organization: int
    model: str
    jobs: int
    card_hours: int


class Shape(Struct, frozen=True, array_like=True):
    """How often jobs for a model have so many workers, and cards a worker."""

    model: str
    least_workers: int
    most_workers: int
    cards: int
    weight: int


class Span(Struct, frozen=True, array_like=True):
    """How often jobs of a type for a model last so long: one weight a class of duration."""

    model: str
    type: str
    weights: list[int]


class SpotGpuTable(Struct, frozen=True):
    """The counts."""

    source: str
    fleet: list[Fleet]
    models: list[Model]
    tenancies: list[Tenancy]
    types: list[int]
    """Jobs of each of TYPES."""
    workers: list[tuple[int, int]]
    """Number of workers, and how many jobs have so many."""
    shapes: list[Shape]
    cores: list[tuple[int, int, int]]
    """From so many cores a card to so many, and how many jobs ask for that."""
    durations: list[int]
    """Bounds of the classes of duration in seconds, each the upper bound of one and the lower of the next."""
    spans: list[Span]
    hours: list[list[int]]
    """For each hour of the day, jobs that came in it: twenty quantiles over the days of the trace."""


@cache
def shipped_table() -> SpotGpuTable:
    """The table that came with this release."""
    content = files("simulator").joinpath("spot_gpu_counts.json").read_bytes()
    return msgspec.json.decode(content, type=SpotGpuTable)


def write_table(table: SpotGpuTable) -> bytes:
    """The table as it is shipped: one row a line, so that a change shows as one."""
    encode = msgspec.json.encode
    parts: list[bytes] = []
    for name in SpotGpuTable.__struct_fields__:
        value = getattr(table, name)
        if isinstance(value, list) and not isinstance(value[0], int):
            text = b"[\n" + b",\n".join(map(encode, value)) + b"]"
        else:
            text = encode(value)
        parts.append(encode(name) + b":" + text)
    return b"{" + b",\n".join(parts) + b"}\n"
