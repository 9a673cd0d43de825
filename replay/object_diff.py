"""What differs between two forms of an object, field by field."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Final

import msgspec
from msgspec import Struct

from events.json_value import Json

FIELDS_MAX: Final = 200
"""Fields of one change that are listed."""

NAMED_BY: Final = ("name", "type", "key")
"""Fields that identify an entry of a list; the first one that all entries have counts."""

ABSENT: Final = "-"


class FieldDiff(Struct, frozen=True):
    """A field with another value. JSON, or `-` where the field is absent."""

    field: str
    before: str
    after: str


def object_diff(before: Json, after: Json) -> list[FieldDiff]:
    """Return the fields that differ, in the order of the fields; at most `FIELDS_MAX`."""
    found: list[FieldDiff] = []
    for one in _differing("", before, after):
        if len(found) == FIELDS_MAX:
            break
        found.append(one)
    return found


_NOTHING: Final = object()


def _differing(path: str, before: object, after: object) -> Iterator[FieldDiff]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({**before, **after}):
            inner = f"{path}.{key}" if path else key
            yield from _differing(inner, before.get(key, _NOTHING), after.get(key, _NOTHING))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _lists(path, before, after)
    elif before is _NOTHING or after is _NOTHING or before != after:
        yield FieldDiff(path, _text(before), _text(after))


def _lists(path: str, before: list[object], after: list[object]) -> Iterator[FieldDiff]:
    old, new = _named(before), _named(after)
    if old is not None and new is not None:
        for name in {**old, **new}:
            inner = f"{path}[{name}]"
            yield from _differing(inner, old.get(name, _NOTHING), new.get(name, _NOTHING))
        return
    for index, (one, other) in enumerate(zip_longest(before, after, fillvalue=_NOTHING)):
        yield from _differing(f"{path}[{index}]", one, other)


def _named(entries: list[object]) -> dict[str, object] | None:
    """Return the entries of a list by name; None if they have none, or two have the same."""
    for field in NAMED_BY:
        named: dict[str, object] = {
            str(one[field]): one for one in entries if isinstance(one, dict) and field in one
        }
        if entries and len(named) == len(entries):
            return named
    return None if entries else {}


def _text(value: object) -> str:
    if value is _NOTHING:
        return ABSENT
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
