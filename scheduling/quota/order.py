"""Whose turn it is: the order of queues.

Priority first, then the smaller share. The share is the largest of allocated / deserved over what the
queue deserves; shares are compared by cross-multiplied integers, so that equal is equal.
"""

from projections.cluster import Cluster
from projections.queues import Queue, QueueFacts
from scheduling.quota.ledger import limit

Share = tuple[int, int]
"""Numerator and denominator."""


def share_of(cluster: Cluster, queue: Queue) -> Share:
    """How much of what it deserves a queue has, in the dimension where that is most."""
    facts = queue.facts
    if facts is None:
        return (1, 1) if cluster.policy.quota == "capacity" else (0, 1)
    if cluster.policy.quota == "capacity-card":
        entitled = {**facts.deserved, **facts.quota}
        return _largest(queue, {name: amount for name, amount in entitled.items() if amount})
    deserved = _deserved(cluster, queue, facts)
    return _largest(queue, deserved) if deserved else (1, 1)


def _largest(queue: Queue, deserved: dict[str, int]) -> Share:
    """The largest share; of what a queue does not deserve it has all as soon as it has any."""
    best: Share = (0, 1)
    for name, entitled in deserved.items():
        allocated = queue.allocated.get(name, 0)
        if not entitled:
            allocated, entitled = int(allocated > 0), 1
        if allocated * best[1] > best[0] * entitled:
            best = (allocated, entitled)
    return best


def _deserved(cluster: Cluster, queue: Queue, facts: QueueFacts) -> dict[str, int]:
    """Within what the queue may use, and never less than its guarantee."""
    deserved: dict[str, int] = {}
    for name in (*facts.deserved, *facts.guarantee):
        most = limit(cluster, queue, name)
        entitled = facts.deserved.get(name, 0)
        entitled = entitled if most is None else min(entitled, most)
        deserved[name] = max(entitled, facts.guarantee.get(name, 0))
    return deserved


class Turn:
    """A queue's place among queues; smaller is sooner."""

    __slots__ = ("_priority", "_rest", "_share", "queue")

    def __init__(self, cluster: Cluster, queue: Queue) -> None:
        facts = queue.facts
        ordered = cluster.policy.orders_queues
        self.queue = queue
        self._priority = -facts.priority if facts and ordered else 0
        self._share = share_of(cluster, queue) if ordered else (0, 1)
        entitled = bool(facts and facts.deserved) and cluster.policy.quota == "capacity"
        created = facts.created_ns if facts else 0
        self._rest = (not entitled, created, facts.uid if facts else "", queue.name)

    def __lt__(self, other: "Turn") -> bool:
        if self._priority != other._priority:
            return self._priority < other._priority
        mine, theirs = self._share[0] * other._share[1], other._share[0] * self._share[1]
        if mine != theirs:
            return mine < theirs
        return self._rest < other._rest
