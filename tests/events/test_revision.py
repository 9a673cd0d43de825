"""Comparing resource versions (K1.2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.revision import is_malformed, is_newer

REVISIONS = st.integers(1, 2**128)


@given(one=REVISIONS, other=REVISIONS)
def test_revisions_are_compared_by_length_then_by_text(one: int, other: int) -> None:
    """K1.2: positive decimal integers of up to 128 bits."""
    assert is_newer(str(one), str(other)) == (one > other)


@pytest.mark.parametrize("revision", ["", "0", "007", "-1", "1.5", "1e3", "abc", "١٢", "1 "])
def test_what_is_no_positive_decimal_is_reported(revision: str) -> None:
    """K1.2: one helper that reports malformed values."""
    assert is_malformed(revision)
    assert not is_newer(revision, revision)
    assert is_newer("5", revision)
    assert is_newer(revision, "5")
