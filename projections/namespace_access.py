"""Find the pod groups whose namespace may not use their queue or pool (`projections/policy/namespace_rule.py`).

Such a group is refused with a code of its own. It is in no request and no share of its queue, and it reserves nothing. Its pods
that were placed while it was permitted stay, and are charged. A pod that is first seen on a node while its group is not
permitted is charged to no queue, since its namespace could otherwise use up the quota of a queue by pods that name their
node themselves; for the same reason a group with placed pods that names another queue stays in its queue if it may not use
the other one.
"""

from typing import TYPE_CHECKING, ClassVar, Final

from projections.deltas import PolicyChanged, QueueChanged
from projections.index import Index
from projections.pod_groups import PodGroup
from projections.policy.namespace_rule import ALL_NAMESPACES, NamespaceRule
from projections.pool_members import pool_of
from projections.queues import DEFAULT, Queue

if TYPE_CHECKING:
    from projections.cluster import Cluster

QUEUE_NOT_PERMITTED: Final = "QueueNotPermitted"
POOL_NOT_PERMITTED: Final = "PoolNotPermitted"
"""Codes of refusals."""


class NamespaceAccess(Index):
    """Whether anything restricts namespaces. Without any restriction no group is looked at."""

    name = "namespace access"
    COMPARED: ClassVar[tuple[str, ...]] = ("queues", "is_in_policy")

    def __init__(self) -> None:
        self.queues: dict[str, None] = {}
        """Queues whose objects restrict namespaces."""
        self.is_in_policy = False
        """Whether the policy restricts the namespaces of a queue or a pool."""

    @property
    def is_restricted(self) -> bool:
        """Return whether a queue or a pool is not open to all namespaces."""
        return self.is_in_policy or bool(self.queues)

    def rebuilt(self, cluster: "Cluster", /) -> "NamespaceAccess":
        """Find again what restricts namespaces."""
        twin = NamespaceAccess()
        twin.is_in_policy = _policy_restricts(cluster)
        twin.queues = {one.name: None for one in cluster.queues.values() if _states_rule(one)}
        return twin

    def rebuild(self, cluster: "Cluster") -> None:
        """Find again what restricts namespaces, and the groups that may not use their queue or pool."""
        super().rebuild(cluster)
        for group in cluster.groups.values():
            group.denied = denial_of(cluster, group) if self.is_restricted else None

    def on_queue(self, cluster: "Cluster", delta: QueueChanged) -> None:
        """Look again at the groups that a changed rule of a queue concerns; its own groups are updated with the queue."""
        queue = delta.queue
        if delta.is_gone or not _states_rule(queue):
            self.queues.pop(queue.name, None)
        else:
            self.queues[queue.name] = None
        before = ALL_NAMESPACES if delta.old is None else delta.old.namespaces
        if before != _rule_of(queue):
            for key, group in cluster.groups.items():
                if group.denied is not None or stated_queue(group) == queue.name:
                    cluster.pod_groups.mark(key, cluster.position)

    def on_policy(self, cluster: "Cluster", delta: PolicyChanged) -> None:
        """Find out whether the policy restricts namespaces. All groups are updated with the policy."""
        self.is_in_policy = _policy_restricts(cluster)


def denial_of(cluster: "Cluster", group: PodGroup) -> tuple[str, str] | None:
    """Return code and message of why the namespace of a group may not use its queue or pool; None if it may use both."""
    if group.is_foreign or not group.queue:
        return None
    namespace = group.key.partition("/")[0]
    name = stated_queue(group)
    if rules := _not_permitting(cluster, queue_rules(cluster, name), namespace):
        return QUEUE_NOT_PERMITTED, f"namespace {namespace} may not use queue {name}: {rules}"
    if not cluster.policy.restricts_pools:
        return None
    members = cluster.features.pool_members
    if members is not None and members.is_put_by_operator(cluster, group):
        return None
    pool = pool_of(cluster, group)
    if pool is None:
        return None
    rules = _not_permitting(cluster, {"the policy": pool.use.namespaces}, namespace)
    if not rules:
        return None
    return POOL_NOT_PERMITTED, f"namespace {namespace} may not use pool {pool.name}: {rules}"


def queue_rules(cluster: "Cluster", name: str) -> dict[str, NamespaceRule]:
    """Return the rules of a queue by what states them."""
    return {
        "the policy": cluster.policy.of_queue(name).namespaces,
        "the Queue": _rule_of(cluster.queues.get(name)),
    }


def stated_queue(group: PodGroup) -> str:
    """Return the queue that a group names."""
    return group.queue if group.observed.facts is None else group.observed.facts.queue or DEFAULT


def queue_to_enter(cluster: "Cluster", group: PodGroup, name: str) -> str:
    """Return the queue in which a group is that names a queue: its present one, if it has placed pods and may not use the
    named one."""
    if not group.queue or name == group.queue or not group.counts.allocated:
        return name
    if not cluster.namespace_access.is_restricted:
        return name
    namespace = group.key.partition("/")[0]
    is_denied = _not_permitting(cluster, queue_rules(cluster, name), namespace)
    return group.queue if is_denied else name


def update_namespace(cluster: "Cluster", namespace: str) -> None:
    """Look again at the groups of a namespace after its labels changed."""
    if not cluster.namespace_access.is_restricted:
        return
    for key in cluster.groups:
        if key.partition("/")[0] == namespace:
            cluster.pod_groups.mark(key, cluster.position)


def _not_permitting(cluster: "Cluster", rules: dict[str, NamespaceRule], namespace: str) -> str:
    """Return which rules do not permit a namespace, and what they permit; "" if all permit it."""
    if all(one.is_open for one in rules.values()):
        return ""
    labels = cluster.inter_pod_affinity.namespaces.get(namespace)
    against = [
        f"{who} permits namespaces {one.text}"
        for who, one in rules.items()
        if not one.permits(namespace, labels)
    ]
    return "; ".join(against)


def _rule_of(queue: Queue | None) -> NamespaceRule:
    return ALL_NAMESPACES if queue is None or queue.facts is None else queue.facts.namespaces


def _states_rule(queue: Queue) -> bool:
    return not _rule_of(queue).is_open


def _policy_restricts(cluster: "Cluster") -> bool:
    policy = cluster.policy
    return policy.restricts_pools or any(
        not one.namespaces.is_open for one in policy.queues.values()
    )
