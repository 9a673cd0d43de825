"""Apply what ends at a point in time: back-offs after failed bindings and evictions, quarantines, waiting times.

A deadline makes a cycle due, and is applied at the start of that cycle.
"""

from itertools import islice
from typing import TYPE_CHECKING

from events.watch import BindRejectedByNode
from projections import restart_times, suspensions
from projections.cluster import Cluster
from projections.quarantine import rejected
from projections.reservation_timeouts import expire_reservations

if TYPE_CHECKING:
    from projections.state import State


def next_deadline(state: "State") -> int | None:
    """Return the next deadline; None if there is none."""
    cluster = state.cluster
    ends = [*cluster.bind_backoff.values(), *cluster.eviction_backoff.values()]
    ends += cluster.cluster_totals.deadlines.values()
    ends += cluster.internal_errors.ends()
    ends += state.assignments.ends()
    ends += cluster.unready_nodes.deadlines(cluster)
    ends += cluster.reschedulings.deadlines.values()
    ends += cluster.reschedulings.settling.values()
    ends += cluster.pool_facts.deadlines(cluster)
    # They were added in the order of time: the first ends first.
    ends += islice(cluster.cluster_totals.reservation_timeouts.values(), 1)
    for of_node in state.quarantined.values():
        ends += [one.until_ns for one in of_node.values()]
    return min(ends, default=None)


def expire_timeouts(state: "State", at_ns: int) -> None:
    """Apply all deadlines up to `at_ns`."""
    cluster = state.cluster
    for key in [key for key, until in cluster.bind_backoff.items() if until <= at_ns]:
        cluster.end_bind_backoff(key)
    suspensions.expire_timeouts(cluster, at_ns)
    for plugin in cluster.plugins.group_state:
        plugin.expire(cluster, at_ns)
    expire_reservations(cluster, at_ns)
    for uid in [uid for uid, until in cluster.eviction_backoff.items() if until <= at_ns]:
        _end_eviction_backoff(cluster, uid)
    state.assignments.expire(at_ns)
    restart_times.open_cycle(state, at_ns)
    for name in list(state.quarantined):
        for resource, quarantine in list(state.quarantined[name].items()):
            if quarantine.until_ns <= at_ns:
                _end_quarantine(state, name, resource)


def quarantine_resources(state: "State", event: BindRejectedByNode) -> None:
    """Put resources that a kubelet rejected in quarantine (K5.12)."""
    cluster = state.cluster
    node = cluster.nodes.nodes.get(event.node)
    if node is None or node.facts is None:
        return
    for resource in event.resources:
        quarantine = rejected(node.quarantine.get(resource), state.now_ns)
        cluster.nodes.set_quarantine(node, resource, quarantine)
    state.quarantined[node.name] = node.quarantine
    cluster.changed_rows.nodes[node.name] = None


def _end_quarantine(state: "State", name: str, resource: str) -> None:
    cluster = state.cluster
    node = cluster.nodes.nodes.get(name)
    kept = state.quarantined[name]
    kept.pop(resource, None)
    if not kept:
        del state.quarantined[name]
    if node is not None and node.facts is not None:
        cluster.nodes.set_quarantine(node, resource, None)
        cluster.mark_node_freed(name)
        cluster.changed_rows.nodes[name] = None


def _end_eviction_backoff(cluster: Cluster, uid: str) -> None:
    """Let a pod be evicted again, and wake preemptors that wait for its node."""
    del cluster.eviction_backoff[uid]
    pod = cluster.pods.get(uid)
    if pod is not None and pod.node:
        cluster.mark_node_freed(pod.node)
