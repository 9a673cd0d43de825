"""Parse Kubernetes quantities exactly (rule K16).

    quantity = [sign] digits [. digits] suffix
    suffix   = Ki Mi Gi Ti Pi Ei | n u m | k M G T P E | (e | E) [sign] digits | nothing

Floats are not used: a JSON number is read in its shortest decimal form. Fractions below 10^-9 are rounded up, and
values above 2^63-1 count as 2^63-1, as in the API server. The first DIGITS_MAX digits of a number are read, and the
number of further digits counts, so that a number of 5,000 digits is the maximum.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, wraps
from math import ceil
from typing import Final, TypeAlias, TypeVar

from events.errors import UsageError
from events.limits import DIGITS_MAX, quoted

Quantity: TypeAlias = str | int | float
T = TypeVar("T")

MAX: Final = 2**63 - 1
"""The largest magnitude of a quantity, in any unit."""

_NANO: Final = 10**9
_SUFFIXES: Final = {
    "": Fraction(1),
    **{
        name: Fraction(1024**power)
        for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
    },
    **{name: Fraction(1000**power) for power, name in enumerate("kMGTPE", 1)},
    **{name: Fraction(1, 1000**power) for power, name in enumerate("mun", 1)},
}
_FORM: Final = re.compile(
    r"([+-]?)(?:([0-9]++)(?:\.([0-9]*+))?|\.([0-9]++))(?:[eE]([+-]?[0-9]++)|([KMGTPE]i|[kMGTPEmun])?)"
)
_CACHED_CHARS_MAX: Final = 32
"""Longer texts are not cached: amounts of real clusters are shorter."""


class QuantityError(UsageError):
    """A quantity that cannot be read; the message contains the text."""


def _remembered(read: Callable[[str], T]) -> Callable[[Quantity], T]:
    """Return a reader of quantities that caches short texts."""
    cached = lru_cache(maxsize=65_536)(read)

    @wraps(read)
    def remembering(value: Quantity) -> T:
        text = _text(value)
        return cached(text) if len(text) <= _CACHED_CHARS_MAX else read(text)

    return remembering


def _text(value: Quantity) -> str:
    if isinstance(value, bool):
        return repr(value)
    if isinstance(value, int) and abs(value) > MAX:
        # Out of range; Python refuses to convert integers of thousands of digits to text.
        return str(MAX if value > 0 else -MAX)
    return repr(value) if isinstance(value, float) else str(value)


@_remembered
def parse(text: str) -> Fraction:
    """Return the exact value of a quantity, in its own unit."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise QuantityError(f"{quoted(text)} is not a quantity such as 2, 500m or 16Gi")
    sign, whole_part, fraction_part, bare_fraction, exponent, suffix = match.groups(default="")
    digits = fraction_part or bare_fraction
    whole_part = whole_part.lstrip("0")
    number = Fraction(int(whole_part[:DIGITS_MAX] or "0"))
    number *= 10 ** min(max(0, len(whole_part) - DIGITS_MAX), DIGITS_MAX)
    if digits:
        number += Fraction(int(digits[:DIGITS_MAX]), 10 ** len(digits[:DIGITS_MAX]))
        # Further digits are less than a billionth but not zero: rounded up below.
        number += Fraction(digits[DIGITS_MAX:].strip("0") != "", 10**DIGITS_MAX)
    number *= _power_of_ten(exponent) if exponent else _SUFFIXES[suffix]
    number = min(Fraction(ceil(number * _NANO), _NANO), Fraction(MAX))
    return -number if sign == "-" else number


@_remembered
def cpu_milli(text: str) -> int:
    """Return cpu in thousandths, rounded up."""
    return min(ceil(parse(text) * 1000), MAX)


@_remembered
def memory_bytes(text: str) -> int:
    """Return memory or storage in bytes, rounded up."""
    return ceil(parse(text))


@_remembered
def whole(text: str) -> int:
    """Return a count of indivisible resources, such as cards. Raise QuantityError for a fraction."""
    number = parse(text)
    if number.denominator != 1:
        raise QuantityError(f"{quoted(text)} is not a whole number")
    return number.numerator


def _power_of_ten(exponent: str) -> Fraction:
    """Return a power of ten; exponents out of range are reduced to one with the same result."""
    digits = exponent.lstrip("+-").lstrip("0")
    power = min(int(digits[:DIGITS_MAX] or "0"), DIGITS_MAX)
    return Fraction(10) ** (-power if exponent.startswith("-") else power)
