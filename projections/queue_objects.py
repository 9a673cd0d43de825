"""Queue objects into the cluster: what they bring, and what follows for all queues."""

from msgspec import structs

from projections.cluster import Cluster
from projections.queue_tree import lift, plant
from projections.queues import Faults, Queue, QueueFacts


def put_queue(
    cluster: Cluster, facts: QueueFacts | None, name: str, digest: str, problem: str = ""
) -> None:
    """A queue came, changed, or (None) lost its object."""
    queue = cluster.queue(name)
    if facts is not None and problem:
        facts = structs.replace(facts, faults=(*facts.faults, ("InvalidQueue", problem)))
    cluster.queue_objects += (facts is not None) - (queue.facts is not None)
    is_told = queue.is_as(facts)
    lifted = [] if is_told else lift(cluster, queue)
    queue.facts, queue.digest, queue.is_mute = facts, digest, False
    cluster.telling.queues[name] = None
    if is_told:
        return  # Nothing but what it is told by the scheduler.
    plant(cluster, lifted)
    queue.faults_told = tuple(one for one in queue.faults_told if one in queue.faults)
    tell_faults(cluster, queue)
    for one in cluster.queues.values():
        cluster.mark_quota_released(one.name)
        cluster.changed_rows.queues[one.name] = None
    for key in list(queue.groups):
        cluster.settle(cluster.groups[key])
    cluster.forget_queue(queue)


def tell_faults(cluster: Cluster, queue: Queue, told: Faults = ()) -> None:
    """Keep track of faults that the log does not name yet, `told` being named just now."""
    queue.faults_told = (*queue.faults_told, *told)
    cluster.untold.pop(queue.name, None)
    if queue.untold:
        cluster.untold[queue.name] = None
