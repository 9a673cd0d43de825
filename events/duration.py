"""Parse and print durations: `90s`, `1.5h`, `1h30m`, `250ms`, or a plain number of seconds. Delays that double."""

import re
from fractions import Fraction
from typing import Final

from events.limits import TIME_CHARS_MAX, quoted

SECOND: Final = 1_000_000_000

DOUBLINGS_MAX: Final = 20
"""Doublings of a delay: more make no difference."""

LONGEST_NS: Final = 1000 * 365 * 86_400 * SECOND
"""A thousand years: longer durations are mistakes and do not fit the log's columns."""

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": SECOND,
    "m": 60 * SECOND,
    "h": 3600 * SECOND,
    "d": 86_400 * SECOND,
}
_PART: Final = re.compile(r"([0-9]++(?:\.[0-9]++)?)(ns|us|ms|s|m|h|d)")
_NUMBER: Final = re.compile(r"[0-9]++(?:\.[0-9]++)?")


def nanoseconds(text: str) -> int:
    """Return the duration in whole nanoseconds. Raise ValueError with a reason that names the text."""
    if len(text) > TIME_CHARS_MAX:
        raise ValueError(f"{quoted(text)} is longer than a time of {TIME_CHARS_MAX} characters")
    if text.startswith("-"):
        raise ValueError(f"{text!r} is a negative time")
    if _NUMBER.fullmatch(text):
        total = Fraction(text) * SECOND
    else:
        parts = list(_PART.finditer(text))
        if not parts or "".join(part.group() for part in parts) != text:
            raise ValueError(f"{text!r} is not a time such as 90s, 1.5h or 250ms")
        total = sum((Fraction(part[1]) * _UNITS[part[2]] for part in parts), Fraction())
    if total.denominator != 1:
        raise ValueError(f"{text!r} is finer than a nanosecond")
    if total > LONGEST_NS:
        raise ValueError(f"{text!r} is longer than a thousand years")
    return total.numerator


def doubled(first_ns: int, times: int, longest_ns: int) -> int:
    """Return the delay after so many failures in a row, in ns: the first delay, twice as long with each further failure, and the
    longest one at most."""
    return min(longest_ns, first_ns << min(times - 1, DOUBLINGS_MAX))


def format_duration(length_ns: int) -> str:
    """Print a duration: `350ms`, `12.5s`, `2h05m`."""
    if length_ns < SECOND:
        return f"{length_ns // 1_000_000}ms"
    seconds = length_ns // SECOND
    if seconds < 120:
        return f"{seconds}.{length_ns % SECOND // 100_000_000}s"
    minutes = seconds // 60
    return (
        f"{minutes}m{seconds % 60:02}s" if minutes < 120 else f"{minutes // 60}h{minutes % 60:02}m"
    )
