"""Tables for people: text stands to the left, numbers to the right."""

import pytest
from click import unstyle

from daemon.cli.output import table


def test_numbers_stand_to_the_right_with_their_units_and_where_there_is_none() -> None:
    rows = [
        ("a", 2494, "98.3 %", "4.5 min", "none", "500m", None),
        ("bcd", 7, "-", "1 s", "~12,000Gi", "32", "1.0"),
    ]
    shown = table(("of", "n", "share", "wait", "limit", "cpu", "mean"), rows)
    assert unstyle(shown).splitlines() == [
        "  of       n   share     wait      limit   cpu  mean",
        "  a    2,494  98.3 %  4.5 min       none  500m     -",
        "  bcd      7       -      1 s  ~12,000Gi    32   1.0",
    ]


@pytest.mark.parametrize("name", ["n1", "4x", "10.0.0.1", "1-2", "H200", "default/7"])
def test_a_column_with_a_name_in_it_is_text(name: str) -> None:
    header, *lines = unstyle(table(("the names", "b"), [("7", "x"), (name, "x")])).splitlines()
    assert header == "  the names  b"
    assert lines[0] == "  7          x"


def test_a_table_without_rows_is_its_headers() -> None:
    assert unstyle(table(("a", "b"), [])) == "  a  b"
