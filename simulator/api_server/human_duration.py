"""Durations as kubectl shows ages: `HumanDuration` of k8s.io/apimachinery/pkg/util/duration."""

from typing import Final

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
YEAR: Final = 365 * DAY


def human_duration(seconds: int) -> str:
    """Return a duration with two or three significant figures: `90s`, `5m30s`, `3h`, `2d4h`."""
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * MINUTE:
        return f"{max(0, seconds)}s"
    if seconds < 10 * MINUTE:
        return _two_units(seconds, (MINUTE, "m"), (1, "s"))
    if seconds < 3 * HOUR:
        return f"{seconds // MINUTE}m"
    if seconds < 8 * HOUR:
        return _two_units(seconds, (HOUR, "h"), (MINUTE, "m"))
    if seconds < 2 * DAY:
        return f"{seconds // HOUR}h"
    if seconds < 8 * DAY:
        return _two_units(seconds, (DAY, "d"), (HOUR, "h"))
    if seconds < 2 * YEAR:
        return f"{seconds // DAY}d"
    if seconds < 8 * YEAR:
        return _two_units(seconds, (YEAR, "y"), (DAY, "d"))
    return f"{seconds // YEAR}y"


def _two_units(seconds: int, large: tuple[int, str], small: tuple[int, str]) -> str:
    """The smaller unit is left out where it is zero."""
    rest = seconds % large[0] // small[0]
    whole = f"{seconds // large[0]}{large[1]}"
    return f"{whole}{rest}{small[1]}" if rest else whole
