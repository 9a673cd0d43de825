"""Memory of a daemon that takes in the first lists of a large cluster: the loop as `muster run` composes it.

It runs in a process of its own: python -m benchmarks.memory NODES PODS
"""

import asyncio
import gc
import logging
import resource
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator, Mapping
from time import perf_counter

import msgspec
import structlog
from msgspec import Struct

from benchmarks import manifests
from benchmarks.driving import composed_loop, nothing_of
from benchmarks.figures import Figure
from benchmarks.manifests import MODELS, QUEUES, PodLife, PodShape
from benchmarks.scale import Scale
from daemon.clock import WallClock
from daemon.deciding_thread import DecidingThread
from daemon.memory_tuning import collect_rarely, return_large_blocks
from events.messages import Accepted, Reply, Request, ResumePoint, WatchMessage

MB = 1_000_000


class Usage(Struct):
    """Bytes of the process, before and after, and at the most."""

    before: int
    after: int
    peak: int
    seconds: float


async def measure(scale: Scale) -> list[Figure]:
    """The daemon on a cluster whose pods all run."""
    nodes, pods = scale.nodes[-1], scale.running
    process = await create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.memory", str(nodes), str(pods)), stdout=PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0, "measuring memory failed"
    usage = msgspec.json.decode(output, type=Usage)
    return [
        Figure(
            benchmark="memory",
            name=f"the daemon, first lists of {nodes:,} nodes, {pods:,} running pods: peak",
            value=usage.peak / MB,
            unit="MB",
            bound="at most",
            target=1_000,
            detail={
                "at_start_mb": usage.before / MB,
                "at_end_mb": usage.after / MB,
                "seconds": usage.seconds,
            },
        )
    ]


def lists(nodes: int, pods: int) -> Iterator[list[WatchMessage]]:
    """The lists of a cluster whose pods all run: half of the cards of each node are taken."""
    yield list(manifests.listed("Node", (manifests.node(index) for index in range(nodes))))
    yield nothing_of("PriorityClass", "Namespace", "PodGroup")
    yield manifests.queues(nodes, share=1)
    yield list(manifests.listed("Pod", (_pod(index, nodes) for index in range(pods))))


def running(nodes: int, pods: int) -> Iterator[WatchMessage]:
    """The same lists, message by message."""
    for listed in lists(nodes, pods):
        yield from listed


class Shown:
    """A cluster that shows its lists, each in one piece, and nothing afterwards."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._nodes = nodes
        self._pods = pods

    async def messages(self) -> AsyncIterator[list[WatchMessage]]:
        """Yield the lists, kind by kind."""
        for listed in lists(self._nodes, self._pods):
            yield listed
            del listed  # As a watch does: the objects are not held here any longer.
        await asyncio.Event().wait()

    def resume_from(self, progress: Mapping[str, ResumePoint]) -> None:
        """Do nothing: everything is listed anyway."""

    async def attempt(self, request: Request) -> tuple[Reply, int]:
        """Accept every request."""
        return Accepted(), 1


def _pod(index: int, nodes: int) -> WatchMessage:
    turn, node = divmod(index, nodes)
    has_card = turn < manifests.CARDS_PER_NODE // 2
    shape = PodShape(
        name=f"run-{index:06}",
        queue=index % QUEUES,
        cards=1 if has_card else 0,
        models=(MODELS[node % len(MODELS)],) if has_card else (),
        cpu="2",
        memory="8Gi",
    )
    return manifests.pod(shape, PodLife(f"node-{node:05}", "Running", 3))


def main() -> None:
    """Hold the cluster, and say what that takes."""
    nodes, pods = int(sys.argv[1]), int(sys.argv[2])
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    collect_rarely()
    return_large_blocks()
    usage = asyncio.run(_held(nodes, pods))
    sys.stdout.buffer.write(msgspec.json.encode(usage))


async def _held(nodes: int, pods: int) -> Usage:
    before, began = _peak(), perf_counter()
    clock, appended = WallClock(), asyncio.Event()
    thread = DecidingThread(clock.elapsed_ns)
    async with composed_loop(
        Shown(nodes, pods), clock, lambda _batch, _seconds: appended.set(), thread
    ) as loop:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(loop.run(), name="loop")
            while not loop.is_synced:
                await appended.wait()
                appended.clear()
                await asyncio.sleep(0.1)
            loop.stop()
        seconds = perf_counter() - began
        assert loop.engine is not None
        assert len(loop.engine.state.cluster.pods) == pods
        gc.collect()
        return Usage(before=before, after=_resident(), peak=_peak(), seconds=seconds)


def _peak() -> int:
    """Bytes that this process held at the most. `ru_maxrss` alone would include those of the process that started it."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            held = next(line for line in file if line.startswith("VmHWM:"))
            return int(held.split()[1]) * 1024
    except OSError:
        pass
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _resident() -> int:
    """Bytes in memory now, where the system tells; else the most there were."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return _peak()


if __name__ == "__main__":
    main()
