"""Whose turn it is: the order of queues.

Priority first, then the smaller share. The share is the largest of allocated / deserved over what the
queue deserves; shares are compared by cross-multiplied integers, so that equal is equal. In a tree, queues
are compared where their ways up from each other part: as the queues there.
"""

from projections.cluster import Cluster
from projections.entitlement import deserved_of
from projections.queues import Queue

Share = tuple[int, int]
"""Numerator and denominator."""


def share_of(cluster: Cluster, queue: Queue) -> Share:
    """How much of what it deserves a queue has, in the dimension where that is most."""
    deserved = deserved_of(cluster, queue)
    if not deserved and cluster.policy.quota == "capacity":
        return (1, 1)
    best: Share = (0, 1)
    for name, entitled in deserved.items():
        allocated = queue.sum_of("allocated", name)
        if not entitled:
            # Of what it does not deserve it has all as soon as it has any.
            allocated, entitled = int(allocated > 0), 1
        if allocated * best[1] > best[0] * entitled:
            best = (allocated, entitled)
    return best


class _Step:
    """A queue among those with the same queue above; smaller is sooner."""

    __slots__ = ("_rest", "_share", "name")

    def __init__(self, cluster: Cluster, queue: Queue) -> None:
        facts, ordered = queue.facts, cluster.policy.orders_queues
        self.name = queue.name
        self._share = share_of(cluster, queue) if ordered else (0, 1)
        entitled = bool(facts and facts.deserved) and cluster.policy.quota == "capacity"
        created = facts.created_ns if facts else 0
        self._rest = (not entitled, created, facts.uid if facts else "", queue.name)

    def __lt__(self, other: "_Step") -> bool:
        mine, theirs = self._share[0] * other._share[1], other._share[0] * self._share[1]
        return mine < theirs if mine != theirs else self._rest < other._rest


class Turn:
    """A queue's place among queues; smaller is sooner."""

    __slots__ = ("_priority", "_steps", "queue")

    def __init__(self, cluster: Cluster, queue: Queue) -> None:
        facts = queue.facts
        self.queue = queue
        self._priority = -facts.priority if facts and cluster.policy.orders_queues else 0
        self._steps = [_Step(cluster, one) for one in reversed(queue.lineage)]

    def __lt__(self, other: "Turn") -> bool:
        if self._priority != other._priority:
            return self._priority < other._priority
        for mine, theirs in zip(self._steps, other._steps, strict=False):
            if mine.name != theirs.name:
                return mine < theirs
        return len(self._steps) < len(other._steps)
