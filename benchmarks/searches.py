"""Python calls of one cycle that searches for room: a gang, a preemption and a reclaim on a full cluster, a gang that reclaims, and
the deciders of pools.

python -m benchmarks.searches [--nodes N] [--functions SEARCH]

Calls are counted as in `benchmarks.frames`: they are the same on every machine and at any load.
"""

import argparse
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import structs

from benchmarks import manifests, pools, session
from benchmarks.cycle import large_gang, large_gang_of_cards
from benchmarks.driving import SECOND, answered, begin, decide, nothing_of, take_in
from benchmarks.figures import Figure, show
from benchmarks.frames import calls_of
from benchmarks.manifests import CARDS_PER_NODE, MODELS, QUEUES, PodShape
from benchmarks.scale import SCALES, Scale
from engine.engine import Engine
from events.messages import EvictRequest, WatchMessage
from projections.policy.policy import BUILT_IN

NODES: Final = 1_000
GANG_NODES: Final = 10
"""The cluster of the large gang is so many times larger."""
GANG_RECLAIMING: Final = 24
"""Pods of 8 cards of the gang that reclaims."""

GANGRECLAIM: Final = session.EVICTING.replace(b"preempt, reclaim", b"gangreclaim")


def _large_gang(nodes: int, *, of_cards: bool) -> Engine:
    engine, _ = begin(with_views=False, rules=BUILT_IN)
    scale = SCALES["full"]
    make: Callable[[Scale], tuple[list[WatchMessage], list[WatchMessage]]] = (
        large_gang_of_cards if of_cards else large_gang
    )
    groups, pods = make(
        structs.replace(scale, large_gang=min(scale.large_gang, nodes * GANG_NODES // 2))
    )
    messages = [
        *manifests.nodes(nodes * GANG_NODES),
        *nothing_of("PriorityClass", "Namespace"),
        *manifests.queues(nodes * GANG_NODES, share=1),
        *manifests.listed("PodGroup", groups),
        *manifests.listed("Pod", pods),
    ]
    for _ in take_in(engine, messages):
        pass
    return engine


def _gang_reclaiming(nodes: int) -> Engine:
    count = min(GANG_RECLAIMING, nodes // 4)
    pods = [
        manifests.pod(
            PodShape(
                name=f"owed-{index:04}",
                cards=CARDS_PER_NODE,
                models=MODELS[:1],
                cpu="32",
                memory="128Gi",
                queue=1,
                group="owed",
            )
        )
        for index in range(count)
    ]
    group = manifests.pod_group("owed", 1, count)
    return session.contended(nodes, pods, owned=1, groups=[group], rules=GANGRECLAIM)


def _pool(decider: str, nodes: int) -> Engine:
    loaded = pools.load(decider, nodes, 2 * nodes, pools.LEVELS)
    return loaded.engine


def _pool_one_comes(decider: str, nodes: int) -> Engine:
    engine = _pool(decider, nodes)
    decide(engine, 2 * SECOND)
    answered(engine)
    engine.observe([manifests.pod(pools.job_pod("late-001", 2, 1_000_001, 1))], 3 * SECOND)
    return engine


SEARCHES: Final[dict[str, Callable[[int], Engine]]] = {
    "gang": lambda nodes: _large_gang(nodes, of_cards=False),
    "gang-of-cards": lambda nodes: _large_gang(nodes, of_cards=True),
    "preempt": lambda nodes: session.contended(
        nodes, list(session.contenders(nodes // 10, priority=10)), owned=QUEUES
    ),
    "reclaim": lambda nodes: session.contended(
        nodes, list(session.contenders(nodes // 10, first=1)), owned=1
    ),
    "gangreclaim": _gang_reclaiming,
    "priority": lambda nodes: _pool("priority", nodes),
    "priority-one-comes": lambda nodes: _pool_one_comes("priority", nodes),
    "fair_share": lambda nodes: _pool("fair_share", nodes),
    "round_robin": lambda nodes: _pool("round_robin", nodes),
}


def counted(search: str, nodes: int) -> tuple[Engine, Counter[str]]:
    """Return an engine after the cycle of a search, and the calls of that cycle by function."""
    engine = SEARCHES[search](nodes)
    return engine, calls_of(lambda: decide(engine, 5 * SECOND))


def figures(nodes: int) -> Iterator[Figure]:
    """Yield the calls of each search."""
    for name in SEARCHES:
        engine, calls = counted(name, nodes)
        requests = list(engine.requests())
        evicted = sum(isinstance(one, EvictRequest) for one in requests)
        yield Figure(
            benchmark="searches",
            name=f"{name}: {len(requests) - evicted:,} bound, {evicted:,} evicted",
            value=calls.total(),
            unit="calls",
        )


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.searches", description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument(
        "--functions", choices=SEARCHES, help="print the functions that a search calls"
    )
    given = parser.parse_args()
    if given.functions:
        _, calls = counted(given.functions, given.nodes)
        for function, count in calls.most_common(100):
            print(f"{count:10,} {function}")
        return
    show(figures(given.nodes))


if __name__ == "__main__":
    main()
