"""Pods with devices in a storm: no chip, AI core or share of a GPU is given to two pods at any moment."""

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.storm.over_http.device_storm import CHIPS, CORES, MILLI, REAL, Outcome, run
from tests.storm.over_http.hurry import hurried

SHORT_SEED: Final = 3
FIRST_SEED: Final = int(os.environ.get("MUSTER_DEVICE_SEED", "1"))
"""Of the first run of the soak; each run prints its own."""
RUNS: Final = int(os.environ.get("MUSTER_DEVICE_RUNS", "1000"))


def test_no_device_is_given_twice_whatever_is_lost_late_or_killed(tmp_path: Path) -> None:
    """Lost and late writes, late device plugins, kills between annotations and binding, two daemons at once."""
    check_was_a_storm([hurried(run(SHORT_SEED, tmp_path))])


@pytest.mark.soak
def test_no_device_is_given_twice_in_a_thousand_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes: list[Outcome] = []
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        outcomes.append(hurried(run(seed, tmp_path)))
        with capsys.disabled():
            print(outcomes[-1])  # noqa: T201 - the seed with which to go on
    check_was_a_storm(outcomes)


def check_was_a_storm(outcomes: list[Outcome]) -> None:
    """Pods got devices of each kind, and everything that could give one twice happened."""
    kinds = sum((Counter(one.kinds) for one in outcomes), Counter[str]())
    struck = sum((Counter(one.struck) for one in outcomes), Counter[str]())
    assert {CHIPS, CORES, MILLI, REAL} <= kinds.keys()
    assert {"lose", "fail_after", "delay", "forbid", "twice"} <= struck.keys()
    assert sum(one.bound for one in outcomes) >= 8 * len(outcomes)
    assert sum(one.killed_at_annotations for one in outcomes) >= 1
    assert sum(one.two_at_once for one in outcomes) >= 1
