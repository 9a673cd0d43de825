"""Random histories: sums add up, gangs are whole, quotas hold, the log folds and replays to the same."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.machine import History

_LENIENT = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


def test_any_history_obeys_the_rules() -> None:
    profile = settings(
        max_examples=60,
        stateful_step_count=30,
        deadline=None,
        derandomize=True,
        suppress_health_check=_LENIENT,
    )
    run_state_machine_as_test(History, settings=profile)


@pytest.mark.soak
def test_any_long_history_obeys_the_rules() -> None:
    profile = settings(
        max_examples=2000,
        stateful_step_count=80,
        deadline=timedelta(seconds=60),
        print_blob=True,
        suppress_health_check=_LENIENT,
    )
    run_state_machine_as_test(History, settings=profile)
