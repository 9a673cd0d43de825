"""Measure, print a table, write a document.

python -m benchmarks [append fold cycle devices idle session growth hostile loop network pools pools_trace switches spread spot sharing memory start fork] [--scale small|full] [--output FILE] [--profile]
"""

import argparse
import asyncio
import cProfile
import logging
import pstats
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import structlog

from benchmarks import (
    append,
    cycle,
    devices,
    fold,
    fork,
    growth,
    hostile,
    idle,
    loop,
    memory,
    network,
    pools,
    pools_trace,
    session,
    sharing,
    spot,
    spread,
    start,
    switches,
)
from benchmarks.figures import Figure, show, write
from benchmarks.scale import SCALES, Scale
from daemon.memory_tuning import collect_rarely

Benchmark: TypeAlias = Callable[[Scale], Awaitable[list[Figure]]]

BENCHMARKS: Final[dict[str, Benchmark]] = {
    "append": append.measure,
    "fold": fold.measure,
    "cycle": cycle.measure,
    "devices": devices.measure,
    "idle": idle.measure,
    "session": session.measure,
    "spot": spot.measure,
    "sharing": sharing.measure,
    "growth": growth.measure,
    "hostile": hostile.measure,
    "loop": loop.measure,
    "network": network.measure,
    "pools": pools.measure,
    "pools_trace": pools_trace.measure,
    "switches": switches.measure,
    "spread": spread.measure,
    "memory": memory.measure,
    "start": start.measure,
    "fork": fork.measure,
}

PROFILE_LINES: Final = 25


async def run(names: list[str], scale: Scale) -> list[Figure]:
    """The figures of some benchmarks."""
    figures: list[Figure] = []
    for name in names:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        figures += await BENCHMARKS[name](scale)
    return figures


def main() -> None:
    """Read the arguments, measure, tell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure muster.")
    parser.add_argument("names", nargs="*", metavar="BENCHMARK", help=", ".join(BENCHMARKS))
    parser.add_argument("--scale", choices=SCALES, default="full")
    parser.add_argument("--output", type=Path, default=Path("bench.json"))
    parser.add_argument(
        "--profile", action="store_true", help="say where the time goes (slows all down)"
    )
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in BENCHMARKS]:
        parser.error(f"there is no benchmark {unknown[0]}; there are {', '.join(BENCHMARKS)}")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    collect_rarely()
    names = given.names or list(BENCHMARKS)
    profile = cProfile.Profile() if given.profile else None
    if profile is not None:
        profile.enable()
    figures = asyncio.run(run(names, SCALES[given.scale]))
    if profile is not None:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(PROFILE_LINES)
    show(figures)
    write(given.output, figures, given.scale)


if __name__ == "__main__":
    main()
