"""The table of counts that muster ships of the spot-gpu trace: nodes, requests, durations and arrivals.

Made by `benchmarks/make_spot_gpu_table.py` from the published node list and published tables about the jobs; no job
of the trace is in it. That script and `docs/scenarios.md` state which figures are published and which were fitted
to published sums.
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
"""The two classes of jobs: high priority, and preemptible."""


class Fleet(Struct, frozen=True, array_like=True):
    """Equal nodes."""

    model: str
    cards: int
    cores: int
    nodes: int


class Model(Struct, frozen=True, array_like=True):
    """The demand for a card model at a time, in whole cards over all hours of the trace."""

    name: str
    median: int
    mean: int
    most: int


class Tenancy(Struct, frozen=True, array_like=True):
    """The demand of an organization for a card model in the whole trace."""

    organization: int
    model: str
    jobs: int
    card_hours: int


class Shape(Struct, frozen=True, array_like=True):
    """The number of jobs for a model by number of workers and cards of one worker."""

    model: str
    least_workers: int
    most_workers: int
    cards: int
    weight: int


class Span(Struct, frozen=True, array_like=True):
    """The durations of jobs of a type for a model: one weight for each class of duration."""

    model: str
    type: str
    weights: list[int]


class SpotGpuTable(Struct, frozen=True):
    """All counts."""

    source: str
    fleet: list[Fleet]
    models: list[Model]
    tenancies: list[Tenancy]
    types: list[int]
    """Jobs of each of TYPES."""
    workers: list[tuple[int, int]]
    """Number of workers, and the number of such jobs."""
    shapes: list[Shape]
    cores: list[tuple[int, int, int]]
    """Least and most cores per card, and the number of such jobs."""
    durations: list[int]
    """Bounds of the classes of duration in seconds, each the upper bound of one and the lower of the next."""
    spans: list[Span]
    hours: list[list[int]]
    """Arrivals by hour of the day: twenty quantiles over the days of the trace."""


@cache
def shipped_table() -> SpotGpuTable:
    """Return the table that is part of this release."""
    content = files("simulator").joinpath("spot_gpu_counts.json").read_bytes()
    return msgspec.json.decode(content, type=SpotGpuTable)


def write_table(table: SpotGpuTable) -> bytes:
    """Encode the table as a file: one row a line, so that diffs are readable."""
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
