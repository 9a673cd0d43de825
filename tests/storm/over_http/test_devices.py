"""Pods with devices in a storm: no chip, AI core or share of a GPU is given to two pods at any moment."""

import os
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from tests.storm.over_http.device_storm import CHIPS, CORES, MILLI, REAL, Outcome, run
from tests.storm.over_http.hurry import hurried

KINDS: Final = (CHIPS, CORES, MILLI, REAL)
FAULTS: Final = ("lose", "fail_after", "delay", "forbid", "twice")
BOUND_MIN: Final = 8
"""Pods with devices in a run, on average."""
SHORT_SEED: Final = 3
FIRST_SEED: Final = int(os.environ.get("MUSTER_DEVICE_SEED", "1"))
"""Of the first run of the soak; each run prints its own."""
SHORT_RUNS_MAX: Final = 4
"""Which requests get a fault depends on the order in which they arrive: one run may lack a kind of fault."""
RUNS: Final = int(os.environ.get("MUSTER_DEVICE_RUNS", "1000"))


def test_no_device_is_given_twice_whatever_is_lost_late_or_killed(tmp_path: Path) -> None:
    """Lost and late writes, late device plugins, kills between annotations and binding, two daemons at once."""
    outcomes: list[Outcome] = []
    for seed in range(SHORT_SEED, SHORT_SEED + SHORT_RUNS_MAX):
        outcomes.append(hurried(run(seed, tmp_path)))
        if not missing(outcomes):
            break
    assert not missing(outcomes), outcomes


@pytest.mark.soak
def test_no_device_is_given_twice_in_a_thousand_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes: list[Outcome] = []
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        outcomes.append(hurried(run(seed, tmp_path)))
        with capsys.disabled():
            print(outcomes[-1])  # noqa: T201 - the seed with which to go on
    assert not missing(outcomes)


def missing(outcomes: list[Outcome]) -> list[str]:
    """Return what did not happen: devices of each kind, and everything that could give one twice."""
    kinds = sum((Counter(one.kinds) for one in outcomes), Counter[str]())
    struck = sum((Counter(one.struck) for one in outcomes), Counter[str]())
    happened = kinds.keys() | struck.keys()
    lacking = [one for one in (*KINDS, *FAULTS) if one not in happened]
    if sum(one.bound for one in outcomes) < BOUND_MIN * len(outcomes):
        lacking.append("pods that are bound")
    if not any(one.killed_at_annotations for one in outcomes):
        lacking.append("a daemon killed between annotations and binding")
    if not any(one.two_at_once for one in outcomes):
        lacking.append("two daemons at once")
    return lacking
