"""From a snapshot, and from a base, to the first decision, on a cluster whose pods run.

A daemon that starts restores State and views: from a snapshot, or, where there is none of its own release, by folding the base that its
log begins with and the records behind it. Then its watches resume where they ended, and it decides what came
meanwhile; or, where the API server has forgotten that revision, every object is listed once more before it decides.
The time in which the benchmark makes the objects is left out.
"""

from collections.abc import Iterator
from itertools import chain, islice
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
from daemon.intake import INTAKE_MAX
from daemon.log.code_key import code_key
from daemon.log.opening import open_log
from daemon.log.snapshots import payload_of
from daemon.queries.bases import base_at
from engine.engine import Engine
from events.messages import ListStarted, WatchMessage
from events.watch import WatchClosed, WatchOpened
from projections.kind_table import REQUIRED


class Spent(Struct):
    """Seconds of each part of a start."""

    restored: float
    decided: float
    """What came while no daemon ran."""
    listed: float = 0
    """Everything, once more."""


async def measure(scale: Scale) -> list[Figure]:
    """One start; what was there before it is not timed."""
    nodes, pods = scale.started_nodes, scale.started_pods
    with folder() as place:
        taken, size = await _ended(place, nodes, pods)
        spent = await _started(place / "start.db", nodes, pods)
        from_base = await _started(place / "base.db", nodes, pods)
    cluster = f"{nodes:,} nodes, {pods:,} pods"
    resumed = spent.restored + spent.decided
    return [
        Figure(
            benchmark="start",
            name=f"from snapshot to decision, {cluster}, watches resume",
            value=resumed,
            unit="s",
            bound="at most",
            target=10,
        ),
        Figure(
            benchmark="start",
            name=f"from snapshot to decision, {cluster}, all listed again",
            value=resumed + spent.listed,
            unit="s",
            bound="at most",
            target=10,
        ),
        Figure(
            benchmark="start",
            name="of both: State and views restored",
            value=spent.restored,
            unit="s",
        ),
        Figure(
            benchmark="start",
            name=f"from base to decision, {cluster}, watches resume",
            value=from_base.restored + from_base.decided,
            unit="s",
        ),
        Figure(
            benchmark="start",
            name="taking the snapshot",
            value=taken,
            unit="s",
            detail={"bytes": size},
        ),
    ]


async def _ended(place: Path, nodes: int, pods: int) -> tuple[float, int]:
    """Leave a log with a snapshot at its end, and one that begins there; the seconds that the snapshot took, and its size."""
    log = await open_log(str(place / "start.db"), "write")
    engine, first = begin(with_views=True, head=await log.take_over("benchmark"))
    await append_all(log, [first])
    for batch in take_in(engine, running(nodes, pods)):
        await log.append(batch)
    began = perf_counter()
    payload = payload_of(engine.state)
    await log.save_snapshot(engine.head.position, engine.head.digest, code_key(), payload)
    seconds = perf_counter() - began
    base = await base_at(log, engine.head, engine.state)
    await log.close()
    behind = await open_log(str(place / "base.db"), "write")
    await behind.begin_behind(base.head, base)
    await behind.close()
    return seconds, len(payload)


async def _started(path: Path, nodes: int, pods: int) -> Spent:
    began = perf_counter()
    log = await open_log(str(path), "write")
    head = await log.take_over("benchmark")
    engine = await refolder(log, with_views=True)(head)
    await log.append(engine.start(process_started(), None, head.epoch, SECOND))
    restored = perf_counter() - began
    began = perf_counter()
    *_, model = MODELS
    came = engine.observe(
        [*_resumed(), manifests.pod(PodShape(name="new", models=(model,)))], SECOND
    )
    for batch in (came, engine.cycle(2 * SECOND)):
        assert batch is not None
        await log.append(batch)
    spent = Spent(restored=restored, decided=perf_counter() - began)
    assert _is_bound(engine)
    for messages in _chunks(chain(_lost(), running(nodes, pods))):
        began = perf_counter()
        batch = engine.observe(messages, SECOND)
        if batch is not None:  # What is listed as it was known is not recorded again.
            await log.append(batch)
        spent.listed += perf_counter() - began
    await log.close()
    return spent


def _resumed() -> Iterator[WatchMessage]:
    """That the watches of all required kinds go on where they ended."""
    for kind in REQUIRED:
        yield WatchOpened(resource=kind, resource_version="1", is_resumed=True)


def _lost() -> Iterator[WatchMessage]:
    """That the API server has forgotten where they ended."""
    for kind in REQUIRED:
        yield WatchClosed(resource=kind, resource_version="1", cause="expired", has_gap=True)
        yield ListStarted(resource=kind)


def _chunks(messages: Iterator[WatchMessage]) -> Iterator[list[WatchMessage]]:
    while chunk := list(islice(messages, INTAKE_MAX)):
        yield chunk


def _is_bound(engine: Engine) -> bool:
    return any(one.pod == f"{manifests.NAMESPACE}/new" for one in engine.state.commitments.values())
