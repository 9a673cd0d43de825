"""Apply what ends at a point in time: back-offs after failed bindings and evictions, quarantines, waiting times, waits for
pods.

A deadline makes a cycle due, and is applied at the start of that cycle.
"""

from itertools import islice

from projections import eviction_pauses, quarantine, restart_times, suspensions, victim_waits
from projections.budget_refusals import FORGOTTEN_NS, forget_refusals, wake_covered
from projections.cluster import Cluster
from projections.reservation_timeouts import expire_reservations
from projections.state_facts import StateFacts


def next_deadline(state: StateFacts) -> int | None:
    """Return the next deadline; None if there is none."""
    cluster = state.cluster
    ends = [*cluster.bind_backoffs.until.values(), *cluster.eviction_backoff.values()]
    for plugin in cluster.plugins.group_state:
        ends += plugin.deadlines(cluster)
    ends += cluster.internal_errors.ends()
    ends += state.assignments.ends()
    ends += cluster.unready_nodes.deadlines(cluster)
    ends += [one.until_ns for one in cluster.victim_waits.values() if one.until_ns is not None]
    if cluster.eviction_pauses:
        ends += eviction_pauses.ends(cluster)
    ends += [one.last_ns + FORGOTTEN_NS for one in cluster.budget_refusals.values()]
    ends += cluster.pod_waits.ends
    for table in cluster.tables.with_deadlines:
        ends += table.deadlines(cluster)
    # They were added in the order of time: the first ends first.
    ends += islice(cluster.cluster_totals.reservation_timeouts.values(), 1)
    if (quarantined := cluster.quarantines.next_ns) is not None:
        ends.append(quarantined)
    return min(ends, default=None)


def expire_timeouts(state: StateFacts, at_ns: int) -> None:
    """Apply all deadlines up to `at_ns`."""
    cluster = state.cluster
    cluster.pod_groups.mark_all(cluster.bind_backoffs.end(at_ns), cluster.position)
    suspensions.expire_timeouts(cluster, at_ns)
    for plugin in cluster.plugins.group_state:
        plugin.expire(cluster, at_ns)
    expire_reservations(cluster, at_ns)
    cluster.pod_waits.expire(cluster, at_ns)
    ended = [uid for uid, until in cluster.eviction_backoff.items() if until <= at_ns]
    for uid in ended:
        _end_eviction_backoff(cluster, uid)
    if cluster.budget_refusals:
        wake_covered(cluster, ended)
    if cluster.eviction_pauses:
        eviction_pauses.expire(cluster, at_ns)
    state.assignments.expire(at_ns)
    restart_times.open_cycle(state, at_ns)
    quarantine.open_cycle(cluster, at_ns)
    victim_waits.expire(cluster, at_ns)
    if cluster.budget_refusals:
        forget_refusals(cluster, at_ns)


def _end_eviction_backoff(cluster: Cluster, uid: str) -> None:
    """Let a pod be evicted again, and wake preemptors that wait for its node."""
    del cluster.eviction_backoff[uid]
    pod = cluster.pods.get(uid)
    if pod is not None and pod.node:
        cluster.mark_node_freed(pod.node)
