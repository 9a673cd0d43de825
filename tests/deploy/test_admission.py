"""The admission policies as they are shipped: what each checks, which users the roles serve, and that Helm ships the same."""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from events.privileges import (
    BUDGET,
    CONTROLLER,
    DEVICE_PLUGIN,
    MUSTER,
    NAMESPACE,
    POD,
    POD_GROUP,
    QUEUE,
    ROWS,
    SET,
    USE,
    WORKLOAD,
    Privilege,
    fixed_keys,
)
from tests.checkout import ROOT
from tests.deploy.charting import CHART, helm, options, rendered
from tests.deploy.kustomizing import Manifest, composed

FOLDER: Final = ROOT / "deploy/kustomize/components/admission"
OF_KIND: Final = {
    POD: ("muster-pods",),
    POD_GROUP: ("muster-pod-groups",),
    QUEUE: ("muster-queues",),
    NAMESPACE: ("muster-namespaces",),
    BUDGET: ("muster-disruption-budgets",),
    WORKLOAD: (
        "muster-workloads",
        "muster-cron-jobs",
        "muster-volcano-jobs",
        "muster-volcano-cron-jobs",
        "muster-training-jobs",
        "muster-job-sets",
        "muster-leader-worker-sets",
    ),
}
POLICY: Final = "ValidatingAdmissionPolicy"
BINDING: Final = "ValidatingAdmissionPolicyBinding"
CHECKS_MAX: Final = 28
"""Questions to the authorizer within the cost of 10,000,000 that the API server allows a policy, at 350,000 each."""
BUNDLE_BYTES_MAX: Final = 200_000
"""Of all policies: an object may have 1 MB, and the annotation that `kubectl apply` writes 256 KB."""


