"""Measure, print a table, write a document.

python -m benchmarks.end_to_end [--nodes N,N] [--pods N] [--output FILE] [--profile]
"""

import argparse
import asyncio
import pstats
import sys
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.end_to_end.arena import Run, arena
from benchmarks.end_to_end.contenders import Contender, bare, kube_scheduler, muster, profiled
from benchmarks.figures import Figure, show, write

BENCHMARK: Final = "end_to_end"
OF_KUBE_SCHEDULER: Final = 2.5
OF_BARE_CLIENT: Final = 0.65
PROFILE_LINES: Final = 25


async def measure(nodes: int, pods: int) -> list[Figure]:
    """The figures of all three, one after the other, at one size."""
    ours = await _run("muster", "muster", muster, nodes, pods)
    theirs = await _run("kube-scheduler", "default-scheduler", kube_scheduler, nodes, pods)
    least = await _run("bare client", "muster", bare(ours.bindings), nodes, pods)
    size = f"{nodes:,} nodes"
    return [
        _rate(f"muster, {size}", ours),
        _rate(f"kube-scheduler, {size}", theirs),
        _rate(f"bare client, {size}", least),
        _ratio(f"muster to kube-scheduler, {size}", ours, theirs, OF_KUBE_SCHEDULER),
        _ratio(f"muster to bare client, {size}", ours, least, OF_BARE_CLIENT),
    ]


async def profile(nodes: int, pods: int) -> None:
    """Print where the daemon's time goes."""
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        path = Path(folder) / "profile"
        await _run("muster, profiled", "muster", profiled(path), nodes, pods)
        pstats.Stats(str(path)).sort_stats("tottime").print_stats(PROFILE_LINES)


async def _run(name: str, scheduler: str, contender: Contender, nodes: int, pods: int) -> Run:
    sys.stderr.write(f"measuring {name}, {nodes:,} nodes, {pods:,} pods\n")
    with tempfile.TemporaryDirectory(prefix="muster-bench-") as folder:
        async with arena() as place:
            await place.furnish(nodes, pods, scheduler)
            return await contender(place, Path(folder))


def _rate(name: str, run: Run) -> Figure:
    detail = {"seconds": run.seconds, "pods": len(run.bindings)}
    used = {f"processor seconds of {key}": value for key, value in run.cpu_seconds.items()}
    return Figure(
        benchmark=BENCHMARK, name=name, value=run.rate, unit="pods/s", detail=detail | used
    )


def _ratio(name: str, ours: Run, other: Run, target: float) -> Figure:
    return Figure(
        benchmark=BENCHMARK,
        name=name,
        value=ours.rate / other.rate,
        unit="x",
        bound="at least",
        target=target,
    )


def main() -> None:
    """Read the arguments, measure, tell."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.end_to_end", description="Measure on a real API server."
    )
    parser.add_argument("--nodes", default="1000,5000", help="sizes of clusters")
    parser.add_argument("--pods", type=int, default=5_000, help="pods that ask for one card each")
    parser.add_argument("--output", type=Path, default=Path("bench-e2e.json"))
    parser.add_argument(
        "--profile", action="store_true", help="run muster once more and say where its time goes"
    )
    given = parser.parse_args()
    figures = []
    for nodes in map(int, given.nodes.split(",")):
        figures += asyncio.run(measure(nodes, given.pods))
        if given.profile:
            asyncio.run(profile(nodes, given.pods))
    show(figures)
    write(given.output, figures, f"{given.pods} pods")


if __name__ == "__main__":
    main()
