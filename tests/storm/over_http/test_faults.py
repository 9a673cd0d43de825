"""A storm of faults over HTTP: what muster knows at the end is what there is, and nothing was done twice."""

import os
from pathlib import Path

import pytest

from tests.storm.over_http.hurry import hurried
from tests.storm.over_http.tempest import Outcome, run

SHORT_STEPS = 1_200
STEPS = 10_000
"""Of one run."""
FIRST_SEED = int(os.environ.get("MUSTER_STORM_SEED", "1001"))
"""Of the first run; a soak that was ended early goes on from the seed after the last that it printed."""
RUNS = int(os.environ.get("MUSTER_STORM_RUNS", "100"))

SHORT_RUNS = 1


def test_a_daemon_that_weathered_a_storm_knows_what_there_is(tmp_path: Path) -> None:
    """Rules K3, K4, K8 under all faults; K3.11 for every watch."""
    for seed in range(1, SHORT_RUNS + 1):
        outcome = hurried(run(seed, SHORT_STEPS, tmp_path))
        assert outcome.steps >= SHORT_STEPS
        assert_was_a_storm(outcome)


@pytest.mark.soak
def test_a_million_steps_of_storms_leave_nothing_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A hundred runs of ten thousand steps, each with its own seed."""
    outcomes: list[Outcome] = []
    for seed in range(FIRST_SEED, FIRST_SEED + RUNS):
        outcomes.append(hurried(run(seed, STEPS, tmp_path)))
        assert_was_a_storm(outcomes[-1])
        assert outcomes[-1].set_back, outcomes[-1]
        with capsys.disabled():
            print(outcomes[-1])  # noqa: T201 - so that a soak can be gone on with
    with capsys.disabled():
        steps, bound = (sum(one.steps for one in outcomes), sum(one.bound for one in outcomes))
        busiest = max(one.busiest for one in outcomes)
        print(f"{steps} steps, {bound} pods bound, at most {busiest} requests a minute of a watch")  # noqa: T201


def assert_was_a_storm(outcome: Outcome) -> None:
    """It struck, and something was done nevertheless."""
    assert len(outcome.struck) >= 8, outcome
    assert outcome.bound >= outcome.changes // 40, outcome
