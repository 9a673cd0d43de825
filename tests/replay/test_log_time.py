"""Moments and amounts, as people write and read them."""

import pytest

from events.amount_text import amount_text, amounts_text
from events.duration import format_duration
from events.errors import UsageError
from replay.log_time import LogTime, format_time, parse_log_time

START = 1_767_225_600_000_000_000


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("812", LogTime(position=812)),
        ("12.5s", LogTime(since_start_ns=12_500_000_000)),
        ("1h30m", LogTime(since_start_ns=5_400_000_000_000)),
        ("2026-01-01T00:00:00Z", LogTime(at_ns=START)),
        ("2026-01-01 01:00:00+01:00", LogTime(at_ns=START)),
        ("2026-01-01T00:00:00.250Z", LogTime(at_ns=START + 250_000_000)),
        ("10:05", LogTime(clock_ns=36_300_000_000_000)),
        ("9:05:30", LogTime(clock_ns=32_730_000_000_000)),
        ("-5m", LogTime(before_end_ns=300_000_000_000)),
    ],
)
def test_a_moment_is_a_position_or_a_time(text: str, moment: LogTime) -> None:
    assert parse_log_time(text) == moment


@pytest.mark.parametrize(
    "text", ["", "yesterday", "-3", "12 apples", "3s2", "-", "--5m", "1:2", "٣"]
)
def test_what_is_no_moment_is_refused_with_examples(text: str) -> None:
    with pytest.raises(UsageError, match=r"812.*2026.*10:05.*-5m.*12\.5s"):
        parse_log_time(text)


@pytest.mark.parametrize("text", ["2026-01-01", "2026-01-01T00:00:00", "20260101T000000"])
def test_a_time_needs_its_zone(text: str) -> None:
    with pytest.raises(UsageError, match=r"has no time zone.*2026-01-31T09:30:00Z"):
        parse_log_time(text)


@pytest.mark.parametrize("text", ["24:00", "10:60", "10:05:60"])
def test_a_time_of_day_is_one(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time of day"):
        parse_log_time(text)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("00:00:09", "2026-01-01T00:00:09.000Z"),
        ("00:00:10", "2026-01-01T00:00:10.000Z"),
        ("00:00:11", "2025-12-31T00:00:11.000Z"),
        ("-10s", "2026-01-01T00:00:00.000Z"),
        ("4s", "2026-01-01T00:00:04.000Z"),
        ("2025-12-31T23:00:00-01:00", "2026-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_is_counted_from_the_start_or_the_end(text: str, time: str) -> None:
    at_ns = parse_log_time(text).time_ns(START, START + 10_000_000_000)
    assert at_ns is not None
    assert format_time(at_ns, START) == time


@pytest.mark.parametrize(
    "text", ["812", "12.500s", "-5.000s", "10:05:00", "2026-01-01T00:00:00.250Z"]
)
def test_a_moment_is_printed_as_it_is_given(text: str) -> None:
    assert parse_log_time(text).text == text


def test_a_moment_includes_the_records_up_to_it() -> None:
    assert parse_log_time("7").includes(7, 0, 0)
    assert not parse_log_time("7").includes(8, 0, 0)
    assert parse_log_time("2s").includes(8, START + 2_000_000_000, START)
    assert not parse_log_time("2s").includes(8, START + 2_000_000_001, START)
    assert not parse_log_time("2026-01-01T00:00:00Z").includes(8, START + 1, START)
    assert LogTime().includes(8, START, START)


def test_a_time_that_is_shown_can_be_given_back() -> None:
    assert format_time(12_345_678_901, 0) == "12.345s"
    assert format_time(START + 1_500_000_000, START) == "2026-01-01T00:00:01.500Z"
    assert parse_log_time(format_time(START, START)) == LogTime(at_ns=START)


@pytest.mark.parametrize(
    ("length_ns", "text"),
    [
        (350_000_000, "350ms"),
        (12_500_000_000, "12.5s"),
        (125_000_000_000, "2m05s"),
        (7_500_000_000_000, "2h05m"),
    ],
)
def test_a_duration_is_formatted_in_a_fitting_unit(length_ns: int, text: str) -> None:
    assert format_duration(length_ns) == text


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("cpu", 4000, "4"),
        ("cpu", 1500, "1500m"),
        ("memory", 16 << 30, "16Gi"),
        ("memory", 0, "0"),
        ("memory", 1000, "1000"),
        ("memory", 12_345_678, "~11Mi"),
        ("H200", 8, "8"),
    ],
)
def test_a_quantity_is_formatted_in_its_unit(name: str, amount: int, text: str) -> None:
    assert amount_text(name, amount) == text


def test_quantities_are_listed_cards_first_and_without_pods() -> None:
    amounts = {"cpu": 4000, "memory": 1 << 34, "pods": 1, "H200": 8}
    assert amounts_text(amounts) == "8 H200, 4 cpu, 16Gi memory"


def test_seconds_of_a_simulation_count_from_its_beginning_also_where_that_is_archived() -> None:
    moment = parse_log_time("950s")
    assert moment.time_ns(900_000_000_000, 3_000_000_000_000) == 950_000_000_000
    assert moment.time_ns(START, START + 10**13) == START + 950_000_000_000
