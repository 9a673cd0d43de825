"""The figures beside kube-scheduler once, at a size that takes no time: they do not rot."""

from math import isfinite

from benchmarks.end_to_end.__main__ import measure


async def test_three_are_measured_and_two_ratios_are_made_of_them() -> None:
    figures = await measure(nodes=10, pods=40)
    assert [one.name.partition(",")[0] for one in figures] == [
        "muster",
        "kube-scheduler",
        "bare client",
        "muster to kube-scheduler",
        "muster to bare client",
    ]
    assert all(isfinite(one.value) and one.value > 0 for one in figures)
    assert [one.target for one in figures[3:]] == [2.5, 0.65]
