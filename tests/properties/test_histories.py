"""Random histories: sums add up, gangs are whole, quotas hold, the log folds and replays to the same."""

import os
import secrets

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.machine import History

_LENIENT = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


def test_any_history_obeys_the_rules() -> None:
    profile = settings(
        max_examples=200,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=_LENIENT,
    )
    run_state_machine_as_test(History, settings=profile)


@pytest.mark.soak
def test_any_long_history_obeys_the_rules() -> None:
    """MUSTER_SEED plays the same histories again; the seed is printed where one fails."""
    number = int(os.environ.get("MUSTER_SEED") or secrets.randbits(32))
    print(f"MUSTER_SEED={number}")  # noqa: T201  # pytest shows it with a failure
    profile = settings(
        max_examples=5000,
        stateful_step_count=80,
        deadline=None,
        print_blob=True,
        suppress_health_check=_LENIENT,
    )
    run_state_machine_as_test(seed(number)(History), settings=profile)
