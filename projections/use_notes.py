"""What people should know about who may use queues and pools: which are open to all namespaces, and which names in rules name
nothing. None of it changes a decision."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from projections.namespace_access import queue_rules

if TYPE_CHECKING:
    from projections.cluster import Cluster

SHOWN_MAX: Final = 8
"""Names that a text lists at most."""


def open_text(cluster: "Cluster") -> str:
    """Return which queues and pools all namespaces may use; "" if there is none."""
    queues = [
        name
        for name, queue in cluster.queues.items()
        if queue.facts is not None and _is_open(cluster, name)
    ]
    if not cluster.queue_objects and _is_open(cluster, "default"):
        queues = ["default"]
    pools = cluster.policy.pools
    open_pools = (
        [] if pools.is_plain else [one.name for one in pools.all if one.use.namespaces.is_open]
    )
    parts = [
        f"{what}{'s' * (len(names) > 1)} {_listed(sorted(names))}"
        for what, names in (("queue", queues), ("pool", open_pools))
        if names
    ]
    return f"open to all namespaces: {'; '.join(parts)}" if parts else ""


def unknown_text(cluster: "Cluster") -> str:
    """Return which queues and namespaces rules name that do not exist; "" if there is none."""
    policy = cluster.policy
    queues = [
        name
        for name in policy.queues
        if (queue := cluster.queues.get(name)) is None or queue.facts is None
    ]
    rules = [one.namespaces for one in policy.queues.values()]
    rules += [one.use.namespaces for one in policy.pools.all]
    rules += [one.facts.namespaces for one in cluster.queues.values() if one.facts is not None]
    known = cluster.inter_pod_affinity.namespaces
    namespaces = {name: None for rule in rules for name in rule.names or () if name not in known}
    if not cluster.queue_objects:
        queues = [name for name in queues if name != "default"]
    parts = [
        f"{what}{'s' * (len(names) > 1)} {_listed(sorted(names))}"
        for what, names in (("queue", queues), ("namespace", list(namespaces)))
        if names
    ]
    return f"rules name what does not exist: {'; '.join(parts)}" if parts else ""


def _is_open(cluster: "Cluster", name: str) -> bool:
    return all(one.is_open for one in queue_rules(cluster, name).values())


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    rest = len(found) - SHOWN_MAX
    return ", ".join(found[:SHOWN_MAX]) + (f" and {rest} more" if rest > 0 else "")
