"""Dominant shares of queues in a tree (hierarchical `drf`: `enableHierarchy`).

A queue's path and the weights along it come from its annotations `volcano.sh/hierarchy` and
`volcano.sh/hierarchy-weights` (`root/eng/dev`, `1/2/1`), otherwise from its ancestors and their weights. The
leaves of the tree are pod groups. For each node

    saturated: a leaf that has all it requests of a resource, or requests an exhausted resource;
               a node whose children are all saturated
    used      : what a leaf holds and is nominated to; what it would lose to others counts as requested
    held     : the sum over the children; those that are not saturated are scaled down to the smallest share
               among them, so that a large share of one child does not count against its siblings
    share    : dominant share of held

Queues are compared along their paths: saturated last, then by share / weight. Where one path ends, its last step is
compared with the further steps of the other. (Volcano's `drf`, after
Bhattacharya et al., Hierarchical Scheduling for Diverse Datacenter Workloads.) Amounts are whole millionths;
scaled amounts are divided once, at the node, so that a change costs one step per level of the tree, independent
of the number of groups and queues.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import total_ordering
from heapq import heappop, heappush
from typing import Final, TypeAlias

from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.queue_tree import ROOT
from projections.queues import LEVELS_MAX, Queue, add
from projections.shares import Share, dominant

_WHOLE: Final = 1_000_000

_BITS: Final = 32
"""Binary places of an amount divided by a share."""

Rank: TypeAlias = tuple[bool, Share]
"""(whether the node is saturated, its share over its weight); smaller comes first."""


@total_ordering
class FairKey:
    """The ranks on the path to a queue, level by level below the root; smaller comes first.

    The last rank stands for all levels below it, so that a queue is neither before nor behind another one because it is
    closer to the root. A queue without a path comes first.
    """

    __slots__ = ("ranks",)

    def __init__(self, ranks: tuple[Rank, ...] = ()) -> None:
        end = len(ranks)
        while end > 1 and ranks[end - 1] == ranks[end - 2]:
            end -= 1
        self.ranks = ranks[:end]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FairKey) and self.ranks == other.ranks

    def __hash__(self) -> int:
        return hash(self.ranks)

    def __lt__(self, other: "FairKey") -> bool:
        ours, theirs = self.ranks, other.ranks
        if not ours or not theirs:
            return len(ours) < len(theirs)
        longer = max(len(ours), len(theirs))
        ours += ours[-1:] * (longer - len(ours))
        return ours < theirs + theirs[-1:] * (longer - len(theirs))

    def below(self, rank: Rank) -> "FairKey":
        """Return the key of the same queue as seen from one level higher, below a node of this rank."""
        return FairKey((rank, *self.ranks))


class _Member:
    """A summand of a tree node: a pod group, or a child node."""

    __slots__ = ("counted", "held", "is_saturated", "share")

    def __init__(self) -> None:
        self.held: Amounts = {}
        self.share: Share = 0
        self.is_saturated = True
        self.counted: tuple[bool, Amounts] | None = None
        """How it was added: whether it is saturated, and the amounts."""


class _Leaf(_Member):
    """A pod group. `used` is what it holds and `waits` what its pending pods request, by resource."""

    __slots__ = ("node", "queue", "used", "waits")

    def __init__(self, node: "FairNode", queue: str) -> None:
        super().__init__()
        self.node = node
        self.queue = queue
        self.used: Amounts = {}
        self.waits: Amounts = {}


class FairNode(_Member):
    """A node of the tree: a queue, or an inner node above queues."""

    __slots__ = (
        "_least",
        "_next",
        "_plain",
        "_scaled",
        "_unsaturated",
        "above",
        "children",
        "level",
        "rank",
        "total",
        "weight",
    )

    def __init__(self, above: "FairNode | None", weight: Fraction) -> None:
        super().__init__()
        self.above = above
        self.weight = weight
        self.level: int = 0 if above is None else above.level + 1
        self.children: dict[str, FairNode] = {}
        self.rank: Rank = (True, 0)
        self.total: Amounts = {}
        """What all pod groups below it use, whether they are saturated or not; not scaled."""
        self._plain: Amounts = {}
        """Sum over the members that are not scaled."""
        self._scaled: Amounts = {}
        """Sum over the scaled members: each amount divided by the member's share, with `_BITS` binary places."""
        self._unsaturated = 0
        self._least: list[tuple[Share, int, _Member]] = []
        """Heap of the shares of scaled members; may contain stale entries."""
        self._next = 0

    def include(self, member: _Member) -> None:
        """Add a member as it is now."""
        self._unsaturated += not member.is_saturated
        if member.is_saturated or not member.share:
            member.counted = (member.is_saturated, member.held)
            add(self._plain, tuple(member.held.items()), 1)
            return
        share = Fraction(member.share)
        scaled = {
            name: (amount * share.denominator << _BITS) // share.numerator
            for name, amount in member.held.items()
        }
        member.counted = (False, scaled)
        add(self._scaled, tuple(scaled.items()), 1)
        self._next += 1
        heappush(self._least, (member.share, self._next, member))

    def exclude(self, member: _Member) -> None:
        """Subtract a member as it was added."""
        if member.counted is None:
            return
        _, amounts = member.counted
        self._unsaturated -= not member.is_saturated
        is_plain = member.is_saturated or not member.share
        add(self._plain if is_plain else self._scaled, tuple(amounts.items()), -1)
        member.counted = None

    def recompute(self, totals: Mapping[str, int]) -> bool:
        """Recompute the share from the sums; `totals` are millionths. Return True if the rank changed."""
        held = dict(self._plain)
        if self._scaled:
            least = Fraction(self._smallest())
            for name, amount in self._scaled.items():
                scaled = amount * least.numerator // least.denominator >> _BITS
                held[name] = held.get(name, 0) + scaled
        self.held = held
        self.share = dominant(held, totals)
        self.is_saturated = not self._unsaturated
        before = self.rank
        self.rank = (self.is_saturated, self.share / self.weight if self.share else 0)
        return self.rank != before

    def _smallest(self) -> Share:
        while True:
            share, _, member = self._least[0]
            if member.counted is not None and not member.is_saturated and member.share == share:
                return share
            heappop(self._least)

    def path_to_root(self) -> Iterator["FairNode"]:
        """Yield this node and its ancestors without the root."""
        node = self
        while node.above is not None:
            yield node
            node = node.above


