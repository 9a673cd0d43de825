"""Which namespaces a rule permits, as the policy and annotations of a Queue state it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.errors import PolicyError
from projections.policy.namespace_rule import (
    ALL_NAMESPACES,
    NAMES,
    NO_NAMESPACE,
    SELECTOR,
    read_namespace_rule,
    selector_requirements,
    stated_rule,
)

LABELS = {"team": "ml", "tier": "gold"}


@pytest.mark.parametrize(
    ("text", "is_permitted"),
    [
        ("", True),
        ("team", True),
        ("!team", False),
        ("!frozen", True),
        ("team=ml,tier==gold", True),
        ("team!=ml", False),
        ("team in (web, ml)", True),
        ("team notin (web),tier in (gold)", True),
        ("team in (web),tier=gold", False),
        ("other=", False),
    ],
)
def test_an_annotation_takes_the_selectors_of_kubectl(text: str, is_permitted: bool) -> None:
    rule, problem = stated_rule({SELECTOR: text})
    assert not problem
    assert rule.permits("a", LABELS) is is_permitted
    assert not rule.permits("a", None), "a namespace that was not observed is not selected"


@pytest.mark.parametrize(
    "annotations",
    [
        {NAMES: ""},
        {NAMES: " , "},
        {NAMES: "ml,../x"},
        {NAMES: "a b"},
        {SELECTOR: "team in (a"},
        {SELECTOR: "a=b=c"},
        {SELECTOR: ",,"},
        {SELECTOR: "a,"},
        {SELECTOR: ",".join(f"k{number}" for number in range(101))},
        {NAMES: "ml", SELECTOR: "=x"},
    ],
)
def test_an_annotation_that_cannot_be_read_permits_no_namespace(
    annotations: dict[str, str],
) -> None:
    rule, problem = stated_rule(annotations)
    assert problem.endswith("no namespace may use the queue")
    assert rule == NO_NAMESPACE
    assert not rule.permits("ml", LABELS)


def test_names_and_a_selector_must_both_hold() -> None:
    rule, _ = stated_rule({NAMES: "ml, web", SELECTOR: "team=ml"})
    assert rule.permits("ml", LABELS)
    assert not rule.permits("other", LABELS)
    assert not rule.permits("web", {"team": "web"})
    assert stated_rule({}) == (ALL_NAMESPACES, "")


@pytest.mark.parametrize(
    ("given_rule", "path"),
    [
        ({"namespaces": []}, "q.namespaces"),
        ({"namespaces": "ml"}, "q.namespaces"),
        ({"namespaces": [1]}, "q.namespaces[0]"),
        ({"namespaces": ["a/b"]}, "q.namespaces"),
        ({"namespaceSelector": {"labels": {}}}, "q.namespaceSelector.labels"),
        ({"namespaceSelector": {"matchLabels": {"a": 1}}}, "q.namespaceSelector.matchLabels.a"),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}},
            "q.namespaceSelector.matchExpressions[0].operator",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "q.namespaceSelector.matchExpressions[0].values",
        ),
        (
            {
                "namespaceSelector": {
                    "matchExpressions": [{"key": "a", "operator": "In", "vals": []}]
                }
            },
            "q.namespaceSelector.matchExpressions[0].vals",
        ),
    ],
)
def test_a_rule_of_the_policy_that_is_wrong_in_part_is_an_error(
    given_rule: dict[str, object], path: str
) -> None:
    with pytest.raises(PolicyError) as found:
        read_namespace_rule(given_rule, "q")
    assert str(found.value).startswith(f"{path}:")


def test_a_selector_of_the_policy_is_that_of_kubernetes() -> None:
    selector = {
        "matchLabels": {"team": "ml"},
        "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["bronze"]},
            {"key": "frozen", "operator": "DoesNotExist"},
        ],
    }
    rule = read_namespace_rule({"namespaceSelector": selector}, "q")
    assert rule.permits("any", LABELS)
    assert not rule.permits("any", {**LABELS, "frozen": ""})
    assert rule.text == "with labels 'team in (ml),tier notin (bronze),!frozen'"


@given(st.text(max_size=60))
def test_no_text_of_a_selector_raises(text: str) -> None:
    found = selector_requirements(text)
    assert isinstance(found, str | tuple)
    rule, _ = stated_rule({NAMES: text, SELECTOR: text})
    assert msgspec.json.decode(msgspec.json.encode(rule), type=type(rule)) == rule
