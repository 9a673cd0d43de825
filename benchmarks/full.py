"""A full cluster in which pods wait, and what it costs when one ends, one comes, or nothing happens."""

from collections.abc import Iterator
from time import perf_counter
from typing import Final

from msgspec import Struct

from benchmarks import manifests
from benchmarks.driving import SECOND, begin, bindings, decide, nothing_of, take_in
from benchmarks.manifests import CARDS_PER_NODE, MODELS, QUEUES, PodLife, PodShape
from engine.engine import Engine
from events.messages import WatchMessage
from projections.policy.policy import BUILT_IN

TURNS: Final = 1_000
CHANGES: Final = 20


class Filled(Struct, frozen=True, kw_only=True):
    """A cluster whose cards are all taken, and pods of one card that wait for one."""

    nodes: int
    waiting: int
    queues: int = QUEUES
    pods_a_node: int = 1
    """Among which its 8 cards are shared out."""
    rules: bytes = BUILT_IN


def filled(shape: Filled) -> Engine:
    """A step that has taken the cluster in and held no cycle yet."""
    engine, _ = begin(with_views=False, rules=shape.rules)
    for _ in take_in(engine, _messages(shape)):
        pass
    return engine


def _messages(shape: Filled) -> Iterator[WatchMessage]:
    yield from manifests.nodes(shape.nodes)
    yield from nothing_of("PriorityClass", "Namespace", "PodGroup")
    yield from manifests.queues(shape.nodes, share=1, count=shape.queues)
    yield from manifests.listed("Pod", _pods(shape))


def _pods(shape: Filled) -> Iterator[WatchMessage]:
    for index in range(shape.nodes):
        for turn in range(shape.pods_a_node):
            yield ran(index, turn, shape, "Running")
    for index in range(shape.waiting):
        yield waits(f"wait-{index:06}", index, shape.queues)


def waits(name: str, index: int, queues: int = QUEUES) -> WatchMessage:
    """A pod of one card, of which each queue and model has its own."""
    models = (MODELS[index // queues % len(MODELS)],)
    return manifests.pod(PodShape(name=name, queue=index % queues, models=models))


def ran(node: int, turn: int, shape: Filled, phase: str) -> WatchMessage:
    """One of the pods that fill a node."""
    pod = PodShape(
        name=f"run-{node:06}-{turn}",
        queue=node % shape.queues,
        cards=CARDS_PER_NODE // shape.pods_a_node,
        models=(MODELS[node % len(MODELS)],),
        cpu=str(32 // shape.pods_a_node),
        memory=f"{128 // shape.pods_a_node}Gi",
    )
    return manifests.pod(pod, PodLife(f"node-{node:05}", phase, 3))


def idle(engine: Engine) -> float:
    """Seconds of a cycle in which nothing could change."""
    position = engine.head.position
    assert engine.cycle(3 * SECOND) is None
    began = perf_counter()
    for _ in range(TURNS):
        engine.cycle(3 * SECOND)
    seconds = perf_counter() - began
    assert engine.head.position == position
    return seconds / TURNS


def one_arrives(engine: Engine) -> float:
    """One pod more that has to wait, and a cycle: median seconds."""
    spent: list[float] = []
    for turn in range(CHANGES):
        came = waits(f"late-{turn:06}", turn)
        began = perf_counter()
        engine.observe([came], 4 * SECOND)
        decide(engine, (4 + turn) * SECOND)
        spent.append(perf_counter() - began)
    return sorted(spent)[len(spent) // 2]


def one_ends(engine: Engine, size: int, shape: Filled | None = None) -> tuple[float, float, float]:
    """A pod ends, and a cycle: median seconds, nodes examined and pods bound a time."""
    shape = shape or Filled(nodes=size, waiting=0)
    spent: list[float] = []
    examined, before = engine.decider.examined, bindings(engine)
    for turn in range(min(CHANGES, size)):
        over = ran(turn, 0, shape, "Succeeded")
        began = perf_counter()
        engine.observe([over], 4 * SECOND)
        decide(engine, (40 + turn) * SECOND)
        spent.append(perf_counter() - began)
    turns = len(spent)
    bound = bindings(engine) - before
    return sorted(spent)[turns // 2], (engine.decider.examined - examined) / turns, bound / turns
