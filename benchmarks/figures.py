"""Figures: what was measured, what is to be reached, and the table and document of both."""

import platform
import sqlite3
from collections.abc import Iterable
from importlib.metadata import version
from math import log
from os import cpu_count
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from rich.console import Console
from rich.table import Table

LIBRARIES = ("aiosqlite", "msgspec", "numpy", "sqlalchemy", "zstandard")

Bound = Literal["at least", "at most", "none"]


class Figure(Struct, frozen=True, kw_only=True):
    """One thing measured. `target` counts with `bound`; a figure without one only informs."""

    benchmark: str
    name: str
    value: float
    unit: str
    bound: Bound = "none"
    target: float | None = None
    detail: dict[str, float] = {}

    @property
    def ratio(self) -> float | None:
        """How far the target is exceeded: 1 or more where it is reached."""
        if self.target is None or self.bound == "none" or not self.value or not self.target:
            return None
        return self.value / self.target if self.bound == "at least" else self.target / self.value

    @property
    def is_reached(self) -> bool | None:
        """Whether the target is reached; null where there is none."""
        if self.target is None or self.bound == "none":
            return None
        return self.value >= self.target if self.bound == "at least" else self.value <= self.target


def exponent(sizes: Iterable[float], values: Iterable[float]) -> float:
    """The growth of values over sizes: the slope of a straight line through their logarithms."""
    points = [(log(size), log(value)) for size, value in zip(sizes, values, strict=True)]
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    spread = sum((x - middle_x) ** 2 for x, _ in points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / spread


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2] for line in lines if "model name" in line), "").strip()
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": model,
        "processors": cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in LIBRARIES},
    }


def show(figures: Iterable[Figure]) -> None:
    """Print the table."""
    table = Table()
    for title in ("benchmark", "figure"):
        table.add_column(title, overflow="fold")
    for title in ("measured", "to reach", "ratio"):
        table.add_column(title, justify="right")
    table.add_column("reached")
    for one in figures:
        reached = {None: "", True: "yes", False: "no"}[one.is_reached]
        target = "" if one.target is None else f"{one.bound} {_number(one.target)}"
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        measured = f"{_number(one.value)} {one.unit}".rstrip()
        table.add_row(one.benchmark, one.name, measured, target, ratio, reached)
    Console(width=120).print(table)


def write(path: Path, figures: Iterable[Figure], scale: str) -> None:
    """Write the document that a later run can be compared with."""
    rows = [
        {**msgspec.structs.asdict(one), "ratio": one.ratio, "reached": one.is_reached}
        for one in figures
    ]
    document = {"machine": machine(), "scale": scale, "figures": rows}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.4g}"
