"""Compare a result document with what a scenario expects of it, part by part.

mapping   every expected key must match; other keys may stand beside it
list      each expected element must match some later element, in order; an empty list means empty
null      null, or missing
anything else must be equal; 1 and 1.0 are, true and 1 are not
"""

from collections.abc import Iterator

import msgspec
from msgspec import Struct

from events.normalize import Json

SHOWN_MAX = 200
"""Longer values are cut in a message."""


class Difference(Struct, frozen=True):
    """A place in the document where the result is not as expected."""

    path: str
    expected: Json
    found: Json

    def __str__(self) -> str:
        return (
            f"{self.path or '(all)'}: expected {_shown(self.expected)}, found {_shown(self.found)}"
        )


def differences(expected: Json, found: Json, path: str = "") -> Iterator[Difference]:
    """Yield every place where `found` is not as expected, in the order of `expected`."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key, value in expected.items():
            yield from differences(value, found.get(key), f"{path}.{key}" if path else key)
    elif isinstance(expected, list) and isinstance(found, list):
        yield from _list_differences(expected, found, path)
    elif not _equal(expected, found):
        yield Difference(path, expected, found)


def matches(expected: Json, found: Json) -> bool:
    """Return True if there is no difference."""
    return next(differences(expected, found), None) is None


def _list_differences(expected: list[Json], found: list[Json], path: str) -> Iterator[Difference]:
    """Report only the first element without a match: what follows it says little."""
    if not expected and found:
        yield Difference(path, expected, found)
    start = 0
    for index, element in enumerate(expected):
        later = range(start, len(found))
        at = next((place for place in later if matches(element, found[place])), None)
        if at is None:
            yield Difference(f"{path}[{index}]", element, _closest(element, found[start:]))
            return
        start = at + 1


def _closest(element: Json, candidates: list[Json]) -> Json:
    """The candidate with the fewest differences, the earliest of several; null if there is none."""
    return min(
        candidates,
        key=lambda candidate: sum(1 for _ in differences(element, candidate)),
        default=None,
    )


def _equal(expected: Json, found: Json) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if found is None:
        return expected in (None, "", 0)
    if expected is None:
        return found == ""
    return expected == found


def _shown(value: Json) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."
