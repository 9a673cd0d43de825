"""Disruption budgets: how many of the pods that they cover may leave."""

import msgspec
import pytest

from projections.disruption_budgets import BudgetObject, Budgets, budget_facts
from projections.objects import PodObject
from projections.pod_class import PodClass
from projections.pods import ObservedPod, Pod, pod_facts, pod_of
from tests.scheduling.builders import ALL_FAMILIES


def pod(name: str, *, phase: str = "Running", app: str = "web", is_leaving: bool = False) -> Pod:
    """A pod of an application."""
    leaving = ', "deletionTimestamp": "2026-01-01T00:00:00Z"' if is_leaving else ""
    text = (
        f'{{"metadata": {{"name": "{name}", "uid": "{name}", "labels": {{"app": "{app}"}}{leaving}}}, '
        f'"spec": {{"nodeName": "n"}}, "status": {{"phase": "{phase}"}}}}'
    )
    facts = pod_facts(msgspec.json.decode(text, type=PodObject), ALL_FAMILIES)[0]
    return pod_of(ObservedPod(facts, PodClass(index=0, request=()), ""))


def budgets(spec: str, *pods: Pod) -> Budgets:
    """One budget over these pods."""
    text = f'{{"metadata": {{"name": "b"}}, "spec": {spec}}}'
    found = Budgets()
    found.put(budget_facts(msgspec.json.decode(text, type=BudgetObject)), pods)
    return found


def allowed(spec: str, *pods: Pod) -> int:
    """How many may leave."""
    return budgets(spec, *pods).all["default"]["b"].allowed


WEB = '"selector": {"matchLabels": {"app": "web"}}'


@pytest.mark.parametrize(
    ("rule", "count"),
    [
        ('"minAvailable": 2', 3),
        ('"minAvailable": "50%"', 2),
        ('"minAvailable": "41%"', 2),
        ('"minAvailable": 9', 0),
        ('"maxUnavailable": 1', 1),
        ('"maxUnavailable": "40%"', 2),
        ('"minAvailable": "many"', 0),
    ],
)
def test_a_rule_says_how_many_of_five_may_leave(rule: str, count: int) -> None:
    assert allowed(f"{{{WEB}, {rule}}}", *(pod(f"p{index}") for index in range(5))) == count


def test_without_a_rule_one_must_stay() -> None:
    assert allowed(f"{{{WEB}}}", pod("a"), pod("b")) == 1


def test_pods_that_do_not_run_count_as_disrupted() -> None:
    pods = (pod("a"), pod("b"), pod("c", phase="Pending"), pod("d", is_leaving=True))
    assert allowed(f'{{{WEB}, "maxUnavailable": 2}}', *pods) == 0
    assert allowed(f'{{{WEB}, "maxUnavailable": 3}}', *pods) == 1


def test_a_pdb_excludes_finished_pods_and_other_labels() -> None:
    found = budgets(
        f'{{{WEB}, "minAvailable": 1}}', pod("a"), pod("b", app="db"), pod("c", phase="Failed")
    )
    assert list(found.all["default"]["b"].pods) == ["a"]


def test_an_empty_pdb_selector_matches_all_pods_and_a_missing_one_none() -> None:
    assert allowed('{"selector": {}, "minAvailable": 0}', pod("a"), pod("b", app="db")) == 2
    assert allowed('{"minAvailable": 0}', pod("a")) == 0


def test_a_budget_follows_its_pods() -> None:
    found = budgets(f'{{{WEB}, "minAvailable": 1}}', pod("a"), pod("b"))
    budget = found.all["default"]["b"]
    leaving = pod("a", is_leaving=True)
    found.replace(pod("a"), leaving)
    assert budget.allowed == 0
    found.replace(leaving, None)
    assert list(budget.pods) == ["b"]
    found.drop("default", "b")
    assert found.all == {}
