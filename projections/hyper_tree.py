"""The tree of HyperNodes with the nodes that were found for each.

The tree is ready as long as no HyperNode is a member of itself, directly or indirectly, or of two others; until
then no pod group is placed by it. Each change updates only what it affects.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, TypeAlias

from projections.config_errors import ConfigErrors, Pairs
from projections.hyper_nodes import HyperNodeFacts, Labels
from projections.index import Index

if TYPE_CHECKING:
    from projections.cluster import Cluster

CIRCULAR: Final = "HyperNodeInCircle"
TWO_PARENTS: Final = "HyperNodeOfTwoParents"
TIERS: Final = "HyperNodeTiers"

Names: TypeAlias = dict[str, None]
Known: TypeAlias = Iterable[tuple[str, Labels]]
"""Names and labels of the present nodes."""


class HyperTree(Index):
    """All HyperNodes. Only State changes them."""

    name = "HyperNodes"
    COMPARED: ClassVar[tuple[str, ...]] = (
        "parents",
        "nodes",
        "of_node",
        "selecting",
        "multi_parent",
        "circular",
    )

    def __init__(self) -> None:
        self.facts: dict[str, HyperNodeFacts] = {}
        self.parents: dict[str, Names] = {}
        """HyperNode, existing or not, to those that name it as a member."""
        self.nodes: dict[str, Names] = {}
        """HyperNode to the nodes that are its direct members; a named node need not exist."""
        self.of_node: dict[str, Names] = {}
        """Node to the HyperNodes of which it is a direct member."""
        self.selecting: Names = {}
        """HyperNodes that select nodes by patterns or labels."""
        self.circular: Names = {}
        """HyperNodes that are members of themselves, or between such."""
        self.multi_parent: Names = {}
        """HyperNodes that are members of two others."""
        self.version = 0
        """Grows with every change that could change a placement."""

    @property
    def problem(self) -> str:
        """Return why no pod group can be placed by the tree, or ""."""
        for name in sorted({**self.circular, **self.multi_parent}):
            return self._structural(name)[0][1]
        return ""

    def put(self, facts: HyperNodeFacts, nodes: Known) -> None:
        """Add or update a HyperNode. `nodes` are read only if it selects nodes."""
        old = self.facts.get(facts.name)
        if old == facts:
            return
        self._unlink(old)
        self.facts[facts.name] = facts
        for child in facts.children:
            self.parents.setdefault(child, {})[facts.name] = None
        own = dict.fromkeys(facts.nodes)
        if facts.selects_nodes:
            self.selecting[facts.name] = None
            own.update({name: None for name, labels in nodes if facts.selects(name, labels)})
        self.nodes[facts.name] = own
        for name in own:
            self.of_node.setdefault(name, {})[facts.name] = None
        self._settle(facts.name, old, facts)

    def drop(self, name: str) -> None:
        """Remove a HyperNode."""
        old = self.facts.get(name)
        if old is not None:
            self._unlink(old)
            self._settle(name, old, None)

    def update_node(self, name: str, labels: Labels | None) -> None:
        """Update the membership of a node that was added, has other labels, or (None) was removed."""
        for hyper in self.selecting:
            facts = self.facts[hyper]
            if name in facts.nodes:
                continue
            is_found = labels is not None and facts.selects(name, labels)
            if is_found == (name in self.nodes[hyper]):
                continue
            self.version += 1
            if is_found:
                self.nodes[hyper][name] = None
                self.of_node.setdefault(name, {})[hyper] = None
            else:
                del self.nodes[hyper][name]
                _forget(self.of_node, name, hyper)

    def rebuilt(self, cluster: "Cluster", /) -> "HyperTree":
        """Find the members of all HyperNodes again."""
        nodes = cluster.nodes.nodes.values()
        known = [(one.name, one.facts.labels) for one in nodes if one.facts is not None]
        twin = HyperTree()
        for facts in self.facts.values():
            twin.put(facts, known)
        twin.circular = circular(self.facts)
        return twin

    def above(self, node: str) -> list[str]:
        """Return the HyperNodes that contain a node, from the smallest tier up."""
        found: Names = {}
        waiting = list(self.of_node.get(node, ()))
        while waiting:
            name = waiting.pop()
            if name in found or name not in self.facts:
                continue
            found[name] = None
            waiting += self.parents.get(name, ())
        return sorted(found, key=lambda name: (self.facts[name].tier, name))

    def below(self, hyper: str) -> Iterator[str]:
        """Return the nodes below a HyperNode, each as often as it is reached."""
        seen: Names = {}
        waiting = [hyper]
        while waiting:
            name = waiting.pop()
            facts = self.facts.get(name)
            if name in seen or facts is None:
                continue
            seen[name] = None
            yield from self.nodes[name]
            waiting += facts.children

    def tier_named(self, tier_name: str) -> int | None:
        """Return the tier of this name, the smallest if there are several; None if there is none."""
        tiers = [one.tier for one in self.facts.values() if one.tier_name == tier_name]
        return min(tiers, default=None)

    def faults_of(self, name: str) -> Pairs:
        """Return the errors of a HyperNode, including those that make the whole tree not ready."""
        facts = self.facts.get(name)
        if facts is None:
            return ()
        return (*facts.faults, *self._structural(name), *self._tiers(facts))

    def report_errors(self, book: ConfigErrors, names: Iterable[str]) -> None:
        """Update the configuration errors of these HyperNodes."""
        for name in names:
            book.put(f"HyperNode//{name}", self.faults_of(name))

    def related(self, name: str) -> Names:
        """Return the HyperNodes whose errors a change of this one may change."""
        facts = self.facts.get(name)
        members = () if facts is None else facts.children
        return {name: None, **dict.fromkeys(members), **self.parents.get(name, {}), **self.circular}

    def _structural(self, name: str) -> Pairs:
        faults: list[tuple[str, str]] = []
        refused = "no pod group is placed by HyperNodes until that ends"
        if name in self.circular:
            text = f"HyperNode {name} is a member of itself, by way of others: {refused}"
            if name in self.parents.get(name, ()):
                text = f"HyperNode {name} is a member of itself: {refused}"
            faults.append((CIRCULAR, text))
        if name in self.multi_parent:
            both = " and of ".join(sorted(self.parents[name]))
            faults.append((TWO_PARENTS, f"HyperNode {name} is a member of {both}: {refused}"))
        return tuple(faults)

    def _tiers(self, facts: HyperNodeFacts) -> Pairs:
        """Return an error if a parent is not of a higher tier; it is used all the same."""
        above = [one for one in self.parents.get(facts.name, ()) if one in self.facts]
        wrong = sorted(one for one in above if self.facts[one].tier <= facts.tier)
        if not wrong:
            return ()
        parent = self.facts[wrong[0]]
        text = f"tier {facts.tier} is not below tier {parent.tier} of {parent.name}, whose member it is"
        return ((TIERS, text),)

    def _unlink(self, old: HyperNodeFacts | None) -> None:
        if old is None:
            return
        del self.facts[old.name]
        self.selecting.pop(old.name, None)
        for child in old.children:
            _forget(self.parents, child, old.name)
        for name in self.nodes.pop(old.name):
            _forget(self.of_node, name, old.name)

    def _settle(self, name: str, old: HyperNodeFacts | None, new: HyperNodeFacts | None) -> None:
        """Update the errors of the tree after a change."""
        self.version += 1
        children = [] if old is None else list(old.children)
        children += () if new is None else new.children
        for one in (name, *children):
            self.multi_parent.pop(one, None)
            if one in self.facts and len(self.parents.get(one, ())) > 1:
                self.multi_parent[one] = None
        if self.circular or (new is not None and self._reaches_itself(name)):
            self.circular = circular(self.facts)

    def _reaches_itself(self, start: str) -> bool:
        seen: Names = {}
        waiting = list(self.parents.get(start, ()))
        while waiting:
            name = waiting.pop()
            if name == start:
                return True
            if name not in seen and name in self.facts:
                seen[name] = None
                waiting += self.parents.get(name, ())
        return False


def circular(facts: Mapping[str, HyperNodeFacts]) -> Names:
    """Return the HyperNodes that remain when those without parent or without member are removed repeatedly."""
    left = dict.fromkeys(sorted(facts))
    while True:
        members = {name: [one for one in facts[name].children if one in left] for name in left}
        named = {one for found in members.values() for one in found}
        kept = {name: None for name in left if members[name] and name in named}
        if len(kept) == len(left):
            return kept
        left = kept


def _forget(entries: dict[str, Names], key: str, name: str) -> None:
    of_key = entries[key]
    del of_key[name]
    if not of_key:
        del entries[key]
