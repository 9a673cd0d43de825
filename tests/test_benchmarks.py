"""Each benchmark once, at a size that takes no time: they measure what they say, and do not rot."""

import json
from math import isfinite
from pathlib import Path
from typing import Final

import pytest

from benchmarks import append, figures, manifests
from benchmarks.__main__ import BENCHMARKS
from benchmarks.figures import Figure, exponent
from benchmarks.manifests import PodLife, PodShape
from benchmarks.scale import Scale
from events.messages import ObjectSeen

TINY: Final = Scale(
    nodes=(80, 160),
    pods=40,
    gangs=2,
    large_gang=16,
    watched_pods=20,
    waiting=40,
    waiting_beside=40,
    loop_seconds=0.1,
    running=80,
    started_nodes=40,
    started_pods=80,
    openb_percent=1,
    spot_percent=1,
    spot_days=1,
    sharing_percent=2,
    repeats=1,
)


NEED_TRACES = {"sharing": "openb", "spread": "lingjun-topo"}
"""Benchmark to the trace that it reads."""


@pytest.mark.parametrize("name", BENCHMARKS)
async def test_a_benchmark_measures_something(name: str) -> None:
    measured = await BENCHMARKS[name](TINY)
    if name in NEED_TRACES and not measured:
        pytest.skip(f"MUSTER_TRACES does not name a folder that holds {NEED_TRACES[name]}")
    assert measured
    assert {one.benchmark for one in measured} == {name}
    assert all(isfinite(one.value) for one in measured)


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_synthetic_pod_is_as_large_as_a_real_one(phase: str) -> None:
    seen = manifests.pod(PodShape(name="pod-000001"), PodLife("node-00001", phase))
    assert isinstance(seen, ObjectSeen)
    assert 1_500 <= len(seen.raw) <= 2_500


def test_watch_events_differ_except_for_the_touches_among_them() -> None:
    raw = [one.raw for one in append.lives(20, 80) if isinstance(one, ObjectSeen)]
    assert (len(raw), len(set(raw))) == (4 * 20 + 2 * 4, 4 * 20)


def test_a_figure_is_reached_on_the_right_side_of_its_target() -> None:
    def figure(value: float, bound: figures.Bound) -> Figure:
        return Figure(benchmark="b", name="n", value=value, unit="s", bound=bound, target=10)

    assert (figure(20, "at least").ratio, figure(20, "at least").is_reached) == (2, True)
    assert (figure(20, "at most").ratio, figure(20, "at most").is_reached) == (0.5, False)
    assert (figure(20, "none").ratio, figure(20, "none").is_reached) == (None, None)


def test_the_exponent_of_a_square_is_two() -> None:
    assert exponent([10, 100, 1_000], [1, 100, 10_000]) == pytest.approx(2)


def test_the_document_holds_machine_and_verdict(tmp_path: Path) -> None:
    one = Figure(benchmark="b", name="n", value=1, unit="s", bound="at most", target=2)
    figures.write(tmp_path / "bench.json", [one], "small")
    document = json.loads((tmp_path / "bench.json").read_bytes())
    assert document["machine"]["processors"] >= 1
    assert document["figures"][0]["reached"] is True
