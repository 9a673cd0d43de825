"""Kubernetes quantities, exactly (rule K16): text or a plain JSON number to a fraction or an integer.

    quantity = [sign] digits [. digits] suffix
    suffix   = Ki Mi Gi Ti Pi Ei | n u m | k M G T P E | (e | E) [sign] digits | nothing

Never a float on the way: a JSON number is read by its shortest decimal form. What is finer than a
billionth is rounded up, and what is larger than 2^63-1 counts as that, as the API server has it.
"""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Final, TypeAlias

from events.errors import UsageError

Quantity: TypeAlias = str | int | float

MAX: Final = 2**63 - 1
"""The largest magnitude a quantity may have, in whatever unit it is asked for."""

_NANO: Final = 10**9
_FARTHEST_EXPONENT: Final = 64
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
    r"([+-]?)(?:([0-9]+)\.?([0-9]*)|\.([0-9]+))(?:[eE]([+-]?[0-9]+)|([KMGTPE]i|[kMGTPEmun])?)"
)


class QuantityError(UsageError):
    """A quantity cannot be read: it names the text."""


@lru_cache(maxsize=65_536, typed=True)
def parse(value: Quantity) -> Fraction:
    """The exact value of a quantity, in its own unit."""
    text = repr(value) if isinstance(value, float) else str(value)
    match = None if isinstance(value, bool) else _FORM.fullmatch(text)
    if match is None:
        raise QuantityError(f"{text!r} is not a quantity such as 2, 500m or 16Gi")
    sign, whole_part, fraction_part, bare_fraction, exponent, suffix = match.groups(default="")
    digits = fraction_part or bare_fraction
    number = Fraction(int(whole_part + digits or "0"), 10 ** len(digits))
    number *= _power_of_ten(exponent) if exponent else _SUFFIXES[suffix]
    number = min(Fraction(ceil(number * _NANO), _NANO), Fraction(MAX))
    return -number if sign == "-" else number


@lru_cache(maxsize=65_536, typed=True)
def cpu_milli(value: Quantity) -> int:
    """Processors in thousandths, rounded up."""
    return min(ceil(parse(value) * 1000), MAX)


@lru_cache(maxsize=65_536, typed=True)
def memory_bytes(value: Quantity) -> int:
    """Memory or storage in bytes, rounded up: `100m` of a byte is one."""
    return ceil(parse(value))


@lru_cache(maxsize=65_536, typed=True)
def whole(value: Quantity) -> int:
    """A count of things that cannot be divided, such as cards; a fraction of one is an error."""
    number = parse(value)
    if number.denominator != 1:
        raise QuantityError(f"{str(value)!r} is not a whole number")
    return number.numerator


def _power_of_ten(exponent: str) -> Fraction:
    """A power far out of range is cut short: it is rounded to the same end, and costs nothing."""
    power = max(-_FARTHEST_EXPONENT, min(int(exponent[:8]), _FARTHEST_EXPONENT))
    return Fraction(10) ** power
