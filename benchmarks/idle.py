"""Cycles in which nothing, or next to nothing, could change."""

from benchmarks.cycle import SINGLE, decided
from benchmarks.driving import SECOND, answered, decide, timed
from benchmarks.figures import Figure
from benchmarks.full import Filled, filled, idle, one_ends
from benchmarks.scale import Scale


async def measure(scale: Scale) -> list[Figure]:
    """A settled cluster; a full one with pods that wait; and one pod of it that ends."""
    size = scale.nodes[-1]
    settled, _ = decided(SINGLE, scale, size)
    answered(settled)
    full = filled(Filled(nodes=size, waiting=scale.waiting))
    seconds, batches = timed(lambda: decide(full, 2 * SECOND))
    refused = sum(one.kind.startswith("refusal") for batch in batches for one in batch.records)
    idle_full = idle(full)
    changes, examined, bound = one_ends(full, size)
    return [
        _milliseconds(f"nothing waits, {size:,} nodes", idle(settled), target=1),
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


def _milliseconds(name: str, seconds: float, target: float) -> Figure:
    return Figure(
        benchmark="idle",
        name=name,
        value=seconds * 1_000,
        unit="ms",
        bound="at most",
        target=target,
    )
