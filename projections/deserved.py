"""What a queue may use, and what it deserves.

    real capability = min(capability, max(room - guarantees of all, 0) + own guarantee)
    deserved        = max(min(deserved, real capability), guarantee)

The room is what the cluster can give; in a tree of queues it is the real capability of the queue above. A
capability of cpu or memory that is not set is that of the queue above, else no limit of its own; for
anything else there is then none at all. (Volcano's `capacity`.)
"""

from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.queue_tree import ROOT, siblings_of
from projections.queues import Queue

_PLAIN = ("cpu", "memory")


def real_capability(cluster: Cluster, queue: Queue, name: str) -> int | None:
    """How much of a resource a queue could use beside what others are guaranteed; None for no limit."""
    if cluster.policy.has_queue_tree:
        return _within(cluster, queue, name)
    assert queue.facts is not None
    stated = queue.facts.capability.get(name, 0)
    if stated <= 0 and name not in _PLAIN:
        return None if name not in queue.facts.capability else 0
    room = _beside_guarantees(cluster, queue, name, cluster.totals.get(name, 0))
    return room if stated <= 0 else min(stated, room)


def _within(cluster: Cluster, queue: Queue, name: str) -> int | None:
    """The same in a tree. Nothing but guarantees binds the root to what the cluster can give."""
    stated = _stated(queue, name)
    if queue.name == ROOT:
        return stated
    above = None if queue.parent is None else _within(cluster, queue.parent, name)
    guaranteed = cluster.cluster_totals.guaranteed.get(siblings_of(queue), {}).get(name, 0)
    if above is None and guaranteed:
        above = cluster.totals.get(name, 0)
    if above is None:
        return stated
    room = _beside_guarantees(cluster, queue, name, above)
    return room if stated is None else min(stated, room)


def _stated(queue: Queue, name: str) -> int | None:
    """The capability that the queue names itself."""
    if queue.facts is None or name not in queue.facts.capability:
        return None
    stated = queue.facts.capability[name]
    return None if name in _PLAIN and stated <= 0 else stated


def _beside_guarantees(cluster: Cluster, queue: Queue, name: str, room: int) -> int:
    guaranteed = cluster.cluster_totals.guaranteed.get(siblings_of(queue), {}).get(name, 0)
    own = queue.facts.guarantee.get(name, 0) if queue.facts is not None else 0
    return max(room - guaranteed, 0) + own


def deserved_of(cluster: Cluster, queue: Queue) -> Amounts:
    """What a queue deserves, by charge name; what is not named there it does not deserve."""
    facts = queue.facts
    if cluster.policy.quota == "proportion":
        return cluster.cluster_totals.deserved.get(queue.name, {})
    if facts is None:
        return {}
    if cluster.policy.quota == "capacity-card":
        return queue.deserved
    deserved: Amounts = {}
    for name in (*facts.deserved, *facts.guarantee):
        most = real_capability(cluster, queue, name)
        entitled_to = facts.deserved.get(name, 0)
        entitled_to = entitled_to if most is None else min(entitled_to, most)
        deserved[name] = max(entitled_to, facts.guarantee.get(name, 0))
    return deserved
