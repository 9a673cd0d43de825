"""Discard what is not confirmed after the API server was restored from an older state.

Recorded outcomes are no longer valid: on the restored server they may never have happened. A full list follows and
decides. Bindings without an outcome are kept: each is requested again, and the server's answer decides. Nothing is
decided or requested before the list is complete.
"""

from msgspec import structs

from projections.apply_outcome import cancel_placement
from projections.state_facts import StateFacts


def discard_unconfirmed(state: StateFacts, resource: str) -> None:
    """Discard outcomes about objects of a kind that no observation confirms."""
    match resource:
        case "Pod":
            _discard_unconfirmed_pods(state)
        case "PodGroup":
            for key in state.cluster.groups:
                group = state.cluster.pod_groups.own(state.cluster, key)
                reported = group.decided.reported_status
                reported = structs.replace(reported, reported_at=0, conditions_reported_at=0)
                group.decided = structs.replace(group.decided, reported_status=reported)
                state.cluster.pending_status.update(group)
        case "Queue":
            for name, queue in state.cluster.queues.items():
                queue.rejects_status_updates = False
                state.cluster.pending_status.record_queue(name, state.cluster.position)
        case _:
            pass


def _discard_unconfirmed_pods(state: StateFacts) -> None:
    """Let pods wait again that were bound but never observed on their node, and cancel all evictions. Annotations of
    pods that are to be bound are written again."""
    cluster = state.cluster
    state.evictions.clear()
    for uid, one in state.commitments.items():
        state.commitments[uid] = structs.replace(one, is_annotated=False)
    for uid, old in list(cluster.pods.items()):
        is_bound_unseen = bool(old.assumed) and not old.facts.node and uid not in state.commitments
        if not (is_bound_unseen or old.evicted or old.decided.reported_at):
            continue
        if is_bound_unseen:
            state.assignments.remove(old.node, uid)
            cancel_placement(cluster, old)
        current = cluster.pods[uid]
        pod = current.decided_as(evicted=0, reported_at=0)
        cluster.replace_pod(current, pod)
        if old.evicted and pod.node:
            cluster.mark_node_freed(pod.node)
