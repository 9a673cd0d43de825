"""Arguments of `reschedule` in a policy: what is taken, and what is an error with its path."""

import msgspec
import pytest

from events.errors import PolicyError
from events.normalize import Json
from features.table import FEATURES
from projections.policy.action_arguments import RescheduleArguments
from projections.policy.policy import parse_policy
from scheduling.decide import DECIDER

SECOND = 1_000_000_000


def arguments(**given: Json) -> RescheduleArguments:
    """Return the arguments of a policy that states these."""
    assert DECIDER  # It registers the plugins.
    document = {
        "actions": "reschedule, allocate",
        "tiers": [],
        "configurations": [{"name": "reschedule", "arguments": given}],
    }
    policy, warnings = parse_policy(msgspec.json.encode(document), FEATURES.policy_table)
    assert not warnings
    return policy.action_arguments.rescheduling


def test_every_argument_is_read() -> None:
    found = arguments(
        mode="force",
        scope="pod",
        retryTimes="3",
        conditions=["KernelDeadlock"],
        taints="a.example/x, b.example/y",
        tolerance="30s",
        settle="2m",
        graceOverTime="1h",
        attemptInterval="2s",
        superPodAttempts=3,
        jobAttempts=5,
        reservation="0s",
        strandedTimeout="90s",
        restartsPerHour=7,
    )
    assert found == RescheduleArguments(
        mode="force",
        moves_pods_only=True,
        retry_times=3,
        conditions=("KernelDeadlock",),
        taints=("a.example/x", "b.example/y"),
        tolerance_ns=30 * SECOND,
        settle_ns=120 * SECOND,
        grace_ns=3600 * SECOND,
        attempt_ns=2 * SECOND,
        super_pod_attempts=3,
        job_attempts=5,
        reservation_ns=0,
        stranded_ns=90 * SECOND,
        limit=7,
    )


def test_the_defaults_are_those_of_the_manual() -> None:
    assert arguments() == RescheduleArguments(
        mode="off",
        moves_pods_only=False,
        retry_times=0,
        conditions=(),
        taints=(),
        tolerance_ns=0,
        settle_ns=0,
        grace_ns=None,
        attempt_ns=SECOND,
        super_pod_attempts=6,
        job_attempts=12,
        reservation_ns=300 * SECOND,
        stranded_ns=120 * SECOND,
        limit=20,
    )


def test_an_unquoted_off_of_yaml_is_the_mode_off() -> None:
    assert arguments(mode=False).mode == "off"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("mode", "hard", "'hard' is not one of off, grace, force"),
        ("mode", True, "mode"),
        ("scope", "node", "'node' is not one of job, pod"),
        ("retryTimes", "many", "retryTimes"),
        ("conditions", 5, "conditions"),
        ("conditions", [5], "conditions[0]"),
        ("taints", {"a": "b"}, "taints"),
        ("tolerance", "soon", "tolerance"),
        ("settle", "-1s", "settle"),
        ("settle", "25h", "expected a time from 0s to 24h"),
        ("graceOverTime", "x", "graceOverTime"),
        ("attemptInterval", "2x", "attemptInterval"),
        ("superPodAttempts", "six", "superPodAttempts"),
        ("jobAttempts", 1.5, "jobAttempts"),
        ("reservation", [], "reservation"),
        ("strandedTimeout", "day", "strandedTimeout"),
        ("restartsPerHour", None, "restartsPerHour"),
    ],
)
def test_a_value_that_cannot_be_read_is_an_error_with_its_path(
    key: str, value: Json, text: str
) -> None:
    with pytest.raises(PolicyError) as raised:
        arguments(**{key: value})
    message = str(raised.value)
    assert f"configurations[0].arguments.{key}" in message
    assert text in message
    assert "\n" not in message
