"""JSONPath as far as the printer columns of CustomResourceDefinitions use it: one path, the first result."""

import re
from collections.abc import Iterator
from typing import Final

from events.normalize import Json

_STEP: Final = re.compile(
    r"""\.(?P<name>(?:\\.|[^.\[\]\\])+)"""
    r"""|\[(?P<index>-?\d+)\]"""
    r"""|\[(?P<each>\*)\]"""
    r"""|\[(?P<quote>['"])(?P<key>.*?)(?P=quote)\]"""
    r"""|\[\?\(@\.(?P<field>[\w.-]+)\s*==\s*(?P<mark>['"])(?P<value>.*?)(?P=mark)\)\]"""
)


def first_result(path: str, document: Json) -> Json:
    """Return the first value at a path such as `.status.conditions[?(@.type=="Ready")].status`, or None.

    A path that is not understood has no result, like a missing field.
    """
    steps, end = [], 0
    while end < len(path):
        step = _STEP.match(path, end)
        if step is None:
            return None
        steps.append(step)
        end = step.end()
    values: Iterator[Json] = iter([document])
    for step in steps:
        values = _after(step, values)
    return next(values, None)


def _after(step: "re.Match[str]", values: Iterator[Json]) -> Iterator[Json]:
    name = re.sub(r"\\(.)", r"\1", step["name"]) if step["name"] else step["key"]
    for value in values:
        if name:
            if isinstance(value, dict) and name in value:
                yield value[name]
        elif isinstance(value, list):
            yield from _elements(step, value)


def _elements(step: "re.Match[str]", items: list[Json]) -> Iterator[Json]:
    if step["each"]:
        yield from items
    elif step["field"]:
        for item in items:
            if first_result(f".{step['field']}", item) == step["value"]:
                yield item
    elif -len(items) <= int(step["index"]) < len(items):
        yield items[int(step["index"])]
