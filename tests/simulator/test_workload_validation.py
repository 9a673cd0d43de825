"""What cannot be in a workload is an error of the scenario, with its line."""

import pytest
from msgspec import structs

from events.errors import DocumentError
from simulator.cluster import SimulatedCluster
from simulator.manifest import AUTOSCALER
from simulator.manifest_fields import section
from simulator.scenario import Patch
from tests.simulator.builders import SECOND, scenario


@pytest.mark.parametrize(
    ("kind", "spec", "reason"),
    [
        ("Deployment", "strategy: {type: Replace}", "'Replace' is not known"),
        (
            "Deployment",
            "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0%}}",
            "cannot both be 0",
        ),
        ("Deployment", "strategy: {rollingUpdate: {maxSurge: some}}", "a share such as 25%"),
        ("Deployment", "strategy: {rollingUpdate: {maxUnavailable: -1}}", "a share such as 25%"),
        (
            "Deployment",
            "strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}",
            "does not go with type: Recreate",
        ),
        ("StatefulSet", "podManagementPolicy: Random", "'Random' is not known"),
        ("StatefulSet", "updateStrategy: {type: Now}", "'Now' is not known"),
        ("StatefulSet", "updateStrategy: {rollingUpdate: {partition: -1}}", "whole number"),
        ("Job", "completionMode: Indexed", "goes with completions"),
        ("Job", "podReplacementPolicy: Never", "'Never' is not known"),
        (
            "Job",
            "podReplacementPolicy: TerminatingOrFailed, podFailurePolicy: {rules: []}",
            "can only be Failed",
        ),
        ("Job", "podFailurePolicy: {rules: [{onPodConditions: []}]}", "must have an action"),
        ("Job", "podFailurePolicy: {rules: [{action: Ignore}]}", "either onExitCodes or"),
        (
            "Job",
            "podFailurePolicy: {rules: [{action: Ignore, onExitCodes: {operator: In}}]}",
            "an operator and values",
        ),
        ("HorizontalPodAutoscaler", "minReplicas: 1", "must have spec.maxReplicas"),
        ("HorizontalPodAutoscaler", "maxReplicas: 2, minReplicas: 3", "larger than maxReplicas"),
        ("HorizontalPodAutoscaler", "maxReplicas: 2", "must have spec.scaleTargetRef"),
        (
            "HorizontalPodAutoscaler",
            "maxReplicas: 2, scaleTargetRef: {kind: Deployment}",
            "scaleTargetRef.name is missing",
        ),
        (
            "HorizontalPodAutoscaler",
            "maxReplicas: 2, scaleTargetRef: {kind: Job, name: j}",
            "none of Deployment, ReplicaSet, StatefulSet",
        ),
    ],
)
def test_a_workload_that_a_server_refuses_is_an_error(kind: str, spec: str, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        scenario(f"cluster:\n  - {{kind: {kind}, metadata: {{name: w}}, spec: {{{spec}}}}}\n")
    assert str(caught.value).startswith("test.yaml:3: ")
    assert reason in str(caught.value)


AUTOSCALED = """\
cluster:
  - {kind: Deployment, metadata: {name: w}, spec: {replicas: 2}}
  - kind: HorizontalPodAutoscaler
    metadata: {name: w}
    spec: {minReplicas: 2, maxReplicas: 6, scaleTargetRef: {kind: Deployment, name: w}}
"""
NONSENSE = (
    ("patch", "{spec: {minReplicas: 7}}", "minReplicas is larger than maxReplicas"),
    ("patch", "{spec: {maxReplicas: 1}}", "minReplicas is larger than maxReplicas"),
    ("patch", "{spec: {maxReplicas: null}}", "must have spec.maxReplicas"),
    ("patch", "{spec: {minReplicas: 0}}", "minReplicas must be a whole number of at least 1"),
    ("patch", "{spec: {scaleTargetRef: {kind: Job}}}", "none of Deployment"),
    ("patch", "{spec: null}", "must have spec.maxReplicas"),
    (
        "apply",
        "{maxReplicas: 1, scaleTargetRef: {kind: Deployment, name: w}}",
        "minReplicas is larger than maxReplicas",
    ),
)


def _step(verb: str, change: str) -> str:
    if verb == "apply":
        change = f"metadata: {{name: w}}, spec: {change}"
    else:
        change = f"name: w, merge: {change}"
    return f"steps:\n  - at: 1s\n    {verb}:\n      - {{kind: {AUTOSCALER.kind}, {change}}}\n"


@pytest.mark.parametrize(("verb", "change", "reason"), NONSENSE)
@pytest.mark.parametrize("more", ["", "workload: {name: openb, scale: 0.01}\n"])
def test_an_autoscaler_is_not_changed_into_nonsense(
    verb: str, change: str, reason: str, more: str
) -> None:
    text = AUTOSCALED + _step(verb, change) + more
    with pytest.raises(DocumentError, match=rf"^test\.yaml:10: .*{reason}"):
        scenario(text)


def test_an_autoscaler_that_was_deleted_may_come_back_smaller() -> None:
    gone = _step("delete", "").replace(", merge: }", "}")
    back = _step("apply", NONSENSE[-1][1]).replace("steps:\n", "")
    assert len(scenario(AUTOSCALED + gone + back).steps) == 2


def test_a_patch_into_nonsense_that_was_not_read_is_refused() -> None:
    patch = Patch(SECOND, AUTOSCALER, "default", "w", {"spec": {"minReplicas": 7}})
    made = SimulatedCluster(structs.replace(scenario(AUTOSCALED), steps=(patch,)))
    made.advance(2 * SECOND)
    found = made.find("Deployment", "default", "w") or {}
    assert section(found, "spec").get("replicas") == 2


def test_a_wanted_number_of_replicas_must_be_one() -> None:
    with pytest.raises(DocumentError, match=r"test\.yaml:3: .*'many' is not a number of replicas"):
        scenario(
            "cluster:\n  - {kind: HorizontalPodAutoscaler, metadata: {name: w, "
            "annotations: {muster.sh/wanted-replicas: many}}, spec: {}}\n"
        )


def test_a_patch_means_the_text_of_a_number_in_an_annotation() -> None:
    read = scenario(
        "cluster:\n  - {kind: Deployment, metadata: {name: w}, spec: {}}\n"
        "steps:\n  - {at: 1s, patch: [{kind: Deployment, name: w, "
        "merge: {metadata: {annotations: {a: 1, b: null}}, spec: {replicas: 2}}}]}\n"
    )
    [step] = read.steps
    assert isinstance(step, Patch)
    metadata = {"annotations": {"a": "1", "b": None}}
    assert step.merge == {"metadata": metadata, "spec": {"replicas": 2}}
