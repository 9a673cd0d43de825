"""Read values of a policy file; a malformed value is a PolicyError that names its path."""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeAlias

import msgspec

from events.duration import nanoseconds
from events.errors import PolicyError

JsonObject: TypeAlias = dict[str, object]

Warn: TypeAlias = Callable[[str, str], None]
"""Called with a path in the policy and what is skipped there."""

_NUMBER: Final = re.compile(r"[-+]?([0-9]{1,50}\.?|[0-9]{0,50}\.[0-9]{1,50})([eE][-+]?[0-9]{1,3})?")


def object_at(value: object, path: str) -> JsonObject:
    """Return an object."""
    if not isinstance(value, dict):
        raise PolicyError(f"{path}: expected an object, got {_shown(value)}")
    return value


def items_at(value: object, path: str) -> list[object]:
    """Return a list; an empty one if it is missing."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise PolicyError(f"{path}: expected a list, got {_shown(value)}")
    return value


def typed(value: object, like: object, path: str) -> object:
    """Return a value of the type of `like`; numbers and booleans may also be text, as in Volcano."""
    if isinstance(like, bool):
        return truth_at(value, path)
    if isinstance(like, int):
        return whole_at(value, path)
    if isinstance(like, Fraction):
        return fraction_at(value, path)
    if isinstance(like, float):
        number = _number(value, path)
        if number <= 0:
            raise PolicyError(f"{path}: expected a number above 0, got {_shown(value)}")
        return float(number)
    return text_at(value, path)


def text_at(value: object, path: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise PolicyError(f"{path}: expected text, got {_shown(value)}")
    return value


def truth_at(value: object, path: str) -> bool:
    """Return a truth value."""
    if value in (True, "true", "True"):
        return True
    if value in (False, "false", "False"):
        return False
    raise PolicyError(f"{path}: expected true or false, got {_shown(value)}")


def whole_at(value: object, path: str) -> int:
    """Return a non-negative whole number."""
    number = _number(value, path)
    if number.denominator != 1 or number < 0:
        raise PolicyError(f"{path}: expected a whole number of at least 0, got {_shown(value)}")
    return int(number)


def fraction_at(value: object, path: str) -> Fraction:
    """Return a non-negative number, exactly as written."""
    number = _number(value, path)
    if number < 0:
        raise PolicyError(f"{path}: expected a number of at least 0, got {_shown(value)}")
    return number


def span_at(value: object, path: str) -> int:
    """Return a duration such as `1h2m` in nanoseconds."""
    try:
        return nanoseconds(text_at(value, path))
    except ValueError as error:
        raise PolicyError(f"{path}: {error}") from error


def resource_weights(
    given: JsonObject, prefix: str, path: str
) -> tuple[tuple[tuple[str, int], ...], list[str]]:
    """Return name and weight of the resources, and the arguments that are not about weights."""
    listed = f"{prefix}resources"
    known = ["cpu", "memory"]
    extra = text_at(given.get(listed, ""), f"{path}.{listed}")
    known += [name.strip() for name in extra.split(",") if name.strip()]
    keys = {f"{prefix}{name}": name for name in known[:2]}
    keys.update({f"{listed}.{name}": name for name in known[2:]})
    weights = dict.fromkeys(known, 1)
    rest: list[str] = []
    for key, value in given.items():
        if key in keys:
            weights[keys[key]] = whole_at(value, f"{path}.{key}")
        elif key != listed:
            rest.append(key)
    return tuple(weights.items()), rest


def _number(value: object, path: str) -> Fraction:
    number: Fraction | None = None
    is_number = isinstance(value, (int, float, str)) and not isinstance(value, bool)
    if is_number and _NUMBER.fullmatch(str(value)):
        number = Fraction(str(value))
    if number is None or abs(number) > 1_000_000:
        raise PolicyError(f"{path}: expected a number, at most 1000000, got {_shown(value)}")
    return number


def _shown(value: object) -> str:
    return msgspec.json.encode(value).decode()[:80]
