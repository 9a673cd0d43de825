"""Copying State: a question is asked of the copy, and the State that decides stays as it is."""

from statistics import median

from benchmarks import manifests
from benchmarks.driving import SECOND, begin, take_in, timed
from benchmarks.figures import Figure
from benchmarks.manifests import MODELS, PodLife, PodShape
from benchmarks.memory import running
from benchmarks.scale import Scale
from daemon.composition import build_engine
from engine.engine import Engine
from engine.ingest import FIRST_LISTS
from events.record import Head
from events.watch import WatchOpened

ROUNDS = 5


async def measure(scale: Scale) -> list[Figure]:
    """Forks of a cluster whose pods all run, and a pod that is placed on one of them."""
    nodes, pods = scale.started_nodes, scale.started_pods
    engine, _ = begin(with_views=False)
    for _ in take_in(engine, running(nodes, pods)):
        pass
    forks = [timed(engine.state.fork) for _ in range(ROUNDS)]
    head = Head(position=engine.head.position, digest="0" * 64, epoch=1)
    twin = build_engine(forks[-1][1], head, views=None)
    kinds = [
        WatchOpened(resource=kind, resource_version="1", is_resumed=True) for kind in FIRST_LISTS
    ]
    twin.observe(kinds, SECOND)
    placed, _ = timed(lambda: _place(twin))
    assert len(twin.state.cluster.pods) == len(engine.state.cluster.pods) + 1
    size = f"{nodes:,} nodes, {pods:,} pods"
    return [
        Figure(
            benchmark="fork",
            name=f"State.fork, {size}",
            value=median(seconds for seconds, _ in forks) * 1_000,
            unit="ms",
            bound="at most",
            target=100,
            detail={"slowest": max(seconds for seconds, _ in forks) * 1_000},
        ),
        Figure(
            benchmark="fork",
            name=f"a pod is placed on a fork, {size}",
            value=placed * 1_000,
            unit="ms",
        ),
    ]


def _place(twin: Engine) -> None:
    """Show a fork one more pod, and hold a cycle."""
    *_, model = MODELS
    twin.observe([manifests.pod(PodShape(name="new", models=(model,)), PodLife(version=9))], SECOND)
    assert twin.cycle(2 * SECOND) is not None
