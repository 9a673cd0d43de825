"""Apply Queue objects to the cluster, with the effects on all queues."""

from msgspec import structs

from projections.cluster import Cluster
from projections.deltas import QueueChanged
from projections.queues import Faults, Queue, QueueFacts


def put_queue(
    cluster: Cluster, facts: QueueFacts | None, name: str, digest: str, problem: str = ""
) -> None:
    """Add, update or (None) remove the object of a queue."""
    queue = cluster.ensure_queue(name)
    facts = None if facts is None else with_problem(facts, problem)
    cluster.queue_objects += (facts is not None) - (queue.facts is not None)
    before, is_same_spec = queue.facts, queue.has_same_spec(facts)
    queue.set_object(facts, digest)
    queue.rejects_status_updates = False
    cluster.indexes.dispatch(cluster, QueueChanged(queue, before, is_same_spec))
    if is_same_spec:
        return
    cluster.plugins.quota.queue_changed(cluster, queue)
    queue.reported_errors = tuple(one for one in queue.reported_errors if one in queue.faults)
    update_reported_errors(cluster, queue)
    for one in cluster.queues.values():
        cluster.mark_quota_released(one.name)
        cluster.changed_rows.queues[one.name] = None
    cluster.pod_groups.mark_all(queue.groups, cluster.position)
    cluster.forget_queue(queue)


def with_problem(facts: QueueFacts, problem: str) -> QueueFacts:
    """Return the facts of a queue with why its object cannot be read, if it cannot."""
    if not problem:
        return facts
    return structs.replace(facts, faults=(*facts.faults, ("InvalidQueue", problem)))


def update_reported_errors(cluster: Cluster, queue: Queue, newly_reported: Faults = ()) -> None:
    """Update which errors of a queue are in the log; `newly_reported` were recorded just now."""
    queue.reported_errors = (*queue.reported_errors, *newly_reported)
    cluster.queues_with_unreported_errors.pop(queue.name, None)
    if queue.unreported_errors:
        cluster.queues_with_unreported_errors[queue.name] = None
