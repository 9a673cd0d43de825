"""Python calls for a watch event of a pod, from `Engine.observe` to the batch with its view rows, and for a pod that a
cycle binds, from `Engine.cycle` to the batch with its decisions; under the built-in policy.

python -m benchmarks.frames [--batch N] [--functions EVENT]

A call is a `call` event of `sys.setprofile`: a Python frame; calls of C functions do not count. Counts, not times: they are the same on every
machine and at any load.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Final

from msgspec import structs

from benchmarks import cycle, manifests
from benchmarks.cycle import Case
from benchmarks.driving import SECOND, answered, begin, bindings, decide, nothing_of, take_in
from benchmarks.figures import Figure, show
from benchmarks.manifests import PodLife, PodShape
from benchmarks.scale import SCALES
from engine.engine import Engine
from events.messages import WatchMessage

NODES: Final = 500
EVENTS: Final = ("added", "bound", "running")
"""A pod comes, the binding of it is seen, it runs."""
AIMS: Final = {"added": 110.0, "bound": 80.0, "running": 50.0}
ALONE: Final = 1.5
"""An event in a batch of its own may take so many times the calls."""

DECIDED: Final[dict[str, tuple[Case, float]]] = {
    "single": (cycle.SINGLE, 300.0),
    "unlike": (cycle.DIFFERENT, 340.0),
    "gang": (cycle.LARGE[0], 105.0),
}
"""What waits for a cycle, and the calls that it may take for each pod: single pods, single pods of which no two are
alike, the pods of one gang."""
DECIDED_PODS: Final = 512


class Counted:
    """Counts the calls of functions."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """For `sys.setprofile`."""
        if event == "call":
            code = frame.f_code
            self.calls[f"{code.co_filename}:{code.co_firstlineno}:{code.co_name}"] += 1


def calls_of(action: Callable[[], object]) -> Counter[str]:
    """Return the calls that an action makes, by function."""
    counted = Counted()
    sys.setprofile(counted)
    try:
        action()
    finally:
        sys.setprofile(None)
    counted.calls.subtract(
        {one: 1 for one in counted.calls if "frames.py" in one and "lambda" in one}
    )
    return counted.calls


def filled() -> Engine:
    """Return an engine that has seen nodes and queues, and that has warmed its caches with pods of the same form."""
    engine, _ = begin(with_views=True)
    seen: list[WatchMessage] = [
        *manifests.nodes(NODES),
        *nothing_of("PriorityClass", "PodGroup", "Namespace"),
        *manifests.queues(NODES, share=1),
        *nothing_of("Pod"),
    ]
    for _ in take_in(engine, seen):
        pass
    for _ in _lived(engine, 0, 100):
        pass
    return engine


def per_event(batch: int) -> dict[str, tuple[float, Counter[str]]]:
    """Return the calls per event, and all calls by function, of each kind of event, at a size of batches."""
    engine = filled()
    return {name: (calls.total() / batch, calls) for name, calls in _lived(engine, 1_000, batch)}


def _lived(engine: Engine, first: int, count: int) -> Iterator[tuple[str, Counter[str]]]:
    """Let pods come, be bound and run; yield the calls of each step."""
    shapes = [
        PodShape(name=f"pod-{index:06}", queue=index % manifests.QUEUES)
        for index in range(first, first + count)
    ]
    yield "added", _observed(engine, shapes, {}, PodLife(version=1))
    engine.cycle(engine.state.now_ns + SECOND)
    answered(engine)
    nodes = {one.facts.name: one.node for one in engine.state.cluster.pods.values()}
    yield "bound", _observed(engine, shapes, nodes, PodLife(version=2))
    yield "running", _observed(engine, shapes, nodes, PodLife(phase="Running", version=3))


def _observed(
    engine: Engine, shapes: list[PodShape], nodes: dict[str, str], life: PodLife
) -> Counter[str]:
    messages = [
        manifests.pod(one, PodLife(nodes.get(one.name, ""), life.phase, life.version))
        for one in shapes
    ]
    return calls_of(lambda: engine.observe(messages, SECOND))


def per_pod(name: str) -> tuple[int, Counter[str]]:
    """Return how many pods a cycle binds of those that wait for it, and all its calls by function."""
    case, _ = DECIDED[name]
    scale = structs.replace(SCALES["small"], pods=DECIDED_PODS, large_gang=DECIDED_PODS)
    engine, _ = begin(with_views=True, rules=case.rules)
    for _ in take_in(engine, cycle.prepare(case, scale, 4 * NODES)):
        pass
    calls = calls_of(lambda: decide(engine, 2 * SECOND))
    return bindings(engine), calls


def figures() -> list[Figure]:
    """Return the calls per event in a batch of 500, and alone; and the calls per pod that a cycle binds."""
    found = []
    sizes = ("batch of 500", per_event(500), 1.0), ("alone", per_event(1), ALONE)
    for name in EVENTS:
        for size, counted, factor in sizes:
            figure = Figure(
                benchmark="frames",
                name=f"pod {name}, {size}",
                value=counted[name][0],
                unit="calls",
                bound="at most",
                target=AIMS[name] * factor,
            )
            found.append(figure)
    for name, (case, aim) in DECIDED.items():
        bound, calls = per_pod(name)
        found.append(
            Figure(
                benchmark="frames",
                name=f"pod decided: {case.name}",
                value=calls.total() / bound,
                unit="calls",
                bound="at most",
                target=aim,
                detail={"bound": bound},
            )
        )
    return found


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.frames", description=__doc__)
    parser.add_argument("--batch", type=int, help="events in a batch (default: 500, and 1)")
    parser.add_argument(
        "--functions",
        choices=(*EVENTS, *DECIDED),
        help="print the functions that an event, or deciding a pod, calls",
    )
    given = parser.parse_args()
    if given.functions:
        batch = given.batch or 500
        if given.functions in DECIDED:
            batch, calls = per_pod(given.functions)
        else:
            _, calls = per_event(batch)[given.functions]
        for function, count in calls.most_common():
            print(f"{count / batch:8.2f} {function}")
        return
    show(figures())


if __name__ == "__main__":
    main()
