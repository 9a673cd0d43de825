"""Dominant shares of queues in a tree (hierarchical `drf`: `enableHierarchy`).

A queue's path and the weights along it come from its annotations `volcano.sh/hierarchy` and
`volcano.sh/hierarchy-weights` (`root/eng/dev`, `1/2/1`), else from the queues above it and their weights.
The leaves of the tree are pod groups. For each node

    saturated: a leaf that has all it asks for of a resource, or asks for one that is used up;
               a node of which all children are
    held     : what its children hold; those that are not saturated are scaled down to the smallest share
               among them, so that what one child hoards does not count against its siblings
    share    : dominant share of held

Queues are compared down their paths: saturated last, then by share / weight. (Volcano's `drf`, after
Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads.) Amounts are whole
millionths. This looks at every pod group: it costs more than the order of queues does otherwise.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.queue_tree import ROOT
from projections.queues import Queue, add
from projections.shares import Share, dominant

_WHOLE: Final = 1_000_000

FairKey = tuple[tuple[bool, Share], ...]
"""Level by level below the root, whether the node is saturated, and its share over its weight."""


class _Node:
    """A node of the tree: a queue, or what has queues below it."""

    __slots__ = ("above", "children", "held", "is_saturated", "queues", "share", "weight")

    def __init__(self, above: "_Node | None", weight: Fraction) -> None:
        self.above = above
        self.weight = weight
        self.children: dict[str, _Node] = {}
        self.queues: list[Queue] = []
        self.held: Amounts = {}
        self.share: Share = 0
        self.is_saturated = True

    def all_children(self) -> list["_Node"]:
        """Those of its children, and of theirs, that are the deepest first."""
        found = [self]
        for child in self.children.values():
            found = [*child.all_children(), *found]
        return found


class FairTree:
    """The tree as things stand. It must be told of queues whose groups got or lost something."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._root = _Node(None, Fraction(1))
        self._nodes: dict[str, _Node] = {}
        self._changes: dict[str, Amounts] = {}
        """Pod group key to what it holds in a trial."""
        for name in sorted(cluster.queues):
            queue = cluster.queues[name]
            if queue.groups:
                self._nodes[name] = self._grow(queue)
                self._nodes[name].queues.append(queue)
        self._used: dict[str, Amounts] = {name: self._sum(name) for name in self._nodes}
        self._total: Amounts = {}
        for used in self._used.values():
            add(self._total, tuple(used.items()), 1)
        self._scarce = self._find_scarce()
        self._settle_all()

    def key(self, queue: Queue) -> FairKey:
        """A queue's place; smaller is sooner."""
        found: list[tuple[bool, Share]] = []
        node = self._nodes.get(queue.name)
        while node is not None and node.above is not None:
            found.insert(0, (node.is_saturated, node.share / node.weight if node.share else 0))
            node = node.above
        return tuple(found)

    def refresh(self, name: str) -> list[str]:
        """Pods of the queue were placed, or left. Which queues may have another place now."""
        if name not in self._nodes:
            return [name]
        add(self._total, tuple(self._used[name].items()), -1)
        self._used[name] = self._sum(name)
        add(self._total, tuple(self._used[name].items()), 1)
        scarce = self._find_scarce()
        if scarce != self._scarce:
            self._scarce = scarce
            self._settle_all()
            return list(self._nodes)
        node = self._nodes[name]
        while node.above is not None:
            self._settle(node)
            if node.above.above is None:
                break
            node = node.above
        # The root has a place of its own; so have all other branches, whatever happens in this one.
        return [one.name for below in node.all_children() for one in below.queues]

    def change(self, group: PodGroup, held: Amounts) -> None:
        """Think of a group as holding this, and of the tree as following."""
        self._changes[group.key] = held
        self.refresh(group.queue)

    def holds(self, group: PodGroup) -> Amounts:
        """What a group holds, in thought."""
        return self._changes.get(group.key, group.held)

    def _grow(self, queue: Queue) -> _Node:
        node = self._root
        for name, weight in path_of(queue, self._cluster.queues):
            child = node.children.get(name)
            if child is None:
                child = node.children[name] = _Node(node, weight)
            node = child
        return node

    def _sum(self, name: str) -> Amounts:
        total: Amounts = {}
        for key in self._cluster.queues[name].groups:
            for resource, amount in self.holds(self._cluster.groups[key]).items():
                total[resource] = total.get(resource, 0) + amount
        return total

    def _find_scarce(self) -> tuple[str, ...]:
        """Resources that are used up."""
        totals = self._cluster.commons.totals
        return tuple([name for name in totals if self._total.get(name, 0) >= totals[name]])

    def _settle_all(self) -> None:
        for node in self._root.all_children():
            self._settle(node)

    def _settle(self, node: _Node) -> None:
        totals = self._cluster.commons.totals
        below = [(one.held, one.share, one.is_saturated) for one in node.children.values()]
        below += [self._leaf(key) for queue in node.queues for key in queue.groups]
        shares = [share for _, share, is_saturated in below if share and not is_saturated]
        least = min(shares, default=1)
        held: Amounts = {}
        for amounts, share, is_saturated in below:
            scale = Fraction(1) if is_saturated or not share else Fraction(least) / share
            for name, amount in amounts.items():
                scaled = amount * scale.numerator // scale.denominator
                held[name] = held.get(name, 0) + scaled
        node.held = held
        node.share = dominant(held, {name: amount * _WHOLE for name, amount in totals.items()})
        node.is_saturated = all(is_saturated for _, _, is_saturated in below)

    def _leaf(self, key: str) -> tuple[Amounts, Share, bool]:
        group = self._cluster.groups[key]
        held = self.holds(group)
        share = dominant(held, self._cluster.commons.totals)
        amounts = {name: amount * _WHOLE for name, amount in held.items() if name != "pods"}
        return amounts, share, self._is_saturated(group, held)

    def _is_saturated(self, group: PodGroup, held: Amounts) -> bool:
        """Whether the group has all it asks for of something, or asks for what is used up, or for nothing."""
        waits = _waits_for(group)
        for name in {**held, **waits}:
            if name == "pods":
                continue
            if held.get(name, 0) and not waits.get(name, 0):
                return True
            if name in self._scarce and (held.get(name, 0) or waits.get(name, 0)):
                return True
        return not waits


def _waits_for(group: PodGroup) -> Amounts:
    total: Amounts = {}
    for pod in group.pending:
        for name, amount in pod.pod_class.request:
            total[name] = total.get(name, 0) + amount
    return total


def path_of(queue: Queue, queues: Mapping[str, Queue]) -> list[tuple[str, Fraction]]:
    """The names and weights on the way from below the root to a queue."""
    facts = queue.facts
    if facts is not None and facts.path:
        below = [(name, Fraction(weight, 1000)) for name, weight in facts.path[1:]]
        return below or [(queue.name, Fraction(1))]
    path: list[tuple[str, Fraction]] = []
    above: Queue | None = queue
    while above is not None and above.name != ROOT and all(above.name != one for one, _ in path):
        weight = 1 if above.facts is None else max(1, above.facts.weight)
        path.insert(0, (above.name, Fraction(weight)))
        above = queues.get(above.facts.parent) if above.facts is not None else None
    return path
