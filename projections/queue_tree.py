"""Keep queues as a tree (`enableHierarchy` of Volcano's `capacity`) with sums over the queues below.

The queue `root` is above all others, with or without an object. A charge of a queue is added to all queues above
it that have an object: their status and their rows hold the sums under every policy. Only in a tree do quotas of the
queues above hold for a queue. There, a queue whose parent does not exist, that is above itself, or that is more than `LEVELS_MAX` levels below the
root has no place and accepts no pod groups. Without a tree, no queue has a parent.

When a queue is added, changed or removed, only it and the queues below it are placed again.
"""

from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Final

from projections.deltas import PolicyChanged, QueueChanged
from projections.index import Index
from projections.pod_class import Amounts
from projections.queues import LEDGERS, LEVELS_MAX, Queue, QueueFacts, add

if TYPE_CHECKING:
    from projections.cluster import Cluster

ROOT: Final = "root"

GUARANTEE_ERROR: Final = "GuaranteeNotKept"
"""Code of the error of a queue whose guarantee cannot be kept in the cluster as it is."""


class QueueTree(Index):
    """The place of each queue, which the queue itself has (`parent`, `children`, `misplaced`, and `below` the sums of the
    queues below it), and the sums of guarantees."""

    name = "queue tree"
    COMPARED: ClassVar[tuple[str, ...]] = ("named_children", "guaranteed")

    def __init__(self) -> None:
        self.named_children: dict[str, dict[str, None]] = {}
        """Queue to the queues that name it as their parent."""
        self.guaranteed: dict[str, Amounts] = {}
        """Queue to the sum of guarantees of its direct children; "" for queues without a parent."""
        self.version = 0
        """Grows with every change after which a queue may have another place or guarantee."""
        self.checked: object = None
        """Input from which the errors of guarantees were determined."""
        self.has_guarantee_errors = False
        """Whether there may be any."""
        self._sorted: dict[tuple[str, str], tuple[list[int], list[int]]] = {}
        self._sorted_version = -1

    def rebuilt(self, cluster: "Cluster", /) -> "QueueTree":
        """Find the named parents and sum up the guarantees of siblings again."""
        twin = QueueTree()
        for queue in cluster.queues.values():
            twin._name(queue, queue.facts)
            twin._guarantee(cluster, queue, queue.facts, 1)
        return twin

    def on_queue(self, cluster: "Cluster", delta: QueueChanged) -> None:
        """Place a queue that was added, changed or deleted, and the queues below it."""
        if delta.is_same_spec:
            return
        queue = delta.queue
        is_known = queue.name in self.named_children.get(_named_parent(delta.old), {})
        moved = self._detach(cluster, queue, delta.old) if is_known else [queue]
        attached = moved[1:] if delta.is_gone else moved
        self._attach(cluster, attached)
        for one in attached:
            _mark_above(cluster, one)

    def on_policy(self, cluster: "Cluster", delta: PolicyChanged) -> None:
        """Place all queues again: the policy says whether they are a tree, and whether guarantees count."""
        for name in cluster.queues if self.has_guarantee_errors else ():
            cluster.config_errors.replace(f"Queue//{name}", GUARANTEE_ERROR, ())
        self.rebuild(cluster)
        for queue in cluster.queues.values():
            if queue.facts is not None and queue.facts.guarantee:
                cluster.plugins.quota.queue_changed(cluster, queue)

    def guarantees(
        self, cluster: "Cluster", siblings: str, name: str
    ) -> tuple[list[int], list[int]]:
        """Return the guarantees of a resource that siblings state, in ascending order, and the sums of the first 0, 1, 2 ...
        of them."""
        if self._sorted_version != self.version:
            self._sorted, self._sorted_version = {}, self.version
        found = self._sorted.get((siblings, name))
        if found is None:
            is_tree = cluster.plugins.quota.keeps_tree
            stated = [
                one.facts.guarantee.get(name, 0)
                for one in cluster.queues.values()
                if one.facts is not None
                and siblings_of(one) == siblings
                and not (is_tree and one.name == ROOT)
            ]
            amounts = sorted([one for one in stated if one])
            found = self._sorted[siblings, name] = amounts, [0, *accumulate(amounts)]
        return found

    def rebuild(self, cluster: "Cluster") -> None:
        """Place all queues again, and recompute the sums."""
        self.named_children, self.guaranteed, self.checked = {}, {}, None
        self.has_guarantee_errors = any(
            code == GUARANTEE_ERROR
            for errors in cluster.config_errors.current.values()
            for code, _ in errors
        )
        for queue in cluster.queues.values():
            queue.reset_place()
            self._name(queue, queue.facts)
        self._attach(cluster, list(cluster.queues.values()))

    def _detach(self, cluster: "Cluster", queue: Queue, before: QueueFacts | None) -> list[Queue]:
        """Take a queue, whose object was `before` until now, and the queues below it out of the tree; return them."""
        lifted = self._below(cluster, queue)
        for one in lifted:
            self._count(cluster, one, before if one is queue else one.facts, -1)
            _mark_above(cluster, one)
        for one in lifted:
            if one.misplaced:
                cluster.pod_groups.mark_all(one.groups, cluster.position)
            if one.parent is not None:
                one.parent.children.pop(one.name, None)
                # Whether a queue accepts pod groups depends on whether it has children.
                cluster.pod_groups.mark_all(one.parent.groups, cluster.position)
            one.parent, one.above, one.misplaced = None, None, ""
        self.named_children.get(_named_parent(before), {}).pop(queue.name, None)
        return lifted

    def _attach(self, cluster: "Cluster", lifted: list[Queue]) -> None:
        """Place queues by the parents that their objects name."""
        self.version += 1
        for queue in lifted:
            self._name(queue, queue.facts)
            _place(cluster, queue)
            if queue.misplaced:
                cluster.pod_groups.mark_all(queue.groups, cluster.position)
            elif queue.parent is not None:
                cluster.pod_groups.mark_all(queue.parent.groups, cluster.position)
        for queue in lifted:
            self._count(cluster, queue, queue.facts, 1)

    def _name(self, queue: Queue, facts: QueueFacts | None) -> None:
        self.named_children.setdefault(_named_parent(facts), {})[queue.name] = None

    def _below(self, cluster: "Cluster", queue: Queue) -> list[Queue]:
        """Return a queue and the queues below it by their named parents, as far as they depend on its place."""
        found = {queue.name: queue}
        level = [queue.name]
        for _ in range(LEVELS_MAX + 1):
            names = [
                name
                for one in level
                for name in self.named_children.get(one, {})
                if name not in found and name != ROOT
            ]
            for name in names:
                found[name] = cluster.queues[name]
            if not names:
                break
            level = names
        return list(found.values())

    def _count(self, cluster: "Cluster", queue: Queue, facts: QueueFacts | None, sign: int) -> None:
        """Add the ledgers and the guarantee of a queue to the queues above it, or (-1) remove them."""
        for above in queue.ancestors:
            for ledger in LEDGERS:
                amounts = getattr(queue, ledger)
                if amounts:
                    add(above.sums.setdefault(ledger, {}), tuple(amounts.items()), sign)
        self._guarantee(cluster, queue, facts, sign)

    def _guarantee(
        self, cluster: "Cluster", queue: Queue, facts: QueueFacts | None, sign: int
    ) -> None:
        """Add the guarantee of a queue to that of its siblings, or (-1) remove it."""
        is_root = cluster.plugins.quota.keeps_tree and queue.name == ROOT
        if facts is None or not facts.guarantee or is_root:
            return
        total = self.guaranteed.setdefault(siblings_of(queue), {})
        add(total, tuple(facts.guarantee.items()), sign)
        if not total:
            del self.guaranteed[siblings_of(queue)]


