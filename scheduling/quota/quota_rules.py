"""The rules of a quota plugin while a cycle decides: limits, shares, and which pods a queue may lose to others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from projections.cluster import Cluster
from projections.plugin import NO_QUOTA, Quota
from projections.pod_class import Amounts, PodClass
from projections.pods import Charge, Pod
from projections.queues import Queue
from scheduling.card_choice import CardChoice
from scheduling.quota.real_capability import RealCapability
from scheduling.shortage import Shortage


class RemainingCharges:
    """What queues are charged once the chosen pods are evicted."""

    def __init__(self, cluster: Cluster, gone: Mapping[str, Amounts]) -> None:
        self.cluster = cluster
        self._gone = gone
        self._lost: dict[str, Amounts] = {}

    def queue_of(self, pod: Pod) -> Queue:
        """Return the queue that is charged for a pod."""
        return self.cluster.queues[self.cluster.groups[pod.group_key].queue]

    def has(self, queue: Queue, name: str) -> int:
        """Return what a queue still has of a resource."""
        lost = self._lost.get(queue.name, {}).get(name, 0)
        return queue.sum_of("allocated", name) - self._gone.get(queue.name, {}).get(name, 0) - lost

    def evict(self, pod: Pod) -> None:
        """Subtract the charge of a pod."""
        for queue in self.queue_of(pod).lineage:
            lost = self._lost.setdefault(queue.name, {})
            for name, amount in pod.charge or ():
                lost[name] = lost.get(name, 0) + amount

    def keeps_guarantee(self, queue: Queue, pod: Pod) -> bool:
        """Return True if a queue keeps its guarantee without the pod."""
        guarantee = {} if queue.facts is None else queue.facts.guarantee
        takes = dict(pod.charge or ())
        return all(
            self.has(queue, name) - takes.get(name, 0)
            >= RealCapability(self.cluster).kept_guarantee(queue, name)
            for name in guarantee
        )

    def exceeds(self, queue: Queue, deserved: Amounts, names: Iterable[str]) -> bool:
        """Return True if a queue has more than it deserves of at least one of these."""
        return any(self.has(queue, name) > deserved.get(name, 0) for name in names)


class QuotaRules(Quota):
    """Hook: the limits of queues while a cycle decides. This class is the rule without a quota plugin."""

    ancestor_reclaim_level: int = 0
    """Number of levels of ancestor queues that are compared for reclaiming."""
    protects_deserved: bool = False
    """Whether a queue that has no more than it deserves loses nothing to others."""
    protects_deserved_alone: ClassVar[bool] = False
    """Whether that holds only where no other plugin compares pod groups for reclaim."""
    keeps_reclaimed: ClassVar[bool] = False
    """Whether what a queue may reclaim can never be reclaimed back, because it deserves all of it."""
    compares_shares: ClassVar[bool] = False
    """Whether a queue that deserves only a part of a request may reclaim it from queues with a larger share."""

    @property
    def limits_pods(self) -> bool:
        """Return whether quotas also limit placement, and not only admission."""
        return True

    def choose_cards(
        self, cluster: Cluster, queue: Queue, pod_class: PodClass, extra: Mapping[str, int]
    ) -> CardChoice | Shortage:
        """Return which cards a pod may be charged now, or why none. `extra` counts as used."""
        return CardChoice(None)

    def acceptable_cards(
        self, cluster: Cluster, queue: Queue, pod_class: PodClass
    ) -> Charge | Shortage | None:
        """Return the cards that would do for a pod if their quotas have room, in order of preference, each with how many of it the
        pod would be charged; None for a pod without cards, and where cards have no quotas. No decision changes the answer."""
        return None

    def closed(self, cluster: Cluster, queue: Queue, *, allocates: bool) -> Shortage | None:
        """Return why an open queue still accepts no pod group, or None. Like a limit, it does not follow from what queues are
        charged."""
        return None

    def limit_beside_nodes(self, cluster: Cluster, queue: Queue, name: str) -> int | None:
        """Return the limit of a queue that stays whatever nodes are added, for use and reservations; None without one."""
        return self.limit(cluster, queue, name)

    def share(self, cluster: Cluster, queue: Queue) -> tuple[int, int]:
        """Return used / deserved of a queue in the resource where it is largest: numerator, denominator.

        Without a tree it may depend on the queue, on what queues deserve and on the resources of the cluster only:
        `QueueOrderIndex` keeps it until one of these changes.
        """
        return 0, 1

    def comes_before_equals(self, cluster: Cluster, queue: Queue) -> bool:
        """Return whether a queue comes before queues with an equal share."""
        return False

    def reclaim_denied(
        self, cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
    ) -> str:
        """Return why no pod of another queue may be evicted for a pod with this request; "" if it may."""
        return ""

    def exceeds_deserved(self, cluster: Cluster, queue: Queue) -> bool:
        """Return whether a queue has more than it deserves of anything. `DonorQueues` keeps it until the ledger of the
        queue, what queues deserve, or the resources of the cluster change."""
        have, deserved = queue.allocated, self.deserved(cluster, queue)
        return any(amount > deserved.get(name, 0) for name, amount in have.items())

    def relevant_to_deserved(self, request: Charge, deserved: Amounts) -> Charge:
        """Return the part of a request that counts against what its queue deserves."""
        return request

    def is_victim(self, left: RemainingCharges, pod: Pod, queue: Queue, request: Charge) -> bool:
        """Return whether the queue of a pod loses it to a pod of `queue` with this request."""
        return True


NO_RULES: Final = QuotaRules(Quota.NONE)


def quota_of(cluster: Cluster) -> QuotaRules:
    """Return the quota rules of the policy in force."""
    rules = cluster.plugins.quota
    if rules is NO_QUOTA:
        return NO_RULES
    return rules  # type: ignore[return-value]  # every plugin that keeps quotas has rules
