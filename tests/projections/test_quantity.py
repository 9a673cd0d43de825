"""Quantities are read exactly, or refused by name (rule K16)."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.quantity import MAX, QuantityError, cpu_milli, memory_bytes, parse, whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", Fraction(1)),
        ("1.5", Fraction(3, 2)),
        (".5", Fraction(1, 2)),
        ("5.", Fraction(5)),
        ("+2", Fraction(2)),
        ("-2", Fraction(-2)),
        ("500m", Fraction(1, 2)),
        ("3u", Fraction(3, 10**6)),
        ("7n", Fraction(7, 10**9)),
        ("1k", Fraction(1000)),
        ("1.5Ki", Fraction(1536)),
        ("1Ei", Fraction(2**60)),
        ("1E", Fraction(10**18)),
        ("1E3", Fraction(1000)),
        ("1e-3", Fraction(1, 1000)),
        ("1e+3", Fraction(1000)),
        ("007", Fraction(7)),
    ],
)
def test_every_form_of_the_grammar_is_read_exactly(text: str, value: Fraction) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1.5x",
        "1 ",
        " 1",
        "1 Gi",
        "1K",
        "1ki",
        "1e3k",
        "Gi",
        ".",
        "--1",
        "1..5",
        "0x10",
        "1_000",
        "\u0661",
    ],
)
def test_what_is_not_a_quantity_is_named(text: str) -> None:
    with pytest.raises(QuantityError, match="is not a quantity") as caught:
        parse(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("value", [True, False, float("nan"), float("inf")])
def test_truth_and_infinity_are_not_quantities(value: float) -> None:
    with pytest.raises(QuantityError):
        parse(value)


def test_a_remembered_number_does_not_make_truth_a_quantity() -> None:
    assert cpu_milli(1) == 1000
    with pytest.raises(QuantityError):
        cpu_milli(True)


def test_plain_json_numbers_are_accepted() -> None:
    assert parse(3) == 3
    assert parse(0.1) == Fraction(1, 10)
    assert parse(1e22) == MAX


def test_finer_than_a_billionth_is_rounded_up() -> None:
    assert parse("0.1n") == Fraction(1, 10**9)
    assert parse("1e-999999999999") == Fraction(1, 10**9)


def test_what_is_too_large_counts_as_the_largest() -> None:
    assert parse("100E") == MAX
    assert parse("-100E") == -MAX
    assert parse("1e999999999999") == MAX
    assert cpu_milli("9E") == MAX


def test_cpu_is_in_thousandths_rounded_up() -> None:
    assert [cpu_milli(text) for text in ("2", "250m", "0.0001", "1.0015")] == [2000, 250, 1, 1002]


def test_memory_is_in_bytes_rounded_up() -> None:
    assert [memory_bytes(text) for text in ("1Gi", "100m", "1.5", "1M")] == [2**30, 1, 2, 10**6]


def test_cards_are_whole() -> None:
    assert [whole(text) for text in ("8", "2.0", "1k", "3000m", 4)] == [8, 2, 1000, 3, 4]
    with pytest.raises(QuantityError, match="'1500m' is not a whole number"):
        whole("1500m")


@given(st.integers(-MAX, MAX))
def test_whole_numbers_round_trip(number: int) -> None:
    assert whole(str(number)) == whole(number) == memory_bytes(f"{number}") == number


@given(st.integers(0, 2**40), st.sampled_from(["", "m", "k", "M", "Ki", "Mi", "Gi"]))
def test_rounding_up_adds_less_than_a_unit(number: int, suffix: str) -> None:
    text = f"{number}{suffix}"
    assert 0 <= memory_bytes(text) - parse(text) < 1
    assert 0 <= cpu_milli(text) - parse(text) * 1000 < 1 or cpu_milli(text) == MAX


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e18, max_value=1e18))
def test_a_number_equals_its_text(number: float) -> None:
    assert parse(number) == parse(repr(number))
