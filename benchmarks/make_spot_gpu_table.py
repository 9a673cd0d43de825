"""Make `simulator/spot_gpu_counts.json` again from the published figures of the spot-gpu trace.

python -m benchmarks.make_spot_gpu_table FOLDER > simulator/spot_gpu_counts.json

FOLDER holds `node_info_df.csv.gz` and `calibration/*.csv.gz`. The tables are sums over one property or two at a
time. Where the load needs more at once, the sums are fitted, and agree with what is published:

jobs by organization and model    both sums are published, and each organization's card-seconds by model;
                                  these are scaled by rows and columns until they meet both sums of jobs
workers and cards by model        the published counts, times (cards of the job) ^ t, with the t for each model
                                  that gives its published cards a job; a fraction of a card counts as one
durations by model and type       the published counts of each type, times (mean of the class) ^ t, with the t for
                                  each that gives the published card-seconds for each card that is asked for
"""

import csv
import gzip
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from typing import Final

from simulator.spot_gpu_table import (
    SOURCE,
    TYPES,
    Fleet,
    Model,
    Shape,
    Span,
    SpotGpuTable,
    Tenancy,
    write_table,
)

ONE_CARD_MODELS: Final = ("A10", "GPU-series-1")
"""Models of which most nodes have one card: the workers of their gangs ask for one, those of others for eight."""

GANGS: Final = ((2, 8), (9, 32), (33, 128), (129, 332))
"""Classes of gangs, from so many workers to so many; as the table of sizes has them."""

CORES: Final = {
    "0 to 1": (1, 1),
    "1 to 2": (1, 2),
    "2 to 4": (2, 4),
    "4 to 8": (4, 8),
    "8 to 16": (8, 16),
    "16 to 32": (16, 32),
    "32 to 64": (32, 64),
    "64 to 128": (64, 128),
    "over 128": (128, 192),
}
DURATIONS: Final = {
    "0 to 1 min": (1, 60),
    "1 to 10 min": (60, 600),
    "10 to 60 min": (600, 3600),
    "1 to 6 hours": (3600, 21_600),
    "6 to 24 hours": (21_600, 86_400),
    "1 to 3 days": (86_400, 259_200),
}
DAYS: Final = (259_200, 461_465, 5_663_026, 15_897_599)
"""What lasts over three days, by the quantiles 0.95, 0.99 and 1 of all durations."""

PARTS: Final = 4
"""Classes of duration are each cut in so many parts, of equal ratio and equal weight."""

QUANTILES: Final = 20
WEIGHTS: Final = 1_000_000

Rows = list[dict[str, str]]


