"""What cannot be in a Volcano Job is an error of the scenario, with its line."""

import pytest

from events.errors import DocumentError
from tests.simulator.builders import scenario

JOB = """\
cluster:
  - apiVersion: batch.volcano.sh/v1alpha1
    kind: Job
    metadata: {name: j}
    spec:
"""
COMMAND = "steps:\n  - at: 1s\n    apply:\n      - {kind: Command, metadata: {name: c}, "


@pytest.mark.parametrize(
    ("spec", "line", "reason"),
    [
        ("tasks: [{name: a}, {name: a}]", 7, "two tasks are called a"),
        ("tasks: [{name: a, dependsOn: {name: [b]}}]", 7, "task a depends on b, which is none"),
        (
            "tasks: [{name: a, dependsOn: {name: [b]}}, {name: b, dependsOn: {name: [a]}}]",
            7,
            "task a depends on itself",
        ),
        ("tasks: [{name: a, dependsOn: {iteration: most}}]", 7, "neither any nor all"),
        ("policies: [{event: PodFailed}]", 7, "a policy must have an action"),
        ("policies: [{event: PodFailed, action: Panic}]", 7, "'Panic' is not known"),
        ("policies: [{event: PodLost, action: RestartJob}]", 7, "'PodLost' is not known"),
        ("policies: [{event: OutOfSync, action: RestartJob}]", 7, "keeps OutOfSync to itself"),
        ("policies: [{action: RestartJob}]", 7, "an event, events or an exitCode"),
        ("policies: [{exitCode: 0, action: RestartJob}]", 7, "0 is no failure"),
        (
            "policies: [{events: [PodFailed], exitCode: 3, action: AbortJob}]",
            7,
            "either events or an exitCode",
        ),
        ("policies: [{event: PodPending, action: AbortJob}]", 7, "PodPending goes with a timeout"),
        (
            "policies: [{event: PodFailed, action: AbortJob, timeout: soon}]",
            7,
            "timeout: 'soon'",
        ),
        (
            "tasks:\n      - name: a\n        policies:\n          - {event: '*', action: Sync}",
            10,
            "'Sync' is not known",
        ),
        (
            "tasks: [{name: a, replicas: 5, partitionPolicy: {totalPartitions: 2, partitionSize: 2}}]",
            7,
            "2 partitions of 2 are not 5 replicas",
        ),
        ("tasks: [{name: a, partitionPolicy: {}}]", 7, "totalPartitions is missing"),
    ],
)
def test_a_job_that_volcano_refuses_is_an_error(spec: str, line: int, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        scenario(JOB + "      " + spec + "\n")
    assert str(caught.value).startswith(f"test.yaml:{line}: ")
    assert reason in str(caught.value)


def test_a_patch_is_judged_like_the_whole() -> None:
    text = (
        JOB
        + "      tasks: [{name: a}]\n"
        + (
            "steps:\n  - at: 1s\n    patch:\n"
            "      - {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: j, "
            "merge: {spec: {policies: [{exitCode: 0, action: RestartJob}]}}}\n"
        )
    )
    with pytest.raises(DocumentError, match=r"test\.yaml:11: exitCode: 0 is no failure"):
        scenario(text)


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("action: AbortJob}", "a Command must have target"),
        ("target: {kind: Job, name: j}}", "a Command must have action"),
        ("action: Sleep, target: {kind: Job, name: j}}", "'Sleep' is not known"),
        ("action: AbortJob, target: {kind: Queue, name: q}}", "'AbortJob' is not known"),
        ("action: AbortJob, target: {kind: Pod, name: p}}", "go to a Job or a Queue"),
        ("action: AbortJob, target: {kind: Job}}", "target.name is missing"),
    ],
)
def test_a_command_that_means_nothing_is_an_error(rest: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        scenario(COMMAND + rest + "\n")


def test_a_command_to_a_missing_job_is_an_error() -> None:
    with pytest.raises(DocumentError, match=r"test\.yaml:5: there is no Job default/j by then"):
        scenario(COMMAND + "action: AbortJob, target: {kind: Job, name: j}}\n")
    scenario(
        JOB + "      tasks: []\n" + COMMAND + "action: AbortJob, target: {kind: Job, name: j}}\n"
    )
