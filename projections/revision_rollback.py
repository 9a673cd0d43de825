"""What is no longer relied upon when the API server's data was set back.

An answer that was recorded holds no more: what it was about may never have happened on the server as it is now. A
list of everything follows, and decides. Bindings without an outcome stay: each is asked for again, and is answered
by what the server holds. Nothing is decided or asked before the list is there.
"""

from typing import Protocol

from projections.apply_outcome import Commitment, without_node
from projections.cluster import Cluster


class RollbackState(Protocol):
    """The part of State that is changed here."""

    cluster: Cluster
    commitments: dict[str, Commitment]
    evictions: dict[str, Commitment]


def discard_unconfirmed(state: RollbackState, resource: str) -> None:
    """Rely no longer on what was done to objects of a kind, as far as no observation shows it."""
    match resource:
        case "Pod":
            _discard_unconfirmed_pods(state)
        case "PodGroup":
            for group in state.cluster.groups.values():
                group.reported_status.reported_at = group.reported_status.conditions_reported_at = 0
                state.cluster.pending_status.update(group)
        case "Queue":
            for name, queue in state.cluster.queues.items():
                queue.rejects_status_updates = False
                state.cluster.pending_status.queues[name] = None
        case _:
            pass


def _discard_unconfirmed_pods(state: RollbackState) -> None:
    """Pods said to be bound that were not seen there wait again; nobody is on the way out by our doing."""
    cluster = state.cluster
    state.evictions.clear()
    for uid, old in list(cluster.pods.items()):
        is_bound_unseen = bool(old.assumed) and not old.facts.node and uid not in state.commitments
        if not (is_bound_unseen or old.evicted or old.reported_at):
            continue
        pod = without_node(old) if is_bound_unseen else old.copy()
        pod.evicted = pod.reported_at = 0
        cluster.replace_pod(old, pod)
        if old.evicted and pod.node:
            cluster.mark_node_freed(pod.node)
