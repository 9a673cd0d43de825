"""Wrong values put into the indexes of State on purpose, one at a time, each into a fork."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from msgspec import Struct

from projections.index_audit import Recomputable, is_nothing
from projections.state import State

Find = Callable[[State], Recomputable]


class Mutation(Struct, frozen=True):
    """A wrong value: the index and attribute that get it, and what puts it there."""

    index: str
    attribute: str
    what: str
    apply: Callable[[State], None]


def _group(key: str) -> Find:
    return lambda state: state.cluster.pod_groups.own(state.cluster, key)


def _indexes(state: State) -> Iterator[tuple[str, Find]]:
    """All indexes, with a queue, node and pod group each."""
    for index in state.cluster.indexes.all:
        kind = type(index)
        yield index.name, lambda state, kind=kind: state.cluster.indexes.of(kind)  # type: ignore[misc]
    for key in state.cluster.queues:
        yield "queue", lambda state, key=key: state.cluster.queues[key]  # type: ignore[misc]
    for key in state.cluster.nodes.nodes:
        yield "node", lambda state, key=key: state.cluster.nodes.nodes[key]  # type: ignore[misc]
    for key in state.cluster.groups:
        yield "pod group", _group(key)


def mutations(state: State) -> Iterator[Mutation]:
    """Yield the mutations of all indexes of a State."""
    are_columns_valid = state.cluster.nodes.is_laid_out
    for name, find in _indexes(state):
        for attribute in find(state).COMPARED:
            is_stale = name == "node table" and attribute in COLUMNS and not are_columns_valid
            if attribute in DERIVED or is_stale:
                continue
            value = getattr(find(state), attribute)
            for what, steps, change in _changes(value, ()):
                if what == MISSING and len(steps) <= FACT_KEYS.get((name, attribute), 0):
                    continue
                yield Mutation(name, attribute, what, _applied(find, attribute, steps, change))


MISSING: Final = "an entry is missing"

FACT_KEYS: Final = {("budgets", "all"): 2, ("foreign pod groups", "deleted_owners"): 1}
"""Attribute to the depth down to which its keys are facts: which budgets and deleted workloads there are."""

COLUMNS: Final = ("order", "free", "allocatable")
"""Attributes of the node table that are not valid between a change of the set of nodes and the next cycle."""

DERIVED: Final = ("places",)
"""Properties: what they are computed from is mutated by way of other attributes."""

Steps = tuple[object, ...]
Change = Callable[[object, object], object]
"""Called with the container and the key, index or name in it."""


def _applied(find: Find, attribute: str, steps: Steps, change: Change) -> Callable[[State], None]:
    def apply(state: State) -> None:
        place: object = find(state)
        *way, last = (attribute, *steps)
        for step in way:
            place = _at(place, step)
        change(place, last)

    return apply


def _at(place: object, step: object) -> object:
    if isinstance(place, dict):
        return place[step]
    if isinstance(place, list | tuple | np.ndarray):
        assert isinstance(step, int)
        return place[step]
    return getattr(place, str(step))


def _put(place: object, step: object, value: object) -> None:
    if isinstance(place, dict | np.ndarray):
        place[step] = value  # type: ignore[call-overload]
    else:
        setattr(place, str(step), value)


def _changes(value: object, steps: Steps) -> Iterator[tuple[str, Steps, Change]]:
    """Yield the changes of a value, or of the first one in it."""
    if isinstance(value, bool):
        yield "inverted", steps, lambda place, step: _put(place, step, not value)
    elif isinstance(value, int | np.integer):
        yield "one more", steps, lambda place, step: _put(place, step, int(value) + 1)
    elif isinstance(value, str):
        yield "another text", steps, lambda place, step: _put(place, step, f"{value}!")
    elif isinstance(value, np.ndarray) and len(value):
        yield "one more", (*steps, 0), lambda place, step: _put(place, step, int(value[0]) + 1)
    elif isinstance(value, list) and value:
        yield "the last is missing", steps, lambda place, step: _list(_at(place, step)).pop()
    elif isinstance(value, dict) and value:
        first = next((key for key, one in value.items() if not is_nothing(one)), next(iter(value)))
        if not is_nothing(value[first]):
            yield MISSING, (*steps, first), lambda place, step: _dict(place).pop(step)
        yield from _changes(value[first], (*steps, first))
    elif isinstance(value, Struct) and not steps:
        yield "missing", steps, lambda place, step: _put(place, step, None)
    elif (names := getattr(value, "COMPARED", None)) is not None and not isinstance(value, type):
        for name in names:
            yield from _changes(getattr(value, name), (*steps, name))


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def _dict(value: object) -> dict[object, object]:
    assert isinstance(value, dict)
    return value


def undetected(state: State) -> tuple[list[str], set[tuple[str, str]]]:
    """Return the mutations that an audit does not find, and the attributes that were mutated."""
    state.validate()
    missed: list[str] = []
    tried: set[tuple[str, str]] = set()
    for one in mutations(state):
        fork = state.fork()
        one.apply(fork)
        tried.add((one.index, one.attribute))
        try:
            fork.validate()
        except AssertionError:
            continue
        missed.append(f"{one.index} {one.attribute}: {one.what}")
    state.validate()
    return missed, tried
