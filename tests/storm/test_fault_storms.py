"""Storms of faults: no device twice, no gang left below its minimum, no healthy pod moved for nothing, no loop."""

import os
from collections import Counter
from typing import Final

import pytest

from tests.storm.fault_storm import Storm, Weathered, weather

SHORT: Final = (1, 2)
FIRST_SEED: Final = int(os.environ.get("MUSTER_FAULT_SEED", "1"))
"""Of the first run of the soak; each run prints its own."""
RUNS: Final = int(os.environ.get("MUSTER_FAULT_RUNS", "1000"))
HAPPENS: Final = ("pod", "job", "Restarted")


async def test_what_must_hold_in_every_storm_of_faults_holds() -> None:
    found = [await weather(Storm(nodes=36, hours=6, seed=seed, times=3000)) for seed in SHORT]
    assert not missing(found), found


@pytest.mark.soak
async def test_what_must_hold_in_every_storm_of_faults_holds_in_a_thousand(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found: list[Weathered] = []
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        found.append(await weather(Storm(nodes=300, hours=6, seed=seed)))
        with capsys.disabled():
            print(found[-1])  # noqa: T201 - the seed with which to go on
    assert not missing(found)


def missing(found: list[Weathered]) -> list[str]:
    """Return what did not happen in any of the storms."""
    restarts = sum((one.restarts for one in found), Counter[str]())
    return [one for one in HAPPENS if not restarts[one]]
