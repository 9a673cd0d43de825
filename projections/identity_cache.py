"""A cache of what is computed from immutable objects, by their identity: no hash of a large object is computed."""

from collections.abc import Callable
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


class IdentityCache(Generic[KeyT, ValueT]):
    """Keeps a value for each object; emptied when it has `size_max`. It keeps the objects too, so that none gets the identity
    of another."""

    def __init__(self, compute: Callable[[KeyT], ValueT], size_max: int) -> None:
        self._compute = compute
        self._size_max = size_max
        self._kept: dict[int, tuple[KeyT, ValueT]] = {}

    def of(self, key: KeyT) -> ValueT:
        """Return the value of an object."""
        found = self._kept.get(id(key))
        if found is None:
            if len(self._kept) >= self._size_max:
                self._kept.clear()
            found = self._kept[id(key)] = key, self._compute(key)
        return found[1]
