"""Tables of facts that plugins and features bring. They exist while the policy names what brings them.

A table is a Struct with defaults: what was decided or fixed at a moment, and does not follow from other facts. Snapshots
have it; a policy that names it newly begins with an empty one.
"""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec import Struct

TableT = TypeVar("TableT", bound=Struct)


class Tables:
    """One table of each type that the policy in force needs."""

    def __init__(self) -> None:
        self._by_kind: dict[type[Struct], Struct] = {}

    def __iter__(self) -> Iterator[Struct]:
        """Yield the tables."""
        return iter(self._by_kind.values())

    def of(self, kind: type[TableT]) -> TableT:
        """Return the table of this type. Raise KeyError if the policy does not name what brings it."""
        found = self._by_kind[kind]
        assert isinstance(found, kind)
        return found

    def find(self, kind: type[TableT]) -> TableT | None:
        """Return the table of this type; None if the policy does not name what brings it."""
        found = self._by_kind.get(kind)
        assert found is None or isinstance(found, kind)
        return found

    def keep(self, kinds: Iterable[type[Struct]]) -> None:
        """Keep the tables of these types, each empty where it is not there, and drop all others."""
        self._by_kind = {kind: self._by_kind.get(kind) or kind() for kind in kinds}

    def replace(self, table: Struct) -> None:
        """Put a table in the place of the one of its type."""
        assert type(table) in self._by_kind
        self._by_kind[type(table)] = table
