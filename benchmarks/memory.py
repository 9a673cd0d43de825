"""Memory of a process that holds a large cluster.

It runs in a process of its own: python -m benchmarks.memory NODES PODS
"""

import gc
import resource
import sys
from asyncio import create_subprocess_exec
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from time import perf_counter

import msgspec
from msgspec import Struct

from benchmarks import manifests
from benchmarks.driving import begin, nothing_of, take_in
from benchmarks.figures import Figure
from benchmarks.manifests import MODELS, QUEUES, PodLife, PodShape
from benchmarks.scale import Scale
from events.messages import WatchMessage

INTAKE = 1_000
MB = 1_000_000


class Usage(Struct):
    """Bytes of the process, before and after, and at the most."""

    before: int
    after: int
    peak: int
    seconds: float


async def measure(scale: Scale) -> list[Figure]:
    """State and views of a cluster whose pods all run."""
    nodes, pods = scale.nodes[-1], scale.running
    process = await create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.memory", str(nodes), str(pods)), stdout=PIPE
    )
    told, _ = await process.communicate()
    assert process.returncode == 0, "measuring memory failed"
    usage = msgspec.json.decode(told, type=Usage)
    return [
        Figure(
            benchmark="memory",
            name=f"State and views, {nodes:,} nodes, {pods:,} running pods: peak",
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


def running(nodes: int, pods: int) -> Iterator[WatchMessage]:
    """A cluster whose pods all run: half of the cards of each node are taken."""
    yield from manifests.listed("Node", (manifests.node(index) for index in range(nodes)))
    yield from nothing_of("PriorityClass", "Namespace", "PodGroup")
    yield from manifests.queues(nodes, share=1)
    yield from manifests.listed("Pod", (_pod(index, nodes) for index in range(pods)))


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
    gc.collect()
    before, began = _peak(), perf_counter()
    engine, _ = begin(with_views=True)
    for _ in take_in(engine, running(nodes, pods), INTAKE):
        pass
    seconds = perf_counter() - began
    usage = Usage(before=before, after=_resident(), peak=_peak(), seconds=seconds)
    assert len(engine.state.cluster.pods) == pods
    sys.stdout.buffer.write(msgspec.json.encode(usage))


def _peak() -> int:
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