@cache
def shipped(name: str) -> tuple[Manifest, ...]:
    """The objects of a file of the component."""
    return (*yaml.safe_load_all((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")),)


def policies() -> dict[str, dict[str, Any]]:
    """The policies by name."""
    return {
        one["metadata"]["name"]: one["spec"] for one in shipped("policies") if one["kind"] == POLICY
    }


def rules_of(role: str) -> list[dict[str, Any]]:
    """The rules of a role that is shipped."""
    (found,) = (
        one["rules"]
        for one in shipped("roles")
        if one["kind"] == "ClusterRole" and one["metadata"]["name"] == role
    )
    assert isinstance(found, list)
    return found


def test_each_kind_of_the_table_has_its_policies_and_each_policy_its_binding() -> None:
    names = [*policies()]
    assert sorted(names) == sorted(name for several in OF_KIND.values() for name in several)
    bound = [one["spec"]["policyName"] for one in shipped("policies") if one["kind"] == BINDING]
    assert bound == names


@pytest.mark.parametrize("row", [row for row in ROWS if row.verb], ids=lambda row: row.key)
def test_every_privileged_key_is_in_the_policies_of_its_kinds(row: Privilege) -> None:
    for kind in row.kinds:
        for name in OF_KIND[kind]:
            text = " ".join(one["expression"] for one in policies()[name]["variables"])
            text += " ".join(one["expression"] for one in policies()[name]["validations"])
            if row.verb == USE and "." in row.key and "/" not in row.key:
                field = row.key.removeprefix("spec.")
                if field in text or name in ("muster-job-sets", "muster-leader-worker-sets"):
                    continue
                # Workloads of Kubernetes have no queue; training jobs call the class otherwise.
                assert field == "queue" or "priorityClass" in text
                continue
            assert f"'{row.key}'" in text, name


def test_every_check_answers_forbidden_with_a_sentence_and_a_failure_refuses() -> None:
    for name, spec in policies().items():
        assert spec["failurePolicy"] == "Fail", name
        for check in spec["validations"]:
            assert check["reason"] == "Forbidden"
            if "pod templates" in check["message"]:
                continue
            assert "right" in check["message"]
            assert "right" in check["messageExpression"]
            # The API server drops a message with a line break, and one that asks the authorizer does not compile.
            assert "\n" not in check["message"] + check["messageExpression"]
            assert "writer" not in check["messageExpression"]


def test_every_variable_that_is_used_is_defined_before() -> None:
    for name, spec in policies().items():
        defined: set[str] = set()
        for variable in spec["variables"]:
            used = set(re.findall(r"variables\.(\w+)", variable["expression"]))
            assert used <= defined, (name, variable["name"], used - defined)
            defined.add(variable["name"])
        text = yaml.safe_dump(spec["validations"])
        assert set(re.findall(r"variables\.(\w+)", text)) <= defined, name


def test_no_condition_of_a_plain_pod_asks_the_authorizer() -> None:
    (condition,) = policies()["muster-pods"]["matchConditions"]
    assert "authorizer" not in condition["expression"]
    for key in fixed_keys():
        assert f"'{key}'" in condition["expression"]


def test_the_kinds_that_are_checked_are_matched_at_creation_and_at_each_update() -> None:
    resources = {
        f"{resource}.{rule['apiGroups'][0]}".rstrip(".")
        for spec in policies().values()
        for rule in spec["matchConstraints"]["resourceRules"]
        for resource in rule["resources"]
        if rule["operations"] == ["CREATE", "UPDATE"]
    }
    assert resources >= {
        *("pods", "pods/status", "podgroups.scheduling.volcano.sh"),
        *("podgroups/status.scheduling.volcano.sh", "deployments.apps", "statefulsets.apps"),
        *("replicasets.apps", "daemonsets.apps", "jobs.batch", "cronjobs.batch"),
        *(
            "replicationcontrollers",
            "jobs.batch.volcano.sh",
            "deployments/status.apps",
            "pytorchjobs.kubeflow.org",
        ),
        *("tfjobs.kubeflow.org", "mpijobs.kubeflow.org", "jobsets.jobset.x-k8s.io"),
        *("leaderworkersets.leaderworkerset.x-k8s.io", "namespaces", "poddisruptionbudgets.policy"),
        "queues.scheduling.volcano.sh",
    }


@pytest.mark.parametrize(
    ("role", "writer"),
    [
        ("muster-admission-scheduler", MUSTER),
        ("muster-admission-devices", DEVICE_PLUGIN),
        ("muster-admission-controllers", CONTROLLER),
    ],
)
def test_who_has_to_write_a_key_has_the_right_to(role: str, writer: str) -> None:
    named = {name for rule in rules_of(role) for name in rule.get("resourceNames", [])}
    assert named == {row.key for row in ROWS if row.verb == SET and writer in row.writers}
    assert len(named) <= CHECKS_MAX


def test_the_roles_for_people_hold_by_aggregation_what_their_parts_hold() -> None:
    roles = {
        one["metadata"]["name"]: one for one in shipped("roles") if one["kind"] == "ClusterRole"
    }
    for whole, parts in (
        ("muster-admission-operator", {"muster-keys"}),
        ("muster-queue-user", {"muster-queue-names"}),
    ):
        (selector,) = roles[whole]["aggregationRule"]["clusterRoleSelectors"]
        labels = selector["matchLabels"]
        assert {
            name
            for name, role in roles.items()
            if labels.items() <= role["metadata"].get("labels", {}).items()
        } == parts
        assert roles[whole]["rules"] == []
    verbs = {verb for rule in rules_of("muster-queue-names") for verb in rule["verbs"]}
    assert verbs == {USE}


def test_everyone_may_use_the_default_queue_and_no_other() -> None:
    (rule,) = rules_of("muster-admission-default-queue")
    assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (
        ["queues"],
        ["default"],
        [USE],
    )


def test_the_policies_are_small_enough_for_every_way_to_apply_them() -> None:
    assert len((FOLDER / "policies.yaml").read_bytes()) < BUNDLE_BYTES_MAX


def test_the_component_can_be_added_in_any_namespace(tmp_path: Path) -> None:
    manifests = composed(tmp_path, "base", "elsewhere", components=("admission",))
    kinds = [one["kind"] for one in manifests]
    assert kinds.count(POLICY) == kinds.count(BINDING) == len(policies())
    (scheduler,) = (
        one
        for one in manifests
        if one["kind"] == "ClusterRoleBinding"
        and one["metadata"]["name"] == "muster-admission-scheduler"
    )
    assert [one["namespace"] for one in scheduler["subjects"]] == ["elsewhere"]


def by_name(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Those of the objects that the component has, too."""
    ours = {
        (one["kind"], one["metadata"]["name"])
        for name in ("policies", "roles")
        for one in shipped(name)
    }
    return {
        (one["kind"], one["metadata"]["name"]): one
        for one in manifests
        if (one["kind"], one["metadata"]["name"]) in ours
    }


def test_the_chart_ships_the_component_and_only_where_it_is_wanted() -> None:
    assert by_name(rendered({})) == {}
    found = by_name(rendered({"admission.create": True}))
    assert found == by_name([*shipped("policies"), *shipped("roles")])


def test_values_name_actions_namespaces_and_accounts() -> None:
    team = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Group",
        "name": "system:serviceaccounts:x",
    }
    values = {
        "admission.create": True,
        "admission.validationActions": ["Warn", "Audit"],
        "admission.excludedNamespaces": ["build"],
        "admission.controllers": [team],
        "admission.devicePlugins": [team],
    }
    found = by_name(rendered(values, release="second", namespace="elsewhere"))
    bindings = [one["spec"] for (kind, _), one in found.items() if kind == BINDING]
    assert len(bindings) == len(policies())
    for spec in bindings:
        assert spec["validationActions"] == ["Warn", "Audit"]
        (expression,) = spec["matchResources"]["namespaceSelector"]["matchExpressions"]
        assert expression["values"] == ["kube-system", "build"]
    subjects = {
        name: one["subjects"] for (kind, name), one in found.items() if kind == "ClusterRoleBinding"
    }
    assert subjects["muster-admission-controllers"] == [team]
    assert subjects["muster-admission-devices"] == [team]
    (own,) = subjects["muster-admission-scheduler"]
    assert (own["name"], own["namespace"]) == ("second-muster", "elsewhere")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"admission.validationActions": []}, "validationActions"),
        ({"admission.validationActions": ["Refuse"]}, "validationActions"),
        ({"admission.controllers": []}, "controllers"),
        ({"admission.enabled": True}, "enabled"),
    ],
    ids=str,
)
def test_a_value_of_admission_that_means_nothing_is_an_error(
    values: dict[str, Any], named: str
) -> None:
    done = helm("template", "muster", CHART, "--kube-version", "1.34.0", *options(values))
    assert done.returncode != 0
    assert named in done.stderr
