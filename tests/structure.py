"""Everything that a State holds, attribute by attribute, with the order of every dict and list, as text."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

import msgspec
import numpy as np

from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.snapshot import take
from projections.state import State

NOT_COMPARED: Final = {
    (
        "Cluster",
        "plugins",
    ): "a plugin holds its arguments only; the policy, which names them, is compared",
    ("Cluster", "features"): "likewise",
    ("Cluster", "device_families"): "made of the features, and never changed",
    ("PodClasses", "families"): "likewise",
    (
        "Cluster",
        "charges",
    ): "a cache that questions fill; each entry follows from the class and the known cards",
    (
        "NodeTable",
        "changed_slots",
    ): "a journal for readers with caches: a trial makes them read its nodes again",
    ("NodeTable", "updated_slots"): "likewise",
    ("ClaimUsers", "version"): "likewise",
    (
        "PodGroupIndex",
        "shared",
    ): "which groups a fork has, too: each is the same on both sides until one changes it",
}
"""Class and attribute to why it may differ."""


ADDRESS: Final = " at 0x"
"""In the representation of an object that does not show what it holds."""


def is_frozen(value: object) -> bool:
    """Whether a value is a Struct of which no field can be set."""
    return isinstance(value, msgspec.Struct) and value.__struct_config__.frozen


def attributes_of(value: object) -> Iterator[tuple[str, object]]:
    """Yield the attributes of an object: slots, fields of a Struct, or its dict."""
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
    elif hasattr(value, "__dict__"):
        names = tuple(vars(value))
    else:
        names = tuple(name for one in type(value).__mro__ for name in getattr(one, "__slots__", ()))
    for name in names:
        if (type(value).__name__, name) not in NOT_COMPARED:
            yield name, getattr(value, name)


def lines_of(value: object, path: str = "", seen: dict[int, str] | None = None) -> Iterator[str]:
    """Yield a line for each value that an object holds, with the path that leads there."""
    seen = {} if seen is None else seen
    if value is None or isinstance(value, str | bytes | int | float | Fraction):
        yield f"{path} = {value!r}"
    elif is_frozen(value) and ADDRESS not in (text := repr(value)):
        yield f"{path} = {text}"
    elif isinstance(value, dict):
        yield f"{path} has keys {list(map(str, value))}"
        for key, one in value.items():
            if one is not None:
                yield from lines_of(one, f"{path}[{key!s}]", seen)
    elif isinstance(value, list | tuple):
        yield f"{path} has length {len(value)}"
        for index, one in enumerate(value):
            yield from lines_of(one, f"{path}[{index}]", seen)
    elif isinstance(value, set | frozenset):
        yield f"{path} = {sorted(map(str, value))}"
    elif isinstance(value, np.ndarray):
        yield f"{path} = {value.dtype} {value.tolist()}"
    elif id(value) in seen:
        yield f"{path} is {seen[id(value)]}"
    elif callable(value) or type(value) is object:
        yield f"{path} is of type {type(value).__name__}"
    else:
        if not is_frozen(value):
            seen[id(value)] = path
        yield f"{path} is of type {type(value).__name__}"
        for name, one in attributes_of(value):
            yield from lines_of(one, f"{path}.{name}", seen)


def structure_of(state: State) -> list[str]:
    """Return all lines of a State, and the bytes of its snapshot."""
    return [*lines_of(state, "state"), f"snapshot = {take(state)!r}"]


def check_same(before: list[str], after: list[str], what: str) -> None:
    """Raise AssertionError with the first differences."""
    if before == after:
        return
    left, right = dict.fromkeys(before), dict.fromkeys(after)
    gone = [one for one in before if one not in right][:5]
    come = [one for one in after if one not in left][:5]
    raise AssertionError(f"{what} changed State: {gone} became {come}")


def changeable(
    value: object, path: str = "", seen: set[int] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield identity and path of each object that a value holds and that may be changed in place.

    Pods are never changed, and pod groups only after they are copied: what they hold is left out.
    """
    seen = set() if seen is None else seen
    if (
        is_frozen(value)
        or value is None
        or isinstance(value, str | bytes | int | float | Fraction | Pod | PodGroup)
    ):
        return
    if type(value) is object or (not isinstance(value, tuple) and id(value) in seen):
        return
    if not isinstance(value, tuple):
        seen.add(id(value))
        yield id(value), path
    if isinstance(value, dict):
        for key, one in value.items():
            yield from changeable(one, f"{path}[{key!s}]", seen)
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            yield from changeable(one, f"{path}[{index}]", seen)
    elif not isinstance(value, np.ndarray):
        for name, one in attributes_of(value):
            yield from changeable(one, f"{path}.{name}", seen)


def check_apart(left: State, right: State) -> None:
    """Raise AssertionError if two States share something that may be changed in place."""
    of_left = dict(changeable(left, "state"))
    shared = [path for identity, path in changeable(right, "state") if identity in of_left]
    assert not shared, f"a fork shares {shared[:5]}"
