"""Under each load that one tenant can make, pods of others are decided on at once: in cycles, not in seconds."""

from typing import Final

import pytest
from msgspec import structs

from benchmarks.hostile import LOADS, Load, run

PART: Final = 20
"""Loads are one in so many of their size."""

BUDGET: Final = 10
"""Thousands of units that a cycle may take."""

BUDGET_OF_QUEUES: Final = 40
"""The same, where the load is of many queues: each of them has a share as large as that of the canary's queue."""

CANARIES: Final = 4


@pytest.mark.parametrize("load", LOADS, ids=[one.name for one in LOADS])
def test_a_pod_of_another_queue_is_decided_on_within_two_cycles(load: Load) -> None:
    budget = BUDGET_OF_QUEUES if "queues" in load.name else BUDGET
    narrow = [{"name": "cycle", "arguments": {"workBudget": budget}}]
    policy = {**load.policy, "configurations": narrow}
    course = run(structs.replace(load, policy=policy), PART, CANARIES)
    assert len(course.waited) == CANARIES
    assert not course.is_canary_left
    assert max(one.cycles for one in course.waited) <= 2
