"""Reduce the objects of a cluster to a few that still show a condition in one cycle.

Objects are removed by their sort first (all workloads, all pods that have ended), then in units (those of a pod group
that waits; a node with its pods), then one by one; then gangs lose members; then the fields of the objects that are
left are removed. Objects are chosen by delta debugging (`simulator/delta_debugging.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct, structs

from events.normalize import Json, JsonObject
from simulator.delta_debugging import SearchEndedError, minimize
from simulator.manifest import LocatedManifest, Manifest
from simulator.manifest_fields import section
from simulator.standing_objects import StandingObject

Holds = Callable[[Sequence[LocatedManifest]], bool]

MANY: Final = 50
"""Objects left, from which on fields of queues and the like are removed before single objects."""

_IDENTITY: Final = (
    (),
    ("apiVersion",),
    ("kind",),
    ("metadata",),
    ("metadata", "name"),
    ("metadata", "namespace"),
)
"""Paths of fields that stay."""


class Reduced(Struct, frozen=True):
    """The result of a reduction."""

    objects: tuple[StandingObject, ...]
    is_complete: bool
    """False if the time limit ended the search: then fewer objects may do."""


class Reduction:
    """A search for few objects for which a condition holds. `holds` raises SearchEndedError at the time limit.

    Pinned objects stay, and so do the fields whose paths are `kept_fields`. `changed` is called with the number of objects that are left, each time that it decreases.
    """

    def __init__(
        self,
        objects: Sequence[StandingObject],
        holds: Holds,
        pinned: Sequence[str] = (),
        *,
        kept_fields: Sequence[tuple[str, ...]] = (),
        changed: Callable[[int], None] | None = None,
    ) -> None:
        self._objects = list(objects)
        self._holds = holds
        self._pinned = dict.fromkeys(pinned)
        self._kept_fields = kept_fields
        self._changed = changed
        self._is_complete = True

    def run(self) -> Reduced:
        """Return the smallest set that is found. The condition holds for all objects."""
        self._remove([one.sort for one in self._objects])
        self._remove([one.unit for one in self._objects])
        if len(self._objects) > MANY:
            # A queue without its quota is often full with fewer pods.
            self._remove_fields(lambda one: one.located.kind.kind not in ("Node", "Pod"))
        self._remove([one.subject for one in self._objects])
        while self._shrink_gangs():
            self._remove([one.subject for one in self._objects])
        self._remove_fields(lambda _: True)
        self._remove([one.subject for one in self._objects])
        return Reduced(tuple(self._objects), self._is_complete)

    def _check(self, objects: Sequence[StandingObject]) -> bool:
        if not self._holds([one.located for one in objects]):
            return False
        # What was found counts at once, so that nothing is lost at the time limit.
        if len(objects) <= len(self._objects):
            self._objects = list(objects)
            if self._changed is not None:
                self._changed(len(objects))
        return True

    def _try(self, objects: Sequence[StandingObject]) -> bool:
        """Return True if the condition holds for these objects; False at the time limit, too."""
        try:
            return self._is_complete and self._check(objects)
        except SearchEndedError:
            self._is_complete = False
            return False

    def _remove(self, labels: Sequence[str]) -> None:
        """Remove objects by labels: objects with the same one go together. Pinned objects stay."""
        objects = list(self._objects)
        of_label: dict[str, list[int]] = {}
        kept: list[int] = []
        for index, label in enumerate(labels):
            if objects[index].subject in self._pinned:
                kept.append(index)
            else:
                of_label.setdefault(label, []).append(index)

        def holds(chosen: Sequence[str]) -> bool:
            there = sorted([*kept, *(index for label in chosen for index in of_label[label])])
            try:
                return self._check([objects[index] for index in there])
            except SearchEndedError:
                self._is_complete = False
                raise

        if self._is_complete:
            minimize(list(of_label), holds)

    # Gangs

    def _shrink_gangs(self) -> bool:
        """Lower the minimum of gangs, so that members can be removed. Return True if one was lowered."""
        was_lowered = False
        for index, one in enumerate(self._objects):
            least = section(one.located.manifest, "spec").get("minMember")
            if one.located.kind.kind != "PodGroup" or not isinstance(least, int):
                continue
            powers = (1 << bits for bits in range(least.bit_length()))
            for number in (one for one in powers if one < least):
                if self._try(self._with_minimum(index, number)):
                    was_lowered = True
                    break
        return was_lowered

    def _with_minimum(self, index: int, number: int) -> list[StandingObject]:
        """Return the objects with another minimum of a PodGroup, without what else depends on its size."""
        one = self._objects[index]
        left_out = ("minMember", "minTaskMember", "minResources")
        spec: JsonObject = {
            key: value
            for key, value in section(one.located.manifest, "spec").items()
            if key not in left_out
        }
        manifest = {**one.located.manifest, "spec": {**spec, "minMember": number}}
        return self._with(index, manifest)

    def _with(self, index: int, manifest: Manifest) -> list[StandingObject]:
        one = self._objects[index]
        located = structs.replace(one.located, manifest=manifest)
        return [
            *self._objects[:index],
            structs.replace(one, located=located),
            *self._objects[index + 1 :],
        ]

    # Fields

    def _remove_fields(self, is_chosen: Callable[[StandingObject], bool]) -> None:
        """Remove every field, and every element of a list, without which the condition still holds."""
        for index, one in enumerate(self._objects):
            if is_chosen(one):
                self._remove_fields_of(index, ())

    def _remove_fields_of(self, index: int, path: tuple[str | int, ...]) -> None:
        """Remove what is under a path: whole if possible, else part by part."""
        if not self._is_complete or path in self._kept_fields:
            return
        is_above_kept = any(one[: len(path)] == path for one in self._kept_fields)
        if path not in _IDENTITY and not is_above_kept:
            manifest = _without(self._objects[index].located.manifest, path)
            assert isinstance(manifest, dict)
            if self._try(self._with(index, manifest)):
                return
        there = _at(self._objects[index].located.manifest, path)
        for key in reversed(list(_keys(there))):
            self._remove_fields_of(index, (*path, key))


def _keys(value: Json) -> Iterator[str | int]:
    """Yield the keys of a mapping, or the indexes of a list."""
    if isinstance(value, dict):
        yield from value
    elif isinstance(value, list):
        yield from range(len(value))


def _at(value: Json, path: tuple[str | int, ...]) -> Json:
    for key in path:
        if isinstance(value, dict):
            assert isinstance(key, str)
            value = value[key]
        else:
            assert isinstance(value, list)
            assert isinstance(key, int)
            value = value[key]
    return value


def _without(value: Json, path: tuple[str | int, ...]) -> Json:
    """Return a copy without what is under a path."""
    key, *rest = path
    if isinstance(value, dict):
        assert isinstance(key, str)
        if rest:
            return {**value, key: _without(value[key], tuple(rest))}
        return {name: one for name, one in value.items() if name != key}
    assert isinstance(value, list)
    assert isinstance(key, int)
    if rest:
        return [*value[:key], _without(value[key], tuple(rest)), *value[key + 1 :]]
    return [*value[:key], *value[key + 1 :]]
