"""Tables of facts that plugins and features bring. They exist while the policy names what brings them.

A table is a Struct with defaults: what was decided or fixed at a moment, and does not follow from other facts. Snapshots
have it; a policy that names it newly begins with an empty one. A table that records change is a `Table`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

if TYPE_CHECKING:
    from events.decision import Decision
    from events.messages import PodMarkRequest
    from projections.cluster import Cluster
    from projections.pods import Pod

TableT = TypeVar("TableT", bound=Struct)


class Table(Struct):
    """A table that follows records. It overrides the handlers of those that change it, and is called for no others."""

    def pod_added(self, cluster: Cluster, pod: Pod) -> None:
        """Change the table for a pod that is observed for the first time, before it is counted."""

    def pod_ended(self, cluster: Cluster, pod: Pod, *, is_deleted: bool) -> None:
        """Change the table for a pod that has ended, or (`is_deleted`) is deleted. `pod` is the row before."""

    def decided(self, cluster: Cluster, position: int, event: Decision) -> None:
        """Change the table for a decision at a position, after the decision has changed pods and pod groups."""

    def mark_answered(self, what: str, uid: str, decision: int, *, is_lost: bool) -> None:
        """Change the table for the answer to a request to mark a pod: it is written or refused, or (`is_lost`) no answer came."""

    def cycle_opened(self, cluster: Cluster) -> None:
        """Change the table at the start of a cycle, before deadlines are applied."""

    def policy_changed(self, cluster: Cluster) -> None:
        """Drop or compute again what depends on the policy, where another one that names the table too is in force now."""

    def dropped(self, cluster: Cluster) -> None:
        """Take back what the table has changed in the cluster: the next policy no longer names what brings it."""

    def deadlines(self, cluster: Cluster) -> Iterable[int]:
        """Return the times at which a cycle is due because of the table."""
        return ()

    def mark_requests(self) -> Iterable[PodMarkRequest]:
        """Return the marks to write on pods, in the order of their decisions."""
        return ()


class Tables:
    """One table of each type that the policy in force needs."""

    def __init__(self) -> None:
        self._by_kind: dict[type[Struct], Struct] = {}
        self._follow()

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
        self._follow()

    def drop(self, cluster: Cluster, kinds: Iterable[type[Struct]]) -> None:
        """Let the tables that are of none of these types take back what they have changed, before they are dropped."""
        kept = frozenset(kinds)
        for table in tuple(self._by_kind.values()):
            if type(table) not in kept and isinstance(table, Table):
                table.dropped(cluster)

    def replace(self, table: Struct) -> None:
        """Put a table in the place of the one of its type."""
        assert type(table) in self._by_kind
        self._by_kind[type(table)] = table
        self._follow()

    def _follow(self) -> None:
        """Find which tables override which handlers."""
        self.of_pods = self._with(Table.pod_added, Table.pod_ended)
        self.of_decisions = self._with(Table.decided)
        self.of_cycles = self._with(Table.cycle_opened)
        self.of_policies = self._with(Table.policy_changed)
        self.with_deadlines = self._with(Table.deadlines)
        self.with_marks = self._with(Table.mark_requests, Table.mark_answered)

    def _with(self, *handlers: Callable[..., object]) -> tuple[Table, ...]:
        """Return the tables that override one of some handlers."""
        return tuple(
            [
                table
                for table in self._by_kind.values()
                if isinstance(table, Table)
                and any(getattr(type(table), one.__name__) is not one for one in handlers)
            ]
        )
