"""The deciders of pools beside `session`: a full pool of 5,000 nodes with 10,000 jobs of 1 to 8 cards and gangs of 64.

What a pass costs when all is new or a new policy is read, and when one pod ends or comes. A second case has ten
priorities among the jobs that run and those that wait, so that `priority`, and the action `preempt` of `session`, evict.
Time is CPU time of the process.
"""

import gc
from collections.abc import Callable, Iterator
from time import process_time
from typing import Final

import msgspec
from msgspec import Struct

from benchmarks import manifests
from benchmarks.driving import SECOND, answered, begin, bindings, decide, nothing_of, take_in
from benchmarks.figures import Figure
from benchmarks.manifests import CARDS_PER_NODE, QUEUES, PodLife, PodShape
from benchmarks.scale import Scale
from engine.engine import Engine
from events.daemon import PolicyChanged
from events.messages import WatchMessage
from features.pools.facts import PoolFacts

SESSION: Final = {
    "actions": "allocate, backfill, preempt",
    "tiers": [
        {"plugins": [{"name": "priority"}, {"name": "gang"}]},
        {"plugins": [{"name": "predicates"}, {"name": "binpack"}]},
    ],
}
DECIDERS: Final = ("session", "priority", "fair_share", "round_robin")
CHANGES: Final = 8
"""How often one pod ends, and one comes; the median counts."""
GANG: Final = 8
"""Pods of a gang; each has 8 cards."""
LEVELS: Final = 10
SPLITS: Final = ((8,), (4, 4), (8,), (1, 2, 5), (8,), (3, 5), (8,), (2, 6))
"""How the jobs without gang share the cards of a node, in turns."""


class Loaded(Struct):
    """A cluster and the pods of it, as far as they change in the measurement."""

    engine: Engine
    running: list[tuple[PodShape, PodLife]]
    waiting: int
    groups: int


