"""One cycle over waiting pods on synthetic clusters, decided, and decided and durable.

The same shapes as those with which other schedulers were measured: single pods of 1 card, 4 cpu and
16 GiB in 10 queues, and gangs of 16 pods of 8 cards; then one very large gang, and single pods of which
no two ask for the same, so that classes of equal pods cannot hide the cost.
"""

from collections.abc import Callable, Iterator
from time import perf_counter
from typing import Final

from msgspec import Struct

from benchmarks import manifests
from benchmarks.driving import (
    append_all,
    begin,
    bindings,
    decide,
    folder,
    nothing_of,
    take_in,
    timed,
)
from benchmarks.figures import Figure, exponent
from benchmarks.manifests import MODELS, QUEUES, PodShape
from benchmarks.scale import Scale
from daemon.log.opening import open_log
from engine.engine import Engine
from events.messages import WatchMessage
from projections.policy.policy import BUILT_IN

GANG_PODS: Final = 16
BOTH: Final = MODELS[:2]
"""Models that together have nodes enough for the large gang."""


class Case(Struct, frozen=True, kw_only=True):
    """What waits for the cycle. `make` gives pod groups and pods."""

    name: str
    benchmark: str = "cycle"
    make: Callable[[Scale], tuple[list[WatchMessage], list[WatchMessage]]]
    pods: Callable[[Scale], int]
    share: int = QUEUES
    """Each queue has the `share`-th part of the cluster as its quota."""
    rules: bytes = BUILT_IN
    """The policy."""


class Run(Struct, frozen=True):
    """What one cycle cost."""

    seconds: float
    bound: int
    examined: int
    groups: int


