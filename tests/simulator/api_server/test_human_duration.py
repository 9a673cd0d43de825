"""Ages are shown as kubectl shows them."""

import pytest

from simulator.api_server.human_duration import DAY, HOUR, MINUTE, YEAR, human_duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (2 * MINUTE, "2m"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE + 59, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR + 59 * MINUTE, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (7 * DAY + 23 * HOUR, "7d23h"),
        (8 * DAY + 23 * HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (7 * YEAR + 3 * DAY, "7y3d"),
        (8 * YEAR + 3 * DAY, "8y"),
    ],
)
def test_a_duration_has_two_or_three_significant_figures(seconds: int, shown: str) -> None:
    assert human_duration(seconds) == shown
