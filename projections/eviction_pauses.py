"""Tenants that have used up their share of the evictions of a minute, and evict no more pods for a while.

The daemon counts evictions (`daemon/cluster/acting/evicting.py`) and refuses those beyond the share of a tenant and its queue.
The pods stay, and other tenants may have them evicted at once; for the pod groups of this tenant in this queue no more
pods are evicted for PAUSE_NS.
"""

from typing import TYPE_CHECKING, Final

from projections.pool_members import is_decided_by_actions

if TYPE_CHECKING:
    from projections.cluster import Cluster

EVICTION_SHARE: Final = "EvictionShare"
"""Code of an eviction that was refused because of the share."""

PAUSE_NS: Final = 15_000_000_000
"""A quarter of the minute in which evictions are counted: by then some of those that count are older."""


def start(cluster: "Cluster", key: str) -> bool:
    """Begin the pause of the tenant and the queue of a pod group. Return False if it has none: the group is gone, or in a
    pool that is not decided by actions."""
    group = cluster.groups.get(key)
    if group is None or not is_decided_by_actions(cluster, key):
        return False
    tenant = cluster.tenants.tenant_of(key.partition("/")[0])
    queues = cluster.eviction_pauses.setdefault(tenant, {})
    if group.queue not in queues:
        queues[group.queue] = cluster.now_ns + PAUSE_NS
        _mark_groups(cluster, tenant, group.queue)
    return True


def until_ns(cluster: "Cluster", key: str, queue: str) -> int | None:
    """Return the time before which no pods are evicted for a pod group; None if they may be."""
    if not cluster.eviction_pauses:
        return None
    tenant = cluster.tenants.tenant_of(key.partition("/")[0])
    return cluster.eviction_pauses.get(tenant, {}).get(queue)


def ends(cluster: "Cluster") -> list[int]:
    """Return when pauses end."""
    return [until_ns for queues in cluster.eviction_pauses.values() for until_ns in queues.values()]


def expire(cluster: "Cluster", at_ns: int) -> None:
    """End the pauses whose time is over, and let the pod groups be looked at again."""
    for tenant, queues in list(cluster.eviction_pauses.items()):
        over = [name for name, until_ns in queues.items() if until_ns <= at_ns]
        for name in over:
            del queues[name]
        if not queues:
            del cluster.eviction_pauses[tenant]
        for name in over:
            for key in _mark_groups(cluster, tenant, name):
                cluster.wakeup_events.groups[key] = None


def _mark_groups(cluster: "Cluster", tenant: str, name: str) -> list[str]:
    """Let the actions be determined again for which the pod groups of a tenant in a queue wait; return their keys."""
    queue = cluster.queues.get(name)
    found: list[str] = []
    for key in () if queue is None else list(queue.groups):
        if cluster.tenants.tenant_of(key.partition("/")[0]) == tenant:
            cluster.pod_groups.mark(key, cluster.position)
            found.append(key)
    return found
