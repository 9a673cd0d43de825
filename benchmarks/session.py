"""The whole session: every action and plugin on, over the shapes of `cycle` and on a full cluster.

Then what evicting costs: a cluster full of pods that may be evicted, and pods of higher priority in the same
queue (`preempt`) or pods of a queue that has less than it deserves (`reclaim`).
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec import structs

from benchmarks import manifests
from benchmarks.cycle import DIFFERENT, GANGS, LARGE, SINGLE, best, durable_run, figures_of, large
from benchmarks.driving import SECOND, WHOLE, begin, decide, nothing_of, take_in, timed
from benchmarks.figures import Figure
from benchmarks.full import Filled, filled, idle, one_arrives, one_ends
from benchmarks.manifests import CARDS_PER_NODE, MODELS, QUEUES, PodLife, PodShape
from benchmarks.scale import Scale
from engine.engine import Engine
from events.messages import EvictRequest, WatchMessage

EVICTING: Final = msgspec.json.encode(
    {
        "actions": "enqueue, allocate, backfill, preempt, reclaim",
        "tiers": [
            {
                "plugins": [
                    {"name": "priority"},
                    {"name": "gang", "enablePreemptable": False, "enableReclaimable": False},
                ]
            },
            {
                "plugins": [
                    {"name": "drf", "enablePreemptable": False},
                    *({"name": name} for name in ("conformance", "overcommit", "predicates")),
                    *({"name": name} for name in ("capacity-card", "nodeorder", "binpack")),
                ]
            },
        ],
    }
)
"""The same with the flags of Volcano's usual files, so that whole gangs may have to make way."""

CONTENDERS = 400
"""Pods of 8 cards for which others are to be evicted in one cycle."""


async def measure(scale: Scale) -> list[Figure]:
    """The shapes of `cycle`, a full cluster at rest and disturbed, and evictions."""
    figures: list[Figure] = []
    middle = scale.nodes[len(scale.nodes) // 2]
    for shape in (SINGLE, GANGS, DIFFERENT):
        case = structs.replace(shape, rules=WHOLE, benchmark="session")
        run, durable = best(case, scale, middle), await durable_run(case, scale, middle)
        figures += figures_of(case, middle, run, durable, scale)
    for shape in LARGE:
        figures += await large(structs.replace(shape, rules=WHOLE, benchmark="session"), scale)
    figures += _at_rest(scale)
    figures += [_preempted(scale, middle), _reclaimed(scale, middle)]
    return figures


def _at_rest(scale: Scale) -> Iterator[Figure]:
    size = scale.nodes[-1]
    engine = filled(Filled(nodes=size, waiting=scale.waiting, rules=WHOLE))
    seconds, _ = timed(lambda: decide(engine, 2 * SECOND))
    name = f"{scale.waiting:,} pods wait, {size:,} full nodes"
    yield _milliseconds(f"{name}: refused for the first time", seconds)
    yield _milliseconds(f"{name}: a cycle when nothing happened", idle(engine), target=1)
    yield _milliseconds(f"{name}: one more comes, taken in and decided", one_arrives(engine))
    spent, examined, bound = one_ends(engine, size)
    detail = {"examined": examined, "bound": bound}
    yield _milliseconds(f"{name}: one of 8 cards ends, taken in and decided", spent, detail=detail)


def _preempted(scale: Scale, size: int) -> Figure:
    """Pods of higher priority wait in the queues of those that run."""
    count = min(CONTENDERS, size // 4)
    engine = contended(size, list(contenders(count, priority=10)), owned=QUEUES)
    return _evicting(
        engine, f"preempt: {count} of 8 cards take the place of others, {size:,} nodes"
    )


def _reclaimed(scale: Scale, size: int) -> Figure:
    """One queue has everything; the others have nothing of what they deserve."""
    count = min(CONTENDERS, size // 4)
    engine = contended(size, list(contenders(count, first=1)), owned=1)
    return _evicting(engine, f"reclaim: {count} of 8 cards get back what is theirs, {size:,} nodes")


def contenders(count: int, *, priority: int = 0, first: int = 0) -> Iterator[WatchMessage]:
    """Pods of all queues from the first on."""
    queues = QUEUES - first
    for index in range(count):
        shape = PodShape(
            name=f"claim-{index:05}",
            queue=first + index % queues,
            cards=CARDS_PER_NODE,
            models=(MODELS[index // queues % len(MODELS)],),
            cpu="32",
            memory="128Gi",
            priority=priority,
        )
        yield manifests.pod(shape)


def contended(
    size: int,
    waiting: list[WatchMessage],
    owned: int,
    groups: Sequence[WatchMessage] = (),
    rules: bytes = EVICTING,
) -> Engine:
    """Every node taken by a pod of 8 cards, those of the first `owned` queues."""
    engine, _ = begin(with_views=False, rules=rules)
    running = [
        manifests.pod(
            PodShape(
                name=f"run-{index:06}",
                queue=index // len(MODELS) % owned,
                cards=CARDS_PER_NODE,
                models=(MODELS[index % len(MODELS)],),
                cpu="32",
                memory="128Gi",
            ),
            PodLife(f"node-{index:05}", "Running", 3),
        )
        for index in range(size)
    ]
    messages = [
        *manifests.nodes(size),
        *nothing_of("PriorityClass", "Namespace"),
        *manifests.queues(size),
        *manifests.listed("PodGroup", groups),
        *manifests.listed("Pod", [*running, *waiting]),
    ]
    for _ in take_in(engine, messages):
        pass
    return engine


def _evicting(engine: Engine, name: str) -> Figure:
    seconds, _ = timed(lambda: decide(engine, 2 * SECOND))
    evicted = sum(isinstance(request, EvictRequest) for request in engine.requests())
    assert evicted, "no pod was evicted"
    return Figure(
        benchmark="session",
        name=name,
        value=evicted / seconds,
        unit="evictions/s",
        detail={"seconds": seconds, "evicted": evicted, "examined": engine.decider.examined},
    )


def _milliseconds(
    name: str,
    seconds: float,
    *,
    target: float | None = None,
    detail: dict[str, float] | None = None,
) -> Figure:
    return Figure(
        benchmark="session",
        name=name,
        value=seconds * 1_000,
        unit="ms",
        bound="none" if target is None else "at most",
        target=target,
        detail=detail or {},
    )
