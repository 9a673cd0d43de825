"""From a snapshot to the first decision, on a cluster whose pods run.

A daemon that starts restores State and views, then is shown every object once more, which the log records,
and only then decides. The time in which the benchmark makes those objects is left out.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter

from msgspec import Struct

from benchmarks import manifests
from benchmarks.driving import SECOND, append_all, begin, folder, process_started, take_in
from benchmarks.figures import Figure
from benchmarks.manifests import MODELS, PodShape
from benchmarks.memory import running
from benchmarks.scale import Scale
from daemon.fold import refolder
from daemon.log.opening import open_log
from daemon.log.snapshots import payload_of
from daemon.loop import INTAKE_MAX
from engine.engine import Engine
from events.messages import WatchMessage
from projections import snapshot


class Spent(Struct):
    """Seconds of each part of a start."""

    restored: float
    shown: float = 0
    decided: float = 0


async def measure(scale: Scale) -> list[Figure]:
    """One start; what was there before it is not timed."""
    nodes, pods = scale.started_nodes, scale.started_pods
    with folder() as place:
        taken, size = await _ended(place / "start.db", nodes, pods)
        spent = await _started(place / "start.db", nodes, pods)
    total = spent.restored + spent.shown + spent.decided
    return [
        Figure(
            benchmark="start",
            name=f"from snapshot to decision, {nodes:,} nodes, {pods:,} pods",
            value=total,
            unit="s",
            bound="at most",
            target=10,
        ),
        Figure(
            benchmark="start",
            name="of it: State and views restored",
            value=spent.restored,
            unit="s",
        ),
        Figure(
            benchmark="start",
            name="of it: everything shown and durable",
            value=spent.shown,
            unit="s",
        ),
        Figure(benchmark="start", name="of it: a pod decided", value=spent.decided, unit="s"),
        Figure(
            benchmark="start",
            name="taking the snapshot",
            value=taken,
            unit="s",
            detail={"bytes": size},
        ),
    ]


async def _ended(path: Path, nodes: int, pods: int) -> tuple[float, int]:
    """Leave a log with a snapshot at its end; the seconds that the snapshot took, and its size."""
    log = await open_log(str(path), "write")
    engine, first = begin(with_views=True, head=await log.take_over("benchmark"))
    await append_all(log, [first])
    for batch in take_in(engine, running(nodes, pods)):
        await log.append(batch)
    began = perf_counter()
    payload = payload_of(engine.state)
    await log.save_snapshot(engine.head.position, engine.head.digest, snapshot.VERSION, payload)
    seconds = perf_counter() - began
    await log.close()
    return seconds, len(payload)


async def _started(path: Path, nodes: int, pods: int) -> Spent:
    began = perf_counter()
    log = await open_log(str(path), "write")
    head = await log.take_over("benchmark")
    engine = await refolder(log, with_views=True)(head)
    await log.append(engine.start(process_started(), None, head.epoch, SECOND))
    spent = Spent(restored=perf_counter() - began)
    for messages in _chunks(_shown(nodes, pods)):
        began = perf_counter()
        batch = engine.observe(messages, SECOND)
        if batch is not None:  # What is shown as it was known is not told again.
            await log.append(batch)
        spent.shown += perf_counter() - began
    began = perf_counter()
    batch = engine.cycle(2 * SECOND)
    assert batch is not None
    await log.append(batch)
    spent.decided = perf_counter() - began
    assert _is_bound(engine)
    await log.close()
    return spent


def _shown(nodes: int, pods: int) -> Iterator[WatchMessage]:
    """All that was there, and a pod that came meanwhile."""
    *_, model = MODELS
    yield manifests.pod(PodShape(name="new", models=(model,)))
    yield from running(nodes, pods)


def _chunks(messages: Iterator[WatchMessage]) -> Iterator[list[WatchMessage]]:
    while chunk := list(islice(messages, INTAKE_MAX)):
        yield chunk


def _is_bound(engine: Engine) -> bool:
    return any(one.pod == f"{manifests.NAMESPACE}/new" for one in engine.state.commitments.values())
