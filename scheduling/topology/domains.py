"""Topology domains: each HyperNode with the nodes below it, and the whole cluster above them.

The whole cluster is a domain, one tier above the highest HyperNode; it is the parent of every HyperNode without
one. All of this only saves time and can be recomputed from State.
"""

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import numpy.typing as npt

from projections.nodes import NodeTable

Mask = npt.NDArray[np.bool_]
Slots = npt.NDArray[np.intp]
Indices = npt.NDArray[np.intp]

TOP = ""
"""The name of the whole cluster as a domain; no HyperNode has it."""


class Domain:
    """Nodes that are close to one another."""

    __slots__ = ("index", "name", "parent", "slots", "tier")

    def __init__(self, name: str, tier: int, slots: Slots) -> None:
        self.name = name
        self.tier = tier
        self.slots = slots
        """The slots of its nodes, in the order of their names."""
        self.index = 0
        self.parent: Domain | None = None

    @property
    def lineage(self) -> Iterator["Domain"]:
        """Yield the domain itself, its parent, and so on up to the whole cluster."""
        one: Domain | None = self
        while one is not None:
            yield one
            one = one.parent

    @property
    def is_top(self) -> bool:
        """Return True if this is the whole cluster."""
        return self.name == TOP

    @property
    def text(self) -> str:
        """Return its name in messages."""
        return f"HyperNode {self.name} (tier {self.tier})" if self.name else "the cluster"


class Domains:
    """All domains with existing nodes, the lowest tier first, then by name; the whole cluster last."""

    def __init__(self, table: NodeTable) -> None:
        tree = table.hyper_tree
        own = _slots(table)
        found = {
            name: Domain(name, tree.facts[name].tier, slots)
            for name, slots in own.items()
            if len(slots)
        }
        tiers = [one.tier for one in tree.facts.values()]
        self.top = Domain(TOP, max(tiers, default=0) + 1, np.arange(len(table.order)))
        self.lowest = min(tiers, default=self.top.tier)
        for name, one in found.items():
            above = [found[parent] for parent in tree.parents.get(name, ()) if parent in found]
            one.parent = above[0] if above else self.top
        ordered = sorted(found.values(), key=lambda one: (one.tier, one.name))
        self.all = [*ordered, self.top]
        for index, one in enumerate(self.all):
            one.index = index
        self._joined = np.concatenate([one.slots for one in self.all])
        self._starts = np.cumsum([0, *(len(one.slots) for one in self.all[:-1])])
        self._of_slot: list[list[Domain]] | None = None
        self._under: dict[int, list[Domain]] = {}
        self._stepped: dict[int, list[Indices]] = {}

    @cached_property
    def nowhere(self) -> Domain:
        """Return a domain without nodes."""
        found = Domain(TOP, self.top.tier, self.top.slots[:0])
        found.index = -1
        return found

    def sums(self, column: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the sums of a column over the nodes of each domain."""
        if not len(self._joined):
            return np.zeros(len(self.all), dtype=np.int64)
        return np.add.reduceat(column[self._joined], self._starts)

    def of_slot(self, slot: int) -> list[Domain]:
        """Return the domains that contain a node, the lowest tier first."""
        if self._of_slot is None:
            self._of_slot = [[] for _ in self.top.slots]
            for one in self.all:
                for inside in one.slots.tolist():
                    self._of_slot[inside].append(one)
        return self._of_slot[slot]

    def holding(self, slots: Iterable[int]) -> Domain:
        """Return the smallest domain that contains all these nodes, at least one."""
        left: list[Domain] | None = None
        for slot in dict.fromkeys(slots):
            there = self.of_slot(slot)
            left = there if left is None else [one for one in left if one in there]
        assert left, "the cluster holds every node"
        return min(left, key=lambda one: (one.tier, len(one.slots), one.name))

    def steps(
        self, limit: int | None, used: Domain | None, within: Domain | None
    ) -> Iterator[Indices]:
        """Yield the allowed domains, by index, those of equal preference together, the closest first.

        `limit` is the highest tier, None for no limit. If pods are placed in `used` already, the tier of the
        domain that contains these as well counts first.
        """
        bound = self.top.tier if limit is None else limit
        inside = self.under(within or self.top)
        if used is None:
            for step in self._tiers(within or self.top):
                if self.all[step[0]].tier > bound:
                    return
                yield step
            return
        left = {one.index: one for one in inside}
        for above in used.lineage:
            if above.tier > bound:
                return
            near = [left.pop(one.index) for one in self.under(above) if one.index in left]
            yield from _by_tier(one for one in near if one.tier <= bound)

    def _tiers(self, within: Domain) -> list[Indices]:
        """Yield the domains in a domain, tier by tier."""
        found = self._stepped.get(within.index)
        if found is None:
            found = self._stepped[within.index] = list(_by_tier(self.under(within)))
        return found

    def under(self, domain: Domain) -> list[Domain]:
        """Return the domain and its descendants."""
        if domain is self.top:
            return self.all
        found = self._under.get(domain.index)
        if found is None:
            found = [one for one in self.all if domain in one.lineage]
            self._under[domain.index] = found
        return found

    @cached_property
    def node_classes(self) -> "NodeClasses":
        """Return the nodes grouped by the domains that contain them."""
        return NodeClasses(self)


class NodeClasses:
    """Classes of nodes that are in the same domains: what holds for one node of a class holds for all."""

    def __init__(self, domains: Domains) -> None:
        known: dict[tuple[int, ...], int] = {}
        count = len(domains.top.slots)
        found = (tuple(one.index for one in domains.of_slot(slot)) for slot in range(count))
        self.of_slot = np.fromiter(
            (known.setdefault(one, len(known)) for one in found), dtype=np.intp, count=count
        )
        """Slot to the class of the node."""
        self.home = np.array([indices[0] for indices in known], dtype=np.intp)
        """Class to the index of the smallest domain that contains it."""
        self._inside: dict[int, npt.NDArray[np.intp]] = {}
        depth = max((len(one) for one in known), default=1) - 1
        nothing = len(domains.all)
        self.layers = [
            np.array([one[at] if at < len(one) - 1 else nothing for one in known], dtype=np.intp)
            for at in range(depth)
        ]
        """All HyperNodes of each class: one index per layer, or the index behind the last domain for none."""

    def in_domain(self, domain: Domain) -> npt.NDArray[np.intp]:
        """Return the classes in a domain."""
        found = self._inside.get(domain.index)
        if found is None:
            found = self._inside[domain.index] = np.unique(self.of_slot[domain.slots])
        return found


def _by_tier(domains: Iterable[Domain]) -> Iterator[Indices]:
    tiers: dict[int, list[int]] = {}
    for one in domains:
        tiers.setdefault(one.tier, []).append(one.index)
    for tier in sorted(tiers):
        yield np.array(tiers[tier], dtype=np.intp)


def _slots(table: NodeTable) -> dict[str, Slots]:
    """Return HyperNode to the slots of all nodes below it. Requires a ready tree: each HyperNode has at most one
    parent."""
    tree = table.hyper_tree
    found: dict[str, list[int]] = {name: [] for name in tree.facts}
    for name in tree.facts:
        nodes = (table.nodes.get(one) for one in tree.nodes[name])
        own = [one.slot for one in nodes if one is not None and one.facts is not None]
        above: str | None = name
        while above is not None:
            found[above] += own
            above = next((one for one in tree.parents.get(above, ()) if one in tree.facts), None)
    return {name: np.unique(np.array(slots, dtype=np.intp)) for name, slots in found.items()}
