"""Compute how much of a resource a queue can use beside the guarantees of others (Volcano's `capacity`).

    real capability = min(capability, max(room - guarantees of all, 0) + own guarantee)

The room is the allocatable resources of the cluster; in a tree of queues, the real capability of the parent. A
capability of cpu or memory that is not set is that of the parent, else unlimited; other resources are then
unlimited.
"""

from typing import Final

from projections.cluster import Cluster
from projections.queue_tree import ROOT, siblings_of
from projections.queues import Queue

_PLAIN = ("cpu", "memory")


ENDLESS: Final = 1 << 62
"""The allocatable amount of a cluster to which any number of nodes may be added."""


def real_capability(
    cluster: Cluster, queue: Queue, name: str, *, total: int | None = None
) -> int | None:
    """Return how much of a resource a queue can use beside the guarantees of others; None without a limit. `total` is the
    allocatable amount, if it is not that of the cluster as it is."""
    if total is None:
        total = cluster.resources.allocatable.get(name, 0)
    if cluster.plugins.quota.keeps_tree:
        return _within(cluster, queue, name, total)
    assert queue.facts is not None
    stated = queue.facts.capability.get(name, 0)
    if stated <= 0 and name not in _PLAIN:
        return None if name not in queue.facts.capability else 0
    room = _beside_guarantees(cluster, queue, name, total)
    return room if stated <= 0 else min(stated, room)


def _within(cluster: Cluster, queue: Queue, name: str, total: int) -> int | None:
    """Return the real capability in a tree. The root is limited by the cluster only where guarantees exist."""
    stated = _stated(queue, name)
    if queue.name == ROOT:
        return stated
    above = None if queue.parent is None else _within(cluster, queue.parent, name, total)
    guaranteed = cluster.queue_tree.guaranteed.get(siblings_of(queue), {}).get(name, 0)
    if above is None and guaranteed:
        above = total
    if above is None:
        return stated
    room = _beside_guarantees(cluster, queue, name, above)
    return room if stated is None else min(stated, room)


def _stated(queue: Queue, name: str) -> int | None:
    """Return the capability that the queue itself states."""
    if queue.facts is None or name not in queue.facts.capability:
        return None
    stated = queue.facts.capability[name]
    return None if name in _PLAIN and stated <= 0 else stated


def _beside_guarantees(cluster: Cluster, queue: Queue, name: str, room: int) -> int:
    guaranteed = cluster.queue_tree.guaranteed.get(siblings_of(queue), {}).get(name, 0)
    own = queue.facts.guarantee.get(name, 0) if queue.facts is not None else 0
    return max(room - guaranteed, 0) + own