class FairTree:
    """The tree of one cluster, updated by `refresh`; rebuilt when queues, policy or totals change."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._as_of: tuple[object, ...] = ()
        self._read = 0
        self._root = FairNode(None, Fraction(1))
        self._nodes: dict[str, FairNode] = {}
        """Queue to its node."""
        self._leaves: dict[str, _Leaf] = {}
        """Pod group key to its leaf."""
        self._total: Amounts = {}
        self._totals: Amounts = {}
        self._scarce: tuple[str, ...] = ()
        self._tried: dict[str, Amounts] = {}
        """Pod group key to what it is assumed to hold."""
        self._changed: dict[FairNode, None] | None = None
        self._emptied: dict[FairNode, None] = {}
        """Nodes that a group has just left."""
        self.entered = 0
        """Number of groups that were re-evaluated since the start because a resource became exhausted or available.
        """
        self._trial: object = None
        self._trial_read = 0
        """The trial whose changes were read, and how many of them."""

    def refresh(self) -> None:
        """Apply what changed in State. Assumptions are discarded."""
        self.discard_assumptions()
        cluster = self._cluster
        now = (cluster.pod_groups.journal_version, cluster.queue_tree.version, cluster.policy)
        if (*now, cluster.cluster_totals.totals) != self._as_of:
            self._as_of = (*now, dict(cluster.cluster_totals.totals))
            self._build()
            return
        keys = dict.fromkeys(cluster.pod_groups.journal[self._read :])
        self._read = len(cluster.pod_groups.journal)
        self._update(keys)

    def changes(self) -> dict[FairNode, None] | None:
        """Return the nodes whose rank may have changed since the last call; None if the whole tree may have."""
        self.refresh()
        changed, self._changed = self._changed, {}
        return changed

    def key(self, queue: Queue) -> FairKey:
        """Return the sort key of a queue; smaller comes first."""
        node = self._nodes.get(queue.name)
        if node is None:
            return FairKey()
        return FairKey(tuple([one.rank for one in node.path_to_root()][::-1]))

    def has_less(self, queue: Queue, other: Queue) -> bool:
        """Return whether a queue uses less of the cluster by weight than another one, where their paths part.

        Whether they are saturated makes no difference: a queue that waits for nothing keeps what it has, and one that waits
        for what there is not gets no more for it.
        """
        totals = self._cluster.cluster_totals.totals
        ours, others = (
            list(self._node(queue.name).path_to_root()),
            list(self._node(other.name).path_to_root()),
        )
        for mine, theirs in zip(reversed(ours), reversed(others), strict=False):
            if mine is not theirs:
                return (
                    dominant(mine.total, totals) / mine.weight
                    < dominant(theirs.total, totals) / theirs.weight
                )
        return False

    def node(self, queue: Queue) -> FairNode:
        """Return the node of a queue that has pod groups."""
        return self._node(queue.name)

    def changed_since(self, trial: object, moved: list[str]) -> dict[str, None]:
        """Return the groups that a trial changed since the last call. A different trial starts from State."""
        if self._trial is not trial:
            self.refresh()
            self._trial, self._trial_read = trial, 0
        keys = dict.fromkeys(moved[self._trial_read :])
        self._trial_read = len(moved)
        return keys

    def assume(self, held: Mapping[str, Amounts]) -> None:
        """Assume that groups hold these amounts and update the tree, until `discard_assumptions`."""
        self._tried.update(held)
        self._update(dict.fromkeys(held))

    def discard_assumptions(self) -> None:
        """Restore what all groups hold in State."""
        if self._trial is None:
            return
        keys = dict.fromkeys(self._tried)
        self._trial, self._trial_read, self._tried = None, 0, {}
        self._update(keys)

    def assumed(self, group: PodGroup) -> Amounts:
        """Return what a group holds, assumptions included."""
        return self._tried.get(group.key, group.held)

    def _build(self) -> None:
        cluster = self._cluster
        self._root = FairNode(None, Fraction(1))
        self._nodes, self._leaves, self._total, self._scarce = {}, {}, {}, ()
        self._totals = {
            name: amount * _WHOLE for name, amount in cluster.cluster_totals.totals.items()
        }
        self._read = len(cluster.pod_groups.journal)
        self._update(dict.fromkeys(cluster.groups))
        self._changed = None

    def _node(self, name: str) -> FairNode:
        found = self._nodes.get(name)
        if found is None:
            found = self._root
            for one, weight in path_of(self._cluster.queues[name], self._cluster.queues):
                child = found.children.get(one)
                if child is None:
                    child = found.children[one] = FairNode(found, weight)
                found = child
            self._nodes[name] = found
        return found

    def _update(self, keys: Mapping[str, None]) -> None:
        """Re-evaluate these groups, and all groups that request a resource that became exhausted or available."""
        for key in keys:
            self._recount(key)
        totals = self._cluster.cluster_totals.totals
        scarce = tuple([name for name in totals if self._total.get(name, 0) >= totals[name]])
        affected = keys
        if scarce != self._scarce:
            moved = {*scarce} ^ {*self._scarce}
            self._scarce = scarce
            self.entered += len(self._leaves)
            affected = dict.fromkeys(
                (
                    *(key for key, leaf in self._leaves.items() if _requests_any(leaf, moved)),
                    *keys,
                )
            )
        nodes: dict[FairNode, None] = {}
        for key in affected:
            leaf = self._leaves.get(key)
            if leaf is not None:
                self._enter(leaf)
                nodes[leaf.node] = None
        for node in self._emptied:
            nodes[node] = None
        self._emptied = {}
        self._recompute(nodes)

    def _recount(self, key: str) -> None:
        """Update the use of the cluster with a group as it is now."""
        group, leaf = self._cluster.groups.get(key), self._leaves.get(key)
        if leaf is not None:
            self._count(leaf, -1)
            leaf.node.exclude(leaf)
            if group is None or leaf.queue != group.queue:
                self._emptied[leaf.node] = None
                del self._leaves[key]
                leaf = None
        if group is None or not group.queue:
            return
        if leaf is None:
            leaf = self._leaves[key] = _Leaf(self._node(group.queue), group.queue)
        leaf.used, leaf.waits = _used_and_waiting(group, self.assumed(group))
        self._count(leaf, 1)

    def _count(self, leaf: _Leaf, sign: int) -> None:
        """Add what a group uses to the use of the cluster and of the nodes above it, or subtract it."""
        used = tuple(leaf.used.items())
        add(self._total, used, sign)
        amounts = tuple([one for one in used if one[0] != "pods"])
        for node in leaf.node.path_to_root():
            add(node.total, amounts, sign)

    def _enter(self, leaf: _Leaf) -> None:
        leaf.node.exclude(leaf)
        leaf.share = dominant(leaf.used, self._cluster.cluster_totals.totals)
        leaf.held = {name: one * _WHOLE for name, one in leaf.used.items() if name != "pods"}
        leaf.is_saturated = self._is_saturated(leaf)
        leaf.node.include(leaf)

    def _recompute(self, nodes: dict[FairNode, None]) -> None:
        """Recompute nodes and their ancestors, the deepest first."""
        levels: dict[int, dict[FairNode, None]] = {}
        for node in nodes:
            levels.setdefault(node.level, {})[node] = None
        for level in range(max(levels, default=0), 0, -1):
            for node in levels.get(level, {}):
                above = node.above
                assert above is not None
                above.exclude(node)
                if node.recompute(self._totals) and self._changed is not None:
                    self._changed[node] = None
                above.include(node)
                levels.setdefault(level - 1, {})[above] = None

    def _is_saturated(self, leaf: _Leaf) -> bool:
        """Return True if the group has all it requests of a resource, requests an exhausted resource, or requests
        nothing."""
        for name in {**leaf.used, **leaf.waits}:
            if name == "pods":
                continue
            if leaf.used.get(name, 0) and not leaf.waits.get(name, 0):
                return True
            if name in self._scarce and (leaf.used.get(name, 0) or leaf.waits.get(name, 0)):
                return True
        return not leaf.waits


def _requests_any(leaf: _Leaf, names: set[str]) -> bool:
    return any(leaf.used.get(one) or leaf.waits.get(one) for one in names)


def _used_and_waiting(group: PodGroup, held: Amounts) -> tuple[Amounts, Amounts]:
    """Return what a group uses, nominations included, and what it requests beside that: what its other pending pods
    request, and what it would lose if it held these amounts."""
    used, waits = dict(held), _less(group.held, held) if held is not group.held else {}
    for pod in group.pending if group.denied is None else ():
        if pod.facts.uid not in group.decided.nominations:
            add(waits, pod.pod_class.request, 1)
    for one in group.decided.nominations.values():
        add(used, one.request, 1)
    return used, waits


def _less(before: Mapping[str, int], after: Mapping[str, int]) -> Amounts:
    """Return the amounts by which one is less than the other."""
    return {
        name: amount - after.get(name, 0)
        for name, amount in before.items()
        if amount > after.get(name, 0)
    }


def path_of(queue: Queue, queues: Mapping[str, Queue]) -> list[tuple[str, Fraction]]:
    """Return the names and weights on the path from below the root to a queue.

    A queue more than `LEVELS_MAX` levels below the root counts as a child of the root.
    """
    facts = queue.facts
    if facts is not None and facts.path:
        below = [(name, Fraction(weight, 1000)) for name, weight in facts.path[1:]]
        return below or [(queue.name, Fraction(1))]
    path: list[tuple[str, Fraction]] = []
    above: Queue | None = queue
    while above is not None and above.name != ROOT and all(above.name != one for one, _ in path):
        weight = 1 if above.facts is None else max(1, above.facts.weight)
        path.append((above.name, Fraction(weight)))
        if len(path) > LEVELS_MAX:
            return path[:1]
        above = queues.get(above.facts.parent) if above.facts is not None else None
    return path[::-1]