async def measure(scale: Scale) -> list[Figure]:
    """Each decider on the same objects, and the ratio to `session`."""
    nodes = scale.nodes[len(scale.nodes) // 2]
    figures: list[Figure] = []
    for levels in (1, LEVELS):
        bases: dict[str, float] = {}
        for decider in DECIDERS:
            if levels > 1 and decider not in ("session", "priority"):
                continue
            figures += _measured(decider, nodes, min(scale.waiting, 2 * nodes), levels, bases)
    return figures


def _measured(
    decider: str, nodes: int, groups: int, levels: int, bases: dict[str, float]
) -> Iterator[Figure]:
    loaded = load(decider, nodes, groups, levels)
    engine = loaded.engine
    of = f"{decider}, {loaded.groups:,} jobs, {loaded.waiting:,} of them wait, {nodes:,} nodes"
    if levels > 1:
        of += f", {levels} priorities"
    now = [10 * SECOND]

    def cycle() -> None:
        now[0] += SECOND
        decide(engine, now[0])

    def reload() -> None:
        engine.change_policy(_policy(decider, reads=2), now[0])
        cycle()

    for what, spent, detail in (
        ("first pass", _first(engine, cycle), {**_asked(engine)}),
        ("policy read again, and a pass", _cpu(reload), {}),
        ("one pod comes, and a pass", _median(_comes(engine, cycle)), {}),
        ("one pod ends, and a pass", *_ends(loaded, cycle)),
    ):
        base = bases.setdefault(what, spent)
        yield Figure(
            benchmark="pools",
            name=f"{of}: {what}",
            value=spent * 1_000,
            unit="ms",
            detail={"times_session": spent / base if base else 0.0, **detail},
        )


def _first(engine: Engine, cycle: Callable[[], None]) -> float:
    spent = _cpu(cycle)
    answered(engine)
    return spent


def _asked(engine: Engine) -> dict[str, float]:
    """Count what the first pass asked of running pods."""
    facts = engine.state.cluster.tables.find(PoolFacts)
    evicted = sum(pod.evicted for pod in engine.state.cluster.pods.values())
    return {"released": 0 if facts is None else len(facts.releases), "evicted": evicted}


def _comes(engine: Engine, cycle: Callable[[], None]) -> Iterator[float]:
    for turn in range(CHANGES):
        shape = job_pod(f"late-{turn:03}", 1 + turn % 8, 1_000_000 + turn, 1)
        came = manifests.pod(shape)

        def change(came: WatchMessage = came) -> None:
            engine.observe([came], 20 * SECOND)
            cycle()

        yield _cpu(change)


def _ends(loaded: Loaded, cycle: Callable[[], None]) -> tuple[float, dict[str, float]]:
    engine, spent = loaded.engine, []
    before = bindings(engine)
    for shape, life in loaded.running[:CHANGES]:
        over = manifests.pod(shape, PodLife(life.node, "Succeeded", 3))

        def change(over: WatchMessage = over) -> None:
            engine.observe([over], 30 * SECOND)
            cycle()

        spent.append(_cpu(change))
    bound = (bindings(engine) - before) / len(spent)
    return _median(spent), {"bound": bound}


def _cpu(work: Callable[[], None]) -> float:
    gc.collect()
    began = process_time()
    work()
    return process_time() - began


def _median(spent: Iterator[float] | list[float]) -> float:
    found = sorted(spent)
    return found[len(found) // 2]


def _policy(decider: str, reads: int = 1) -> PolicyChanged:
    pool = {"name": "default", "decider": decider, "preemptionTimeout": f"{reads}h"}
    if decider == "session":
        pool = {"name": "default", "decider": decider}
    rules = msgspec.json.encode({**SESSION, "pools": [pool]})
    return PolicyChanged(source=f"read {reads}", policy=msgspec.Raw(rules))


def load(decider: str, nodes: int, groups: int, levels: int) -> Loaded:
    """Return a full cluster with gangs and jobs that run, and others that wait."""
    engine, _ = begin(with_views=False, rules=bytes(_policy(decider).policy))
    gangs = nodes // 3 // GANG
    pods: list[WatchMessage] = []
    objects = [
        manifests.pod_group(f"gang-{index:05}", index % QUEUES, GANG) for index in range(gangs)
    ]
    number = 0
    for number in range(gangs):
        for turn in range(GANG):
            shape = job_pod(
                f"gang-{number:05}-{turn}", CARDS_PER_NODE, number, levels, f"gang-{number:05}"
            )
            pods.append(
                manifests.pod(shape, PodLife(f"node-{number * GANG + turn:05}", "Running", 2))
            )
    running: list[tuple[PodShape, PodLife]] = []
    for index in range(gangs * GANG, nodes):
        for cards in SPLITS[index % len(SPLITS)]:
            number += 1
            life = PodLife(f"node-{index:05}", "Running", 2)
            running.append((job_pod(f"run-{number:06}", cards, number, levels), life))
    pods += [manifests.pod(*one) for one in running]
    waiting = max(groups - number - 1, groups // 4)
    for index in range(waiting):
        number += 1
        if index % 20:
            pods.append(manifests.pod(job_pod(f"wait-{number:06}", 1 + index % 8, number, levels)))
            continue
        name = f"gang-wait-{index:05}"
        objects.append(manifests.pod_group(name, index % QUEUES, GANG))
        for turn in range(GANG):
            shape = job_pod(f"{name}-{turn}", CARDS_PER_NODE, number, levels, name)
            pods.append(manifests.pod(shape))
    messages = [
        *manifests.nodes(nodes),
        *nothing_of("PriorityClass", "Namespace"),
        *manifests.queues(nodes, share=1),
        *manifests.listed("PodGroup", objects),
        *manifests.listed("Pod", pods),
    ]
    for _ in take_in(engine, messages):
        pass
    return Loaded(engine, running, waiting, number + 1)


def job_pod(name: str, cards: int, number: int, levels: int, group: str = "") -> PodShape:
    """Return a pod of the job with this number, which was submitted so many seconds after the first one."""
    level = number * 7 % levels
    days, second = divmod(number, 86_400)
    at = f"2026-01-{5 + days:02}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    return PodShape(
        name=name,
        queue=number % QUEUES,
        cards=cards,
        models=(),
        cpu=str(cards * 4),
        memory=f"{cards * 16}Gi",
        group=group,
        priority=level,
        stated=(("muster.sh/submitted-at", at), ("muster.sh/priority", str(50 + level))),
    )
