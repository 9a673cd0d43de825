"""Restarts after faults, where the policy moves pods after faults."""

from typing import Final

from features.faults.reschedule import RescheduleAction
from features.faults.standing import STANDING
from projections.feature import Feature
from projections.policy.policy import Policy
from projections.rescheduling import Reschedulings


def moves_pods(policy: Policy) -> bool:
    """Return whether a policy names the action `reschedule`, or a plugin that does so without it."""
    return policy.reschedules


FAULTS: Final = Feature(
    name="faults",
    is_named=moves_pods,
    hooks=(STANDING, RescheduleAction()),
    tables=(Reschedulings,),
)