class Published:
    """The published tables, by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def nodes(self) -> Rows:
        """The node list."""
        return _rows(self._folder / "node_info_df.csv.gz")

    def table(self, name: str) -> Rows:
        """A table about the jobs."""
        return _rows(self._folder / "calibration" / f"{name}.csv.gz")

    def column(self, name: str, key: str, value: str) -> dict[str, float]:
        """Two columns of a table."""
        return {row[key]: float(row[value]) for row in self.table(name)}


def make_table(published: Published) -> SpotGpuTable:
    """All counts, in a stated order."""
    hours = _of_the_day(published)
    return SpotGpuTable(
        source=SOURCE,
        fleet=_fleet(published),
        models=_models(published),
        tenancies=_tenancies(published),
        types=[round(published.column("job_type_summary", "job_type", "jobs")[t]) for t in TYPES],
        workers=[
            (int(row["worker_num"]), int(row["jobs"]))
            for row in published.table("worker_count_distribution")
        ],
        shapes=_shapes(published),
        cores=_cores(published),
        durations=_bounds(),
        spans=_spans(published),
        hours=hours,
    )


def _rows(path: Path) -> Rows:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _fleet(published: Published) -> list[Fleet]:
    counts = Counter(
        (row["gpu_model"], int(row["gpu_capacity_num"]), int(row["cpu_num"]))
        for row in published.nodes()
    )
    return [Fleet(*shape, count) for shape, count in sorted(counts.items())]


def _models(published: Published) -> list[Model]:
    rows = published.table("hourly_concurrency_top_models")
    made = []
    for name in sorted({fleet.model for fleet in _fleet(published)}):
        asked = sorted(float(row[name]) for row in rows)
        middle, mean = asked[len(asked) // 2], sum(asked) / len(asked)
        made.append(Model(name, round(middle), round(mean), round(asked[-1])))
    return made


def _tenancies(published: Published) -> list[Tenancy]:
    jobs = published.column("org_by_gpu_seconds", "organization", "jobs")
    seconds = published.column("org_by_gpu_seconds", "organization", "gpu_seconds")
    wanted = published.column("demand_by_model", "gpu_model", "jobs")
    used = {
        (row["organization"], model): float(row[model]) * seconds[row["organization"]]
        for row in published.table("org_model_mix_share")
        for model in wanted
        if float(row[model]) > 0
    }
    cells = dict(used)
    for _ in range(2000):
        _scale(cells, jobs, 0)
        _scale(cells, wanted, 1)
    made = [
        Tenancy(
            int(organization), model, max(1, round(count)), round(used[organization, model] / 3600)
        )
        for (organization, model), count in cells.items()
    ]
    return sorted(made, key=lambda one: (one.organization, one.model))


def _scale(cells: dict[tuple[str, str], float], wanted: dict[str, float], axis: int) -> None:
    """Multiply the rows, or the columns, so that their sums are those that are wanted."""
    sums = dict.fromkeys(wanted, 0.0)
    for key, count in cells.items():
        sums[key[axis]] += count
    for key in cells:
        cells[key] *= wanted[key[axis]] / sums[key[axis]]


def _shapes(published: Published) -> list[Shape]:
    jobs = published.column("demand_by_model", "gpu_model", "jobs")
    asked = published.column("demand_by_model", "gpu_model", "gpu_demand")
    demand = published.column("bucket_gpu_demand", "gpu_demand_bucket", "jobs")
    sizes = [
        (int(row["worker_num"]), int(row["jobs"]))
        for row in published.table("worker_count_distribution")
    ]
    made: list[Shape] = []
    for model in sorted(jobs):
        single = {1: demand["0"] + demand["1"]}
        if model != "A10":
            single |= {2: demand["2 to 4"] / 2, 4: demand["2 to 4"] / 2, 8: demand["5 to 8"]}
        options = [(1, 1, cards, count, float(cards)) for cards, count in single.items()]
        a_worker = 1 if model in ONE_CARD_MODELS else 8
        for low, high in GANGS:
            inside = [(size, count) for size, count in sizes if low <= size <= high]
            count = sum(count for _, count in inside)
            mean = sum(size * count for size, count in inside) / count
            options.append((low, high, a_worker, count, mean * a_worker))
        # What asks for a fraction asks for it of the model of which most jobs ask for one card.
        whole = asked[model] + (demand["0"] if model == "A10" else 0)
        weights = _tilted(
            [option[3] for option in options],
            [option[4] for option in options],
            whole / jobs[model],
        )
        made += [
            Shape(model, low, high, cards, weight)
            for (low, high, cards, _, _), weight in zip(options, weights, strict=True)
        ]
    return made


def _cores(published: Published) -> list[tuple[int, int, int]]:
    jobs = published.column("bucket_cpu_per_gpu", "cpu_per_gpu_bucket", "jobs")
    return [(low, high, round(jobs[name])) for name, (low, high) in CORES.items()]


def _classes() -> list[tuple[int, int]]:
    return [*DURATIONS.values(), *pairwise(DAYS)]


def _bounds() -> list[int]:
    bounds = [1]
    for low, high in _classes():
        for part in range(1, PARTS + 1):
            bounds.append(max(bounds[-1] + 1, round(low * (high / low) ** (part / PARTS))))
    return bounds


def _spans(published: Published) -> list[Span]:
    """Long is, as in the published table of slices, what lasts six hours or more."""
    buckets = published.column("bucket_duration", "duration_bucket", "jobs")
    total = sum(buckets.values())
    counts = [buckets[name] for name in DURATIONS]
    counts += [buckets["over 3 days"] - 0.05 * total, 0.04 * total, 0.01 * total]
    means = [(high - low) / log(high / low) for low, high in _classes()]
    is_long = [low >= 21_600 for low, _ in _classes()]
    sums = {True: 0.0, False: 0.0}
    for count, long in zip(counts, is_long, strict=True):
        sums[long] += count
    slices = {
        (row["is_long"] == "True", row["job_type"]): float(row["jobs"])
        for row in published.table("long_job_slices_by_type")
    }
    jobs = published.column("job_type_summary", "job_type", "jobs")
    used = published.column("job_type_summary", "job_type", "gpu_seconds")
    asked = published.column("demand_by_model", "gpu_model", "gpu_demand")
    by_model = published.column("demand_by_model", "gpu_model", "gpu_seconds")
    all_jobs, all_used = sum(jobs.values()), sum(used.values())
    made = []
    for model in sorted(asked):
        for kind in TYPES:
            own = [
                count * slices[long, kind] / sums[long]
                for count, long in zip(counts, is_long, strict=True)
            ]
            part = (used[kind] / jobs[kind]) / (all_used / all_jobs)
            weights = _tilted(own, means, by_model[model] / asked[model] * part)
            made.append(Span(model, kind, weights))
    return made


def _of_the_day(published: Published) -> list[list[int]]:
    """Hour 0 of the trace holds what ran already, and is left out."""
    days: dict[int, list[int]] = {hour: [] for hour in range(24)}
    counts = {
        int(row["submit_hour"]): int(row["jobs"]) for row in published.table("hourly_summary")
    }
    for hour in range(1, max(counts) + 1):
        days[hour % 24].append(counts.get(hour, 0))
    return [
        [
            sorted(found)[(2 * index + 1) * len(found) // (2 * QUANTILES)]
            for index in range(QUANTILES)
        ]
        for found in days.values()
    ]


def _tilted(counts: Sequence[float], sizes: Sequence[float], mean: float) -> list[int]:
    """Counts times size ^ t, with the t that gives the mean size, as whole weights."""

    def tilted(t: float) -> list[float]:
        return [count * size**t for count, size in zip(counts, sizes, strict=True)]

    def reached(t: float) -> float:
        weights = tilted(t)
        return sum(w * size for w, size in zip(weights, sizes, strict=True)) / sum(weights)

    weights = tilted(_solved(reached, mean))
    return [round(weight * WEIGHTS / sum(weights)) for weight in weights]


def _solved(rising: Callable[[float], float], wanted: float) -> float:
    low, high = -4.0, 4.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < wanted else (low, middle)
    return low


def main() -> None:
    """Read the folder named, write the table."""
    sys.stdout.buffer.write(write_table(make_table(Published(Path(sys.argv[1])))))


if __name__ == "__main__":
    main()
