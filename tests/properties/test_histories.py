"""Random histories: sums add up, gangs are whole, quotas hold, the log folds and replays to the same."""

import os
import secrets
from collections import Counter
from typing import ClassVar, Final

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.machine import History

REACHED_MIN: Final = 2
"""In so many histories at least each of these must happen, or nothing is known of it."""
REACHED: Final = (
    "pods are bound",
    "pods are bound: a gang",
    "room is promised",
    "a promise is withdrawn",
    "a pod is evicted: reclaim",
    "a whole card is charged",
    "a slice is charged",
    "a share is charged",
    "one of several cards is charged",
    "a quota of cards is used up",
    "a quota is lowered below use",
    "a bind fails",
    "a node is lost under its pods",
)

_LENIENT = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)


class Counted(History):
    """Counts in how many histories something of note happened."""

    seen: ClassVar[Counter[str]] = Counter()

    def teardown(self) -> None:
        super().teardown()
        self.seen.update(self.witness.reached.keys())


def test_any_history_obeys_the_rules() -> None:
    profile = settings(
        max_examples=300,
        stateful_step_count=40,
        deadline=None,
        derandomize=True,
        suppress_health_check=_LENIENT,
    )
    run_state_machine_as_test(Counted, settings=profile)
    rare = {one: Counted.seen[one] for one in REACHED if Counted.seen[one] < REACHED_MIN}
    assert not rare, f"hardly ever happens: {rare} of {Counted.seen}"


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
