"""Selectors, affinity and tolerations, as Kubernetes has them."""

import pytest

from projections.objects import Taint
from projections.policy.requirement import Requirement
from projections.selector import NodeSelector, Term, Toleration, untolerated

LABELS = {"zone": "a", "speed": "10", "empty": ""}


@pytest.mark.parametrize(
    ("key", "operator", "values", "holds"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("none", "In", ("a",), False),
        ("zone", "NotIn", ("a",), False),
        ("zone", "NotIn", ("b",), True),
        ("none", "NotIn", ("a",), True),
        ("empty", "Exists", (), True),
        ("none", "Exists", (), False),
        ("empty", "DoesNotExist", (), False),
        ("none", "DoesNotExist", (), True),
        ("speed", "Gt", ("9",), True),
        ("speed", "Gt", ("10",), False),
        ("speed", "Lt", ("11",), True),
        ("zone", "Gt", ("1",), False),
        ("speed", "Gt", ("x",), False),
        ("speed", "Gt", ("1", "2"), False),
        ("none", "Lt", ("1",), False),
        ("zone", "Like", ("a",), False),
    ],
)
def test_an_expression_holds_or_not(
    key: str, operator: str, values: tuple[str, ...], *, holds: bool
) -> None:
    assert Requirement(key, operator, values).matches(LABELS.get(key)) is holds


def test_of_the_terms_one_suffices_and_an_empty_one_matches_nothing() -> None:
    yes = Term(labels=(Requirement("zone", "In", ("a",)),))
    no = Term(labels=(Requirement("zone", "In", ("b",)),))
    assert NodeSelector(terms=(no, yes)).matches("n1", LABELS)
    assert not NodeSelector(terms=(no, Term())).matches("n1", LABELS)
    assert not NodeSelector(terms=()).matches("n1", LABELS)
    assert not NodeSelector(pairs=(("zone", "b"),), terms=(yes,)).matches("n1", LABELS)


def test_a_field_is_the_name_of_the_node_and_no_other() -> None:
    named = Term(fields=(Requirement("metadata.name", "In", ("n1",)),))
    other = Term(fields=(Requirement("metadata.uid", "In", ("n1",)),))
    assert named.matches("n1", {})
    assert not named.matches("n2", {})
    assert not other.matches("n1", {})
    assert NodeSelector(terms=(named,)).keys is None
    assert NodeSelector(pairs=(("b", ""), ("a", ""))).keys == ("a", "b")


@pytest.mark.parametrize(
    ("toleration", "holds"),
    [
        (Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="k", value="w"), False),
        (Toleration(key="j", operator="Exists"), False),
        (Toleration(key="k", value="v", effect="NoExecute"), False),
        (Toleration(value="v"), False),
        (Toleration(key="k", operator="Like", value="v"), False),
    ],
)
def test_a_toleration_covers_a_taint_or_not(toleration: Toleration, *, holds: bool) -> None:
    taint = Taint(key="k", effect="NoSchedule", value="v")
    assert toleration.tolerates(taint) is holds
    assert untolerated((taint,), (toleration,), ("NoSchedule",)) == (0 if holds else 1)
    assert untolerated((taint,), (toleration,), ("NoExecute",)) == 0
