"""`capacity`: each queue has a capability, a guarantee and a deserved amount of every resource, in a tree if
`enableHierarchy` is on (Volcano's `capacity`).

    limit    = real capability (`scheduling/quota/real_capability.py`), also that of each ancestor
    deserved = max(min(deserved, real capability), guarantee)

A queue reclaims as long as it stays within what it deserves of one requested resource at least. A pod is a victim
if its queue has more than it deserves of a resource that the pod uses; a pod that uses nothing of what its queue
deserves is one, too, and a pod without a common resource with the preemptor is none. In a tree,
`ancestorReclaimLevel` is the number of ancestor levels at which the same must hold (0: only the two queues).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pods import Charge, Pod
from projections.policy.plugin_config import PluginConfig
from projections.queue_tree import ROOT
from projections.queues import Queue
from scheduling.plugins.quota_plugin import ReclaimingQuota
from scheduling.quota import quota_check
from scheduling.quota.quota_rules import RemainingCharges
from scheduling.quota.real_capability import ENDLESS, RealCapability
from scheduling.shortage import Shortage, amount_text, shortage


class CapacityArguments(Struct, frozen=True):
    """Arguments of `capacity`."""

    ancestor_reclaim_level: int = msgspec.field(default=0, name="ancestorReclaimLevel")
    """Number of levels of ancestor queues that are compared for reclaiming; 0 compares only the two queues."""


class Capacity(ReclaimingQuota):
    """Quotas of resources by queue."""

    name = "capacity"
    Arguments = CapacityArguments
    compares_shares = True

    def __init__(self, config: PluginConfig) -> None:
        super().__init__(config)
        assert isinstance(config.arguments, CapacityArguments)
        self.keeps_tree = config.takes_part("enableHierarchy")
        self.protects_deserved = config.takes_part("enableReclaimable")
        self._ancestor_level = config.arguments.ancestor_reclaim_level

    def deserved(self, cluster: Cluster, queue: Queue) -> Amounts:
        """Return what a queue deserves, within its real capability, and at least its guarantee."""
        facts = queue.facts
        if facts is None:
            return {}
        deserved: Amounts = {}
        capability = RealCapability(cluster)
        for name in (*facts.deserved, *facts.guarantee):
            most = capability.of(queue, name)
            entitled_to = facts.deserved.get(name, 0)
            entitled_to = entitled_to if most is None else min(entitled_to, most)
            deserved[name] = max(entitled_to, capability.kept_guarantee(queue, name))
        return deserved

    def limit(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the real capability; None for a queue without an object."""
        return None if queue.facts is None else RealCapability(cluster).of(queue, name)

    def limit_beside_nodes(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the real capability in a cluster to which nodes may be added."""
        if queue.facts is None:
            return None
        return RealCapability(cluster).of(queue, name, total=ENDLESS)

    def nodes_changed(self, cluster: Cluster) -> None:
        """Wake all queues: their real capability depends on the resources of the cluster."""
        for queue in cluster.queues:
            cluster.mark_quota_released(queue)

    def share(self, cluster: Cluster, queue: Queue) -> tuple[int, int]:
        """Return used / deserved; 1 for a queue that deserves nothing."""
        deserved = self.deserved(cluster, queue)
        if not any(deserved.values()):
            return (1, 1)
        return quota_check.share_of(queue, deserved)

    def comes_before_equals(self, cluster: Cluster, queue: Queue) -> bool:
        """Return whether the queue deserves anything; a guarantee counts as deserved."""
        return any(self.deserved(cluster, queue).values())

    def reclaim_denied(
        self, cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
    ) -> str:
        """Return why the queue exceeds its capability, or what it deserves of all requested resources."""
        short = _over_own_capability(cluster, queue, request, extra)
        if short is not None:
            return short.message
        if self._deserves(cluster, queue, request, extra):
            return ""
        deserved = self.deserved(cluster, queue)
        asked = ", ".join(
            f"{name} total would be <{amount_text(name, quota_check.used(queue, name, extra) + amount)}>,"
            f" but deserved is <{amount_text(name, deserved.get(name, 0))}>"
            for name, amount in request
        )
        return f"Queue <{queue.name}> would exceed its deserved resources: {asked}"

    def _deserves(
        self, cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
    ) -> bool:
        for one in (queue, *self._ancestors(queue)):
            deserved = self.deserved(cluster, one)
            if any(
                name in deserved and quota_check.used(one, name, extra) + amount <= deserved[name]
                for name, amount in request
            ):
                return True
        return False

    def is_victim(self, left: RemainingCharges, pod: Pod, queue: Queue, request: Charge) -> bool:
        """Return whether the queue of a pod, and the ancestors that it does not share, exceed what they deserve."""
        cluster, theirs = left.cluster, left.queue_of(pod)
        asked = [name for name, amount in request if amount]
        names = [name for name, amount in pod.charge or () if amount]
        if not any(name in asked for name in names):
            return False
        deserved = self.deserved(cluster, theirs)
        relevant = _relevant(deserved, names)
        if relevant:
            if not left.exceeds(theirs, deserved, relevant):
                return False
        elif self._neither_deserves_any(cluster, queue, theirs, asked):
            return False
        return all(
            self._exceeds_above(left, above, names)
            for above in self._ancestors_not_shared(queue, theirs)
        )

    def _neither_deserves_any(
        self, cluster: Cluster, queue: Queue, theirs: Queue, asked: Iterable[str]
    ) -> bool:
        """Return whether both are below one ancestor and neither deserves any of it: then neither may reclaim from
        the other."""
        shared = {one.name for one in self._ancestors(queue)}
        related = any(one.name in shared for one in self._ancestors(theirs))
        return related and not _relevant(self.deserved(cluster, queue), asked)

    def _ancestors(self, queue: Queue) -> tuple[Queue, ...]:
        """Return the ancestors that count, nearest first."""
        level = self._ancestor_level
        return tuple(one for one in queue.lineage[1 : 1 + level] if one.name != ROOT)

    def _ancestors_not_shared(self, queue: Queue, theirs: Queue) -> list[Queue]:
        """Return the ancestors of the victim's queue, level by level, that are not ancestors of the preemptor's."""
        level = self._ancestor_level
        ours, others = queue.lineage[1 : 1 + level], theirs.lineage[1 : 1 + level]
        return [
            one
            for index, one in enumerate(others)
            if one.name != ROOT and (index >= len(ours) or ours[index] is not one)
        ]

    def _exceeds_above(self, left: RemainingCharges, above: Queue, names: list[str]) -> bool:
        deserved = self.deserved(left.cluster, above)
        relevant = _relevant(deserved, names)
        return not relevant or left.exceeds(above, deserved, relevant)


def _over_own_capability(
    cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
) -> Shortage | None:
    """Return a shortage if the queue itself may not use that much. Its ancestors may be full: victims may come from
    them."""
    for name, amount in request:
        most = None if queue.facts is None else RealCapability(cluster).of(queue, name)
        total = quota_check.used(queue, name, extra) + amount
        if most is not None and total > most:
            return shortage(queue.name, name, amount, total, most)
    return None


def _relevant(deserved: Amounts, names: Iterable[str]) -> list[str]:
    return [name for name in names if deserved.get(name)]
