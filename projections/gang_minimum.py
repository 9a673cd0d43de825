"""Keep the first `minMember` pods of a gang in task order, while pods are added and removed.

The minimum request of a gang is the request of its first `wanted` pods in task order. If roles have minimums of
their own, the first pods of each role come before all others. Sorting all pods with each change would take
quadratic time; one change here takes logarithmic time.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import ClassVar

from projections.pods import Pod, SortKey

Entry = tuple[SortKey, int]
"""Sort key of a pod and the index of its class."""


class _TopEntries:
    """Sorted entries, divided into the first `size` and the rest."""

    COMPARED: ClassVar[tuple[str, ...]] = ("size", "top", "rest", "by_class")

    def __init__(self, most: int) -> None:
        self.size = most
        self.top: list[Entry] = []
        self.rest: list[Entry] = []
        self.by_class: dict[int, list[Entry]] = {}
        """Class index to the entries of that class among the first, sorted."""

    def copy(self) -> "_TopEntries":
        """Return a copy."""
        twin = _TopEntries(self.size)
        twin.top, twin.rest = self.top.copy(), self.rest.copy()
        twin.by_class = {index: entries.copy() for index, entries in self.by_class.items()}
        return twin

    def add(self, entry: Entry) -> Entry | None:
        """Add an entry. Return the entry that is in the rest because of that: this one, or the one that it
        displaces."""
        if len(self.top) < self.size and not self.rest:
            self._enter(entry)
            return None
        if self.top and entry < self.top[-1]:
            self._enter(entry)
            entry = self._leave(self.top[-1])
        insort(self.rest, entry)
        return entry

    def remove(self, entry: Entry) -> Entry | None:
        """Remove an entry. Return the entry that leaves the rest because of that: this one, or the one that moves
        up."""
        if self.top and entry <= self.top[-1]:
            self._leave(entry)
            if not self.rest:
                return None
            entry = self.rest[0]
            self._enter(entry)
        del self.rest[bisect_left(self.rest, entry)]
        return entry

    def resize(self, most: int) -> None:
        """Change how many entries are the first."""
        self.size = most
        while len(self.top) > most:
            self.rest.insert(0, self._leave(self.top[-1]))
        while len(self.top) < most and self.rest:
            self._enter(self.rest.pop(0))

    def _enter(self, entry: Entry) -> None:
        insort(self.top, entry)
        insort(self.by_class.setdefault(entry[1], []), entry)

    def _leave(self, entry: Entry) -> Entry:
        of_class = self.by_class[entry[1]]
        for entries in (self.top, of_class):
            del entries[bisect_left(entries, entry)]
        if not of_class:
            del self.by_class[entry[1]]
        return entry


class MinMemberSet:
    """The first pods of one gang. `pods` are all pods that could count towards it."""

    COMPARED: ClassVar[tuple[str, ...]] = ("wanted", "roles", "_by_role", "_others")

    def __init__(
        self,
        wanted: int,
        roles: Mapping[str, int],
        pods: Iterable[Pod],
        *,
        is_by_age: bool = False,
    ) -> None:
        self.wanted, self.roles = wanted, dict(roles)
        self._is_by_age = is_by_age
        """Whether age decides on the order of pods before numbers do."""
        self._by_role = {role: _TopEntries(least) for role, least in roles.items()}
        self._others = _TopEntries(0)
        self._balance()
        for pod in pods:
            self.count(pod, 1)

    def copy(self) -> "MinMemberSet":
        """Return a copy."""
        twin = MinMemberSet(self.wanted, self.roles, (), is_by_age=self._is_by_age)
        twin._by_role = {role: split.copy() for role, split in self._by_role.items()}
        twin._others = self._others.copy()
        return twin

    def rebuilt(self, pods: Iterable[Pod], /) -> "MinMemberSet":
        """Find the first pods again among all that could count."""
        return MinMemberSet(self.wanted, self.roles, pods, is_by_age=self._is_by_age)

    def is_for(self, wanted: int, roles: Mapping[str, int]) -> bool:
        """Return whether the set was built for this minimum."""
        return self.wanted == wanted and self.roles == roles

    def count(self, pod: Pod, sign: int) -> None:
        """Add a pod, or remove it (-1); its sort key and class must be the same as when it was added."""
        key = pod.age_key if self._is_by_age else pod.sort_key
        entry: Entry | None = (key, pod.pod_class.index)
        split = self._by_role.get(pod.facts.role)
        for one in (split, self._others):
            if one is not None and entry is not None:
                entry = one.add(entry) if sign > 0 else one.remove(entry)
        self._balance()

    def classes(self) -> list[tuple[int, int]]:
        """Return class index and number of pods of the set, in the order of their first pods."""
        counts: dict[int, int] = {}
        for splits in (list(self._by_role.values()), [self._others]):
            begins = [(entries[0], entries) for one in splits for entries in one.by_class.values()]
            for (_, index), entries in sorted(begins):
                counts[index] = counts.get(index, 0) + len(entries)
        return list(counts.items())

    def _balance(self) -> None:
        leading = sum(len(split.top) for split in self._by_role.values())
        self._others.resize(max(0, self.wanted - leading))