def siblings_of(queue: Queue) -> str:
    """Return the name under which the guarantees of a queue and its siblings are summed."""
    return "" if queue.parent is None else queue.parent.name


def place_of(cluster: "Cluster", queue: Queue) -> tuple[str | None, str]:
    """Return the queue above a queue, None without one, and why it has no place in a tree, or "". Computed again from
    the objects of all queues."""
    if queue.name == ROOT:
        return None, ""
    named = _named_parent(queue.facts)
    parent = _above(cluster, queue)
    if parent is None:
        return None, "" if named == ROOT else f"its parent <{named}> does not exist"
    way: dict[str, None] = {queue.name: None}
    above: Queue | None = parent
    while above is not None and above.name != ROOT:
        if above.name in way:
            return None, "it is above itself"
        way[above.name] = None
        if len(way) > LEVELS_MAX:
            return None, f"it is more than {LEVELS_MAX} levels below the root"
        above = _above(cluster, above)
    return parent.name, ""


def _place(cluster: "Cluster", queue: Queue) -> None:
    above, misplaced = place_of(cluster, queue)
    queue.above = None if above is None else cluster.queues[above]
    queue.is_in_tree = cluster.plugins.quota.keeps_tree
    if queue.is_in_tree:
        queue.parent, queue.misplaced = queue.above, misplaced
        if queue.parent is not None:
            queue.parent.children[queue.name] = None


def _mark_above(cluster: "Cluster", queue: Queue) -> None:
    """Mark the queues above as changed: their sums may be others."""
    cluster.changed_queues.update(dict.fromkeys(one.name for one in queue.ancestors))


def _named_parent(facts: QueueFacts | None) -> str:
    """Return the parent that an object names, or the root."""
    return ("" if facts is None else facts.parent) or ROOT


def _above(cluster: "Cluster", queue: Queue) -> Queue | None:
    """Return the named parent, if it has an object."""
    parent = cluster.queues.get(_named_parent(queue.facts)) if queue.name != ROOT else None
    return parent if parent is not None and parent.facts is not None else None
