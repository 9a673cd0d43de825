"""How the cost of a change grows: with nodes, queues, waiting pods and running pods, one at a time.

A full cluster under the whole session, in which one pod ends, or one more comes to wait. The exponent is the
slope of the logarithm of the cost: 0 where the cost does not grow, 1 where it grows with the size.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from benchmarks.driving import SECOND, WHOLE, decide
from benchmarks.figures import Figure, exponent
from benchmarks.full import Filled, filled, idle, one_arrives, one_ends
from benchmarks.scale import Scale

STEPS: Final = {"queues": (1, 10, 100), "pods_a_node": (1, 2, 8)}


async def measure(scale: Scale) -> list[Figure]:
    """For each thing that may grow, what a change costs at three sizes of it."""
    plain = Filled(nodes=scale.nodes[0], waiting=scale.waiting // 4, rules=WHOLE)
    grown: dict[str, list[Filled]] = {
        "nodes": [structs.replace(plain, nodes=size) for size in scale.nodes],
        "queues": [structs.replace(plain, queues=10 * size) for size in STEPS["queues"]],
        "waiting pods": [
            structs.replace(plain, waiting=scale.waiting * size // 4) for size in (1, 4, 8)
        ],
        "running pods": [structs.replace(plain, pods_a_node=size) for size in STEPS["pods_a_node"]],
    }
    figures: list[Figure] = []
    for what, shapes in grown.items():
        figures += _grown(what, shapes)
    return figures


def _grown(what: str, shapes: list[Filled]) -> Iterator[Figure]:
    sizes = [_size(what, shape) for shape in shapes]
    ends: list[float] = []
    comes: list[float] = []
    rests: list[float] = []
    for shape in shapes:
        engine = filled(shape)
        decide(engine, 2 * SECOND)
        rests.append(idle(engine))
        comes.append(one_arrives(engine))
        ends.append(one_ends(engine, shape.nodes, shape)[0])
    for name, costs in (("one ends", ends), ("one more comes", comes), ("nothing happens", rests)):
        for size, cost in zip(sizes, costs, strict=True):
            yield Figure(
                benchmark="growth",
                name=f"{size:,} {what}: {name}",
                value=cost * 1_000,
                unit="ms",
            )
        yield Figure(
            benchmark="growth",
            name=f"{what}, {name}: exponent",
            value=exponent(sizes, costs),
            unit="",
        )


def _size(what: str, shape: Filled) -> int:
    match what:
        case "nodes":
            return shape.nodes
        case "queues":
            return shape.queues
        case "waiting pods":
            return shape.waiting
        case _:
            return shape.nodes * shape.pods_a_node
