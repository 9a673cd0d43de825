"""Cycles in which nothing, or next to nothing, could change."""

from collections.abc import Iterator
from time import perf_counter

from benchmarks import manifests
from benchmarks.cycle import SINGLE, decided
from benchmarks.driving import SECOND, answered, begin, bindings, nothing_of, take_in, timed
from benchmarks.figures import Figure
from benchmarks.manifests import CARDS_PER_NODE, MODELS, QUEUES, PodLife, PodShape
from benchmarks.scale import Scale
from events.sighting import Sighting
from scheduling.step import Step

TURNS = 1_000
CHANGES = 20


async def measure(scale: Scale) -> list[Figure]:
    """A settled cluster; a full one with pods that wait; and one pod of it that ends."""
    size = scale.nodes[-1]
    settled, _ = decided(SINGLE, scale, size)
    answered(settled)
    full = full_cluster(scale, size)
    seconds, batch = timed(lambda: full.cycle(2 * SECOND))
    assert batch is not None
    refused = len(batch.records) - 1
    idle_full = _idle(full)
    changes, examined, bound = _changes(full, size)
    return [
        _milliseconds(f"nothing waits, {size:,} nodes", _idle(settled), target=1),
        _milliseconds(f"{scale.waiting:,} pods wait, {size:,} full nodes", idle_full, target=1),
        Figure(
            benchmark="idle",
            name=f"{scale.waiting:,} pods refused for the first time",
            value=seconds * 1_000,
            unit="ms",
            detail={"refusals": refused},
        ),
        Figure(
            benchmark="idle",
            name="one pod of 8 cards ends: taken in and decided",
            value=changes * 1_000,
            unit="ms",
            detail={"examined": examined, "bound": bound},
        ),
    ]


def full_cluster(scale: Scale, size: int) -> Step:
    """Every node taken by a pod of 8 cards, and pods of one card waiting."""
    step, _ = begin(with_views=False)
    for _ in take_in(step, _full(scale, size)):
        pass
    return step


def _full(scale: Scale, size: int) -> Iterator[Sighting]:
    yield from manifests.nodes(size)
    yield from nothing_of("PriorityClass", "Namespace", "PodGroup")
    yield from manifests.queues(size, share=1)
    yield from manifests.listed("Pod", _pods(scale, size))


def _pods(scale: Scale, size: int) -> Iterator[Sighting]:
    for index in range(size):
        yield manifests.pod(_running(index), PodLife(f"node-{index:05}", "Running", 3))
    for index in range(scale.waiting):
        models = (MODELS[index // QUEUES % len(MODELS)],)
        yield manifests.pod(PodShape(name=f"wait-{index:06}", queue=index % QUEUES, models=models))


def _running(index: int) -> PodShape:
    return PodShape(
        name=f"run-{index:06}",
        queue=index % QUEUES,
        cards=CARDS_PER_NODE,
        models=(MODELS[index % len(MODELS)],),
        cpu="32",
        memory="128Gi",
    )


def _idle(step: Step) -> float:
    """Seconds of a cycle in which nothing could change."""
    position = step.head.position
    assert step.cycle(3 * SECOND) is None
    began = perf_counter()
    for _ in range(TURNS):
        step.cycle(3 * SECOND)
    seconds = perf_counter() - began
    assert step.head.position == position
    return seconds / TURNS


def _changes(step: Step, size: int) -> tuple[float, float, float]:
    """A pod ends, a cycle is held: median seconds, nodes examined and pods bound a time."""
    spent: list[float] = []
    examined, before = step.decider.examined, bindings(step)
    for turn in range(min(CHANGES, size)):
        over = manifests.pod(_running(turn), PodLife(f"node-{turn:05}", "Succeeded", 4))
        began = perf_counter()
        step.observe([over], 4 * SECOND)
        step.cycle((4 + turn) * SECOND)
        spent.append(perf_counter() - began)
    bound = bindings(step) - before
    spent.sort()
    turns = len(spent)
    return spent[turns // 2], (step.decider.examined - examined) / turns, bound / turns


def _milliseconds(name: str, seconds: float, target: float) -> Figure:
    return Figure(
        benchmark="idle",
        name=name,
        value=seconds * 1_000,
        unit="ms",
        bound="at most",
        target=target,
    )
