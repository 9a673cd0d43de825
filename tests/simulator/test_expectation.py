"""What a scenario expects is compared part by part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.normalize import Json
from simulator.expectation import differences, matches

DECISIONS: Json = [
    {"kind": "bind", "pod": "a", "node": "n1"},
    {"kind": "refuse", "pod": "b", "node": None},
    {"kind": "bind", "pod": "c", "node": "n2"},
]


@pytest.mark.parametrize(
    ("expected", "found"),
    [
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": {"b": 1}}, {"a": {"b": 1.0, "c": 2}}),
        ({"a": None}, {}),
        ({"a": None}, {"a": ""}),
        ({"a": ""}, {"a": None}),
        ({"cpu": 0}, {}),
        ({"a": []}, {"a": []}),
        ([{"pod": "a"}, {"pod": "c"}], DECISIONS),
        ([1, 1], [1, 2, 1]),
        ({}, {"a": 1}),
    ],
)
def test_a_part_of_the_result_matches(expected: Json, found: Json) -> None:
    assert list(differences(expected, found)) == []


@pytest.mark.parametrize(
    ("expected", "found", "told"),
    [
        ({"a": 1}, {"a": 2}, ["a: expected 1, found 2"]),
        ({"a": 1}, {}, ["a: expected 1, found null"]),
        ({"a": {"b": True}}, {"a": {"b": 1}}, ["a.b: expected true, found 1"]),
        ({"a": None}, {"a": 0}, ["a: expected null, found 0"]),
        ({"a": 0}, {"a": ""}, ['a: expected 0, found ""']),
        ({"a": []}, {"a": [1]}, ["a: expected [], found [1]"]),
        ({"a": {}}, {"a": 1}, ["a: expected {}, found 1"]),
        ([1, 1], [1, 2], ["[1]: expected 1, found 2"]),
        ([2, 1], [1, 2], ["[1]: expected 1, found null"]),
        (1, 2, ["(all): expected 1, found 2"]),
        ({"a": 1, "b": 1}, {"a": 2, "b": 2}, ["a: expected 1, found 2", "b: expected 1, found 2"]),
    ],
)
def test_a_difference_shows_its_path_and_both_values(
    expected: Json, found: Json, told: list[str]
) -> None:
    assert [str(difference) for difference in differences(expected, found)] == told


def test_the_closest_element_is_shown_where_none_matches() -> None:
    (difference,) = differences(
        {"decisions": [{"kind": "bind", "pod": "c", "node": "n9"}]}, {"decisions": DECISIONS}
    )
    assert difference.path == "decisions[0]"
    assert difference.found == {"kind": "bind", "pod": "c", "node": "n2"}


def test_the_order_of_decisions_matters() -> None:
    assert not matches([{"pod": "c"}, {"pod": "a"}], DECISIONS)


def test_a_long_value_is_cut() -> None:
    (difference,) = differences("x" * 1000, "")
    assert len(str(difference)) < 300


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(documents)
def test_every_document_matches_itself(document: Json) -> None:
    assert matches(document, document)
