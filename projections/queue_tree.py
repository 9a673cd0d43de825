"""Keep queues as a tree (`enableHierarchy` of Volcano's `capacity`) with sums over the queues below.

The queue `root` is above all others, with or without an object. A charge of a queue is added to all queues above
it. A queue whose parent does not exist, that is above itself, or that is more than `LEVELS_MAX` levels below the
root has no place in the tree and accepts no pod groups. Without a tree, no queue has a parent.

When a queue is added, changed or removed, only it and the queues below it are placed again.
"""

from typing import Final, Protocol

from projections.cluster_totals import ClusterTotals
from projections.plugin import PluginSet
from projections.pod_class import Amounts
from projections.queues import LEDGERS, LEVELS_MAX, Queue, add

ROOT: Final = "root"


class QueueTreeState(Protocol):
    """The part of the cluster that has queues."""

    plugins: PluginSet
    cluster_totals: ClusterTotals
    queues: dict[str, Queue]
    changed_queues: dict[str, None]
    tree_version: int
    groups_to_update: dict[str, None]


def rebuild_queue_tree(cluster: QueueTreeState) -> None:
    """Place all queues again, and recompute the sums."""
    cluster.cluster_totals.named_children, cluster.cluster_totals.guaranteed = {}, {}
    for queue in cluster.queues.values():
        queue.reset_place()
        cluster.cluster_totals.named_children.setdefault(_named_parent(queue), {})[queue.name] = (
            None
        )
    attach_queues(cluster, list(cluster.queues.values()))


def counted_tree(cluster: QueueTreeState) -> tuple[dict[str, dict[str, None]], dict[str, Amounts]]:
    """Return again the queues by the parents that they name, and the guarantees of siblings (for
    `projections/audit.py`)."""
    children: dict[str, dict[str, None]] = {}
    guaranteed: dict[str, Amounts] = {}
    for queue in cluster.queues.values():
        children.setdefault(_named_parent(queue), {})[queue.name] = None
        is_root = cluster.plugins.quota.keeps_tree and queue.name == ROOT
        if queue.facts is not None and not is_root:
            total = guaranteed.setdefault(siblings_of(queue), {})
            add(total, tuple(queue.facts.guarantee.items()), 1)
    return children, guaranteed


def detach_subtree(cluster: QueueTreeState, queue: Queue) -> list[Queue]:
    """Take a queue that is about to change, and the queues below it, out of the tree; return them."""
    lifted = _below(cluster, queue)
    for one in lifted:
        _count(cluster, one, -1)
    for one in lifted:
        if one.misplaced:
            cluster.groups_to_update.update(one.groups)
        if one.parent is not None:
            one.parent.children.pop(one.name, None)
            # Whether a queue accepts pod groups depends on whether it has children.
            cluster.groups_to_update.update(one.parent.groups)
        one.parent, one.misplaced = None, ""
    named = cluster.cluster_totals.named_children.get(_named_parent(queue), {})
    named.pop(queue.name, None)
    return lifted


def attach_queues(cluster: QueueTreeState, lifted: list[Queue]) -> None:
    """Place queues by the parents that their objects name."""
    cluster.tree_version += 1
    for queue in lifted:
        if cluster.queues.get(queue.name) is not queue:
            continue
        cluster.cluster_totals.named_children.setdefault(_named_parent(queue), {})[queue.name] = (
            None
        )
        if cluster.plugins.quota.keeps_tree:
            _find_place(cluster, queue)
            if queue.misplaced:
                cluster.groups_to_update.update(queue.groups)
            elif queue.parent is not None:
                cluster.groups_to_update.update(queue.parent.groups)
    for queue in lifted:
        if cluster.queues.get(queue.name) is queue:
            _count(cluster, queue, 1)


def siblings_of(queue: Queue) -> str:
    """Return the name under which the guarantees of a queue and its siblings are summed."""
    return "" if queue.parent is None else queue.parent.name


def _named_parent(queue: Queue) -> str:
    """Return the parent that its object names, or the root."""
    return (queue.facts.parent if queue.facts is not None else "") or ROOT


def _below(cluster: QueueTreeState, queue: Queue) -> list[Queue]:
    """Return a queue and the queues below it by their named parents, as far as they depend on its place."""
    found = {queue.name: queue}
    if not cluster.plugins.quota.keeps_tree:
        return [queue]
    level = [queue.name]
    for _ in range(LEVELS_MAX + 1):
        names = [
            name
            for one in level
            for name in cluster.cluster_totals.named_children.get(one, {})
            if name not in found and name != ROOT
        ]
        for name in names:
            found[name] = cluster.queues[name]
        level = names
    return list(found.values())


def _find_place(cluster: QueueTreeState, queue: Queue) -> None:
    if queue.name == ROOT:
        return
    parent = _above(cluster, queue)
    if parent is None:
        if _named_parent(queue) != ROOT:
            queue.misplaced = f"its parent <{_named_parent(queue)}> does not exist"
        return
    way: dict[str, None] = {queue.name: None}
    above: Queue | None = parent
    while above is not None and above.name != ROOT:
        if above.name in way:
            queue.misplaced = "it is above itself"
            return
        way[above.name] = None
        if len(way) > LEVELS_MAX:
            queue.misplaced = f"it is more than {LEVELS_MAX} levels below the root"
            return
        above = _above(cluster, above)
    queue.parent = parent
    parent.children[queue.name] = None


def _above(cluster: QueueTreeState, queue: Queue) -> Queue | None:
    """Return the named parent, if it has an object."""
    parent = cluster.queues.get(_named_parent(queue)) if queue.name != ROOT else None
    return parent if parent is not None and parent.facts is not None else None


def _count(cluster: QueueTreeState, queue: Queue, sign: int) -> None:
    """Add the ledgers and the guarantee of a queue to the queues above it, or (-1) remove them."""
    above = queue.parent
    while above is not None:
        for ledger in LEDGERS:
            amounts = getattr(queue, ledger)
            if amounts:
                add(above.below.setdefault(ledger, {}), tuple(amounts.items()), sign)
        above = above.parent
    is_root = cluster.plugins.quota.keeps_tree and queue.name == ROOT
    if queue.facts is not None and queue.facts.guarantee and not is_root:
        total = cluster.cluster_totals.guaranteed.setdefault(siblings_of(queue), {})
        add(total, tuple(queue.facts.guarantee.items()), sign)
        if not total:
            del cluster.cluster_totals.guaranteed[siblings_of(queue)]
