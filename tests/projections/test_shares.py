"""Shares: the part of the dominant resource, exactly."""

from fractions import Fraction

import pytest

from projections.shares import dominant, with_more

TOTAL = {"cpu": 10_000, "memory": 100, "pods": 10}


@pytest.mark.parametrize(
    ("held", "share"),
    [
        ({}, 0),
        ({"cpu": 0}, 0),
        ({"cpu": 1_000, "memory": 30}, Fraction(3, 10)),
        ({"cpu": 4_000, "memory": 30}, Fraction(2, 5)),
        ({"pods": 9, "cpu": 1}, Fraction(1, 10_000)),
        ({"example.com/card": 1}, 1),
        ({"cpu": 20_000}, 2),
    ],
)
def test_a_share_is_the_largest_part_held_of_any_resource(
    held: dict[str, int], share: Fraction
) -> None:
    assert dominant(held, TOTAL) == share


def test_a_share_can_be_asked_for_with_a_pod_more_or_less() -> None:
    held = {"cpu": 1_000}
    more = with_more(held, (("cpu", 1_000), ("memory", 50)))
    assert dominant(more, TOTAL) == Fraction(1, 2)
    assert with_more(more, (("memory", 50),), -1) == {"cpu": 2_000, "memory": 0}
    assert held == {"cpu": 1_000}
