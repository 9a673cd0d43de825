"""Nodes that are not ready, and for how long: after a stated time a node counts in no share.

What queues deserve, their real capability, the shares of `drf` and the limit of `overcommit` are computed from the
nodes that count (`ClusterResources`). A node that is not ready still counts for `notReadyTimeout` of the policy, so that
a switch that fails for some seconds does not change what queues deserve, and so no healthy pod is evicted. A node that is
ready again counts at once. Which nodes get pods does not depend on this: taints decide that.

The time begins with the first cycle after the node was observed to be no longer ready. For a node that was never
observed to be ready it begins when the condition of its object changed, or has always passed if the object does not state that.
"""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.nodes import NodeFacts

LONG_AGO_NS: Final = -(1 << 60)
"""Time since when a node is unready that was never observed to be ready, and does not state the time."""


class UnreadyNodes:
    """The present nodes that are not ready. Only State changes it."""

    def __init__(self) -> None:
        self.since_ns: dict[str, int | None] = {}
        """Node to the time since when it is not ready; None until the next cycle gives the time."""
        self.uncounted: dict[str, None] = {}
        """Nodes that have been unready for longer than the stated time."""

    def counts(self, node: str) -> bool:
        """Return whether a node counts in the resources of the cluster: it is ready, or was until shortly before."""
        return node not in self.uncounted

    def end_ns(self, cluster: "Cluster", node: str) -> int | None:
        """Return the time at which an unready node that counts will count no longer; None for any other node."""
        since = self.since_ns.get(node)
        if since is None or node in self.uncounted:
            return None
        return since + cluster.policy.action_arguments.not_ready_ns

    def deadlines(self, cluster: "Cluster") -> list[int]:
        """Return the times at which a cycle is due because a node counts no longer, or its time has to begin."""
        limit = cluster.policy.action_arguments.not_ready_ns
        return [
            0 if since is None else since + limit
            for name, since in self.since_ns.items()
            if name not in self.uncounted
        ]


def update_unready(
    cluster: "Cluster", before: "NodeFacts | None", after: "NodeFacts | None"
) -> None:
    """Record whether a node is ready after its object was added, changed or deleted; before the indexes are updated."""
    facts = after or before
    assert facts is not None
    name, kept = facts.name, cluster.unready_nodes
    if after is None or after.not_ready_since_ns is None:
        if name in kept.since_ns:
            del kept.since_ns[name]
            _set_counted(cluster, name, before, counts=True)
    elif name not in kept.since_ns:
        is_new = before is None or before.uid != after.uid
        kept.since_ns[name] = (after.not_ready_since_ns or LONG_AGO_NS) if is_new else None


def open_cycle(cluster: "Cluster", at_ns: int) -> None:
    """Leave out the nodes that have been unready for long enough at the time of a cycle."""
    kept = cluster.unready_nodes
    if not kept.since_ns:
        return
    limit = cluster.policy.action_arguments.not_ready_ns
    has_changed = False
    for name, known in kept.since_ns.items():
        # The clock of whatever wrote the condition may be ahead.
        since = at_ns if known is None else min(known, at_ns)
        kept.since_ns[name] = since
        counts = at_ns < since + limit
        if counts != kept.counts(name):
            _set_counted(cluster, name, cluster.nodes.nodes[name].facts, counts=counts)
            cluster.changed_rows.nodes[name] = None
            has_changed = True
    if has_changed:
        cluster.plugins.quota.nodes_changed(cluster)
        cluster.wake_preemptors()


def _set_counted(cluster: "Cluster", name: str, facts: "NodeFacts | None", *, counts: bool) -> None:
    kept = cluster.unready_nodes
    if kept.counts(name) == counts:
        return
    if counts:
        del kept.uncounted[name]
    else:
        kept.uncounted[name] = None
    assert facts is not None
    for one in cluster.features.wakeup_followers:
        one.node_counted(cluster, facts)
    cluster.resources.add_node(cluster, facts, 1 if counts else -1)