def single(scale: Scale) -> tuple[list[WatchMessage], list[WatchMessage]]:
    """Single pods, of one class in each queue and card model."""
    return [], [
        manifests.pod(
            PodShape(name=f"pod-{i:06}", queue=i % QUEUES, models=(MODELS[i // QUEUES % 4],))
        )
        for i in range(scale.pods)
    ]


def different(scale: Scale) -> tuple[list[WatchMessage], list[WatchMessage]]:
    """Single pods of which no two ask for the same."""
    return [], [
        manifests.pod(
            PodShape(
                name=f"pod-{i:06}",
                queue=i % QUEUES,
                models=(MODELS[i // QUEUES % 4],),
                cpu=f"{4000 + i % 1000}m",
                memory=f"{16 * 1024 + i // 1000}Mi",
            )
        )
        for i in range(scale.pods)
    ]


def gangs(scale: Scale) -> tuple[list[WatchMessage], list[WatchMessage]]:
    """Gangs whose pods take whole nodes."""
    made = [
        _gang(f"gang-{i:04}", i % QUEUES, GANG_PODS, cards=8, models=(MODELS[i // QUEUES % 4],))
        for i in range(scale.gangs)
    ]
    return [group for group, _ in made], [pod for _, pods in made for pod in pods]


def large_gang(scale: Scale) -> tuple[list[WatchMessage], list[WatchMessage]]:
    """One gang whose pods take whole nodes of either of two models."""
    group, pods = _gang("large", 0, scale.large_gang, cards=8, models=BOTH)
    return [group], pods


def large_gang_of_cards(scale: Scale) -> tuple[list[WatchMessage], list[WatchMessage]]:
    """One gang whose pods take a card each."""
    group, pods = _gang("large", 0, scale.large_gang, cards=1, models=MODELS[:1])
    return [group], pods


def _gang(
    name: str, queue: int, size: int, *, cards: int, models: tuple[str, ...]
) -> tuple[WatchMessage, list[WatchMessage]]:
    pods = [
        manifests.pod(
            PodShape(
                name=f"{name}-{index:04}",
                queue=queue,
                cards=cards,
                models=models,
                group=name,
                cpu=str(4 * cards),
                memory=f"{16 * cards}Gi",
            )
        )
        for index in range(size)
    ]
    return manifests.pod_group(name, queue, size), pods


SINGLE: Final = Case(name="single pods", make=single, pods=lambda scale: scale.pods)
GANGS: Final = Case(
    name=f"gangs of {GANG_PODS}", make=gangs, pods=lambda scale: scale.gangs * GANG_PODS
)
DIFFERENT: Final = Case(
    name="single pods, every one different", make=different, pods=lambda scale: scale.pods
)
LARGE: Final = (
    Case(
        name="one gang, 8 cards a pod, either of two models",
        make=large_gang,
        pods=lambda scale: scale.large_gang,
        share=1,
    ),
    Case(
        name="one gang, 1 card a pod",
        make=large_gang_of_cards,
        pods=lambda scale: scale.large_gang,
        share=1,
    ),
)


async def measure(scale: Scale) -> list[Figure]:
    """Every case at every size, decided alone and with the log underneath."""
    figures: list[Figure] = []
    for case in (SINGLE, GANGS, DIFFERENT):
        runs = {size: best(case, scale, size) for size in scale.nodes}
        durable = {size: await durable_run(case, scale, size) for size in scale.nodes}
        for size in scale.nodes:
            figures += figures_of(case, size, runs[size], durable[size], scale)
        whole = [size for size in scale.nodes if runs[size].bound == case.pods(scale)]
        if len(whole) > 1:
            growth = exponent(whole, [runs[size].seconds for size in whole])
            figures.append(
                Figure(
                    benchmark=case.benchmark,
                    name=f"{case.name}: exponent over nodes ({whole[0]:,} to {whole[-1]:,})",
                    value=growth,
                    unit="",
                )
            )
    for case in LARGE:
        figures += await large(case, scale)
    return figures


def prepare(case: Case, scale: Scale, node_count: int) -> Iterator[WatchMessage]:
    """The cluster and what waits, kind by kind."""
    groups, pods = case.make(scale)
    yield from manifests.nodes(node_count)
    yield from nothing_of("PriorityClass", "Namespace")
    yield from manifests.queues(node_count, share=case.share)
    yield from manifests.listed("PodGroup", groups)
    yield from manifests.listed("Pod", pods)


def decided(case: Case, scale: Scale, node_count: int) -> tuple[Engine, Run]:
    """A step after its cycle, and what the cycle cost."""
    engine, _ = begin(with_views=False, rules=case.rules)
    for _ in take_in(engine, prepare(case, scale, node_count)):
        pass
    seconds, _ = timed(lambda: decide(engine, 2_000_000_000))
    return engine, _run(engine, seconds)


def best(case: Case, scale: Scale, node_count: int) -> Run:
    runs = [decided(case, scale, node_count)[1] for _ in range(scale.repeats)]
    return min(runs, key=lambda run: run.seconds)


async def durable_run(case: Case, scale: Scale, node_count: int) -> Run:
    """Decided with views, and appended."""
    with folder() as place:
        log = await open_log(str(place / "cycle.db"), "write")
        engine, first = begin(
            with_views=True, head=await log.take_over("benchmark"), rules=case.rules
        )
        await append_all(log, [first, *take_in(engine, prepare(case, scale, node_count))])
        seconds, batches = timed(lambda: decide(engine, 2_000_000_000))
        began = perf_counter()
        await append_all(log, batches)
        seconds += perf_counter() - began
        await log.close()
    return _run(engine, seconds)


def _run(engine: Engine, seconds: float) -> Run:
    decider = engine.decider
    return Run(seconds, bindings(engine), decider.examined, decider.session.groups_examined)


def figures_of(case: Case, size: int, run: Run, durable: Run, scale: Scale) -> Iterator[Figure]:
    judged = size == 5_000 and case is not DIFFERENT
    for what, one, target in (("decided", run, 10_000), ("and durable", durable, 3_000)):
        yield Figure(
            benchmark=case.benchmark,
            name=f"{case.name}, {size:,} nodes: {what}",
            value=one.bound / one.seconds,
            unit="pods/s",
            bound="at least" if judged else "none",
            target=target if judged else None,
            detail={
                "seconds": one.seconds,
                "bound": one.bound,
                "pods": case.pods(scale),
                "examined": one.examined,
                "groups_examined": one.groups,
            },
        )


async def large(case: Case, scale: Scale) -> list[Figure]:
    size = scale.nodes[-1]
    run, durable = best(case, scale, size), await durable_run(case, scale, size)
    assert run.bound == case.pods(scale), f"{run.bound} of {case.pods(scale)} pods were bound"
    return [
        Figure(
            benchmark=case.benchmark,
            name=f"{case.name}, {run.bound:,} pods, {size:,} nodes: {what}",
            value=one.seconds,
            unit="s",
            bound="at most",
            target=1,
            detail={"examined": one.examined, "bound": one.bound},
        )
        for what, one in (("decided", run), ("and durable", durable))
    ]
