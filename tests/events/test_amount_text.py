"""Amounts as text."""

import pytest

from events.amount_text import amount_text


@pytest.mark.parametrize(
    ("milli", "text"),
    [
        (500, "500m"),
        (4_000, "4"),
        (999_999, "999999m"),
        (2_001_000, "2001"),
        (2_001_312, "~2001"),
        (44_212_524, "~44212"),
    ],
)
def test_cores_have_a_fraction_below_a_thousand(milli: int, text: str) -> None:
    assert amount_text("cpu", milli) == text
