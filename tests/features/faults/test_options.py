"""What a job wants done after a fault, by its labels and annotations."""

import pytest

from projections.fault_options import (
    FaultOptions,
    mode_problem,
    read_options,
    stated_options,
)
from projections.policy.action_arguments import RescheduleArguments

NONE = RescheduleArguments()
FORCE_PODS = RescheduleArguments(mode="force", moves_pods_only=True, retry_times=4)


def test_a_job_that_states_nothing_has_the_defaults_of_the_policy() -> None:
    assert read_options({}, NONE) == FaultOptions(mode="off")
    assert read_options({}, FORCE_PODS) == FaultOptions(
        mode="force", retry_times=4, moves_pods_only=True
    )


@pytest.mark.parametrize("mode", ["off", "grace", "force", "external-force", "external-grace"])
def test_a_mode_of_a_job_counts_before_that_of_the_policy(mode: str) -> None:
    found = read_options({"fault-scheduling": mode}, FORCE_PODS)
    assert found.mode == mode
    assert found.is_on == (mode != "off")
    assert found.is_external == mode.startswith("external")
    assert mode_problem((("fault-scheduling", mode),)) == ""


@pytest.mark.parametrize("mode", ["", "Force", "on", "x" * 5000])
def test_an_unknown_mode_turns_everything_off_and_is_named(mode: str) -> None:
    assert not read_options({"fault-scheduling": mode}, FORCE_PODS).is_on
    problem = mode_problem((("fault-scheduling", mode),))
    assert "to reschedule job" in problem
    assert len(problem) < 1000


@pytest.mark.parametrize(
    ("given", "retries"),
    [("3", 3), ("0", 0), ("-2", 0), ("", 0), ("three", 0), ("1.5", 0), ("9" * 5000, 2**31 - 1)],
)
def test_retries_that_are_no_number_are_none_and_large_ones_are_bounded(
    given: str, retries: int
) -> None:
    assert read_options({"fault-retry-times": given}, FORCE_PODS).retry_times == retries


@pytest.mark.parametrize(
    ("given", "is_pods_only"), [("on", True), ("off", False), ("", False), ("On", False)]
)
def test_pods_only_are_moved_where_the_label_says_on(given: str, is_pods_only: bool) -> None:
    assert read_options({"pod-rescheduling": given}, FORCE_PODS).moves_pods_only is is_pods_only


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        ("ignore", "ignore"),
        ("graceExit", "graceExit"),
        ("forceExit", "forceExit"),
        ("hotSwitch", "hotSwitch"),
        ("graceexit", "ignore"),
        ("", "ignore"),
    ],
)
def test_an_unknown_strategy_is_to_ignore(given: str, strategy: str) -> None:
    found = read_options({"subHealthyStrategy": given}, NONE)
    assert found.sub_healthy_strategy == strategy


@pytest.mark.parametrize(
    ("given", "is_never"),
    [
        ({"huawei.com/recover_policy_path": "pod"}, True),
        ({"huawei.com/recover_policy_path": "job"}, False),
        ({"ome.io/inferenceservice": ""}, True),
        ({"app": "mindie-ms-controller"}, True),
        ({"app": "mindie-ms-coordinator"}, True),
        ({"app": "mindie-ms-server"}, False),
    ],
)
def test_inference_and_recovery_by_pods_never_escalate(
    given: dict[str, str], is_never: bool
) -> None:
    assert read_options(given, NONE).never_escalates is is_never


@pytest.mark.parametrize("given", [{"ProcessRecoverStrategy": ""}, {"elastic-scheduling": "on"}])
def test_faults_are_left_to_another_controller(given: dict[str, str]) -> None:
    assert not read_options(given, FORCE_PODS).is_on
    assert read_options({"elastic-scheduling": "off"}, FORCE_PODS).is_on


def test_only_known_keys_are_kept_and_long_values_are_cut() -> None:
    found = stated_options(
        {"huawei.com/recover_policy_path": "pod", "fault-scheduling": "force", "other": "1"},
        {"fault-scheduling": "grace", "ProcessRecoverStrategy": "x", "app": "a" * 500},
    )
    assert found == (
        ("app", "a" * 128),
        ("fault-scheduling", "grace"),
        ("huawei.com/recover_policy_path", "pod"),
    )
    assert stated_options({}, {}) == ()
