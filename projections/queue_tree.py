"""Queues as a tree (`enableHierarchy` of Volcano's `capacity`): who is above whom, and what that adds up to.

The queue `root` is above all, whether or not it has an object. What a queue is charged is charged to all
above it, too. A queue whose parent is missing, or that is above itself, stands alone and takes nobody.
Without a tree every queue stands alone.
"""

from typing import Final, Protocol

from projections.commons import Commons
from projections.policy import Policy
from projections.queues import LEDGERS, Queue, add

ROOT: Final = "root"


class Grove(Protocol):
    """The part of the cluster that has queues."""

    policy: Policy
    commons: Commons
    queues: dict[str, Queue]
    moved: dict[str, None]


def rewire(cluster: Grove) -> None:
    """Find anew who is above whom, and count what that adds up to."""
    for queue in cluster.queues.values():
        queue.uproot()
    if cluster.policy.has_queue_tree:
        for queue in cluster.queues.values():
            _find_parent(cluster, queue)
        for name in _in_cycles(cluster):
            cluster.queues[name].misplaced = "it is above itself"
        for queue in cluster.queues.values():
            if queue.misplaced:
                queue.parent = None
        for queue in cluster.queues.values():
            if queue.parent is not None:
                queue.parent.children[queue.name] = None
            _count(queue)
    cluster.commons.guaranteed = _guarantees(cluster)


def siblings_of(queue: Queue) -> str:
    """The name under which the guarantees of a queue and its siblings are summed."""
    return "" if queue.parent is None else queue.parent.name


def _find_parent(cluster: Grove, queue: Queue) -> None:
    stated = queue.facts.parent if queue.facts is not None else ""
    if queue.name == ROOT:
        return
    parent = cluster.queues.get(stated or ROOT)
    if parent is not None and parent.facts is not None:
        queue.parent = parent
    elif stated not in ("", ROOT):
        queue.misplaced = f"its parent <{stated}> does not exist"


def _in_cycles(cluster: Grove) -> list[str]:
    """Queues from which the way up does not end."""
    found: list[str] = []
    for name, queue in cluster.queues.items():
        above, steps = queue.parent, 0
        while above is not None and steps <= len(cluster.queues):
            above, steps = above.parent, steps + 1
        if above is not None:
            found.append(name)
    return found


def _count(queue: Queue) -> None:
    above = queue.parent
    while above is not None:
        for ledger in LEDGERS:
            add(above.below.setdefault(ledger, {}), tuple(getattr(queue, ledger).items()), 1)
        above = above.parent


def _guarantees(cluster: Grove) -> dict[str, dict[str, int]]:
    total: dict[str, dict[str, int]] = {}
    for queue in cluster.queues.values():
        is_root = cluster.policy.has_queue_tree and queue.name == ROOT
        if queue.facts is not None and not is_root:
            add(total.setdefault(siblings_of(queue), {}), tuple(queue.facts.guarantee.items()), 1)
    return total
