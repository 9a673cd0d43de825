"""Hooks of plugins that a cycle calls while it decides: admission, the order of queues, quotas, victims.

Those of the fold are in `projections/plugin.py`; those about nodes are beside the columns that call them:
`node_predicates.py`, `score_formulas.py`, `device_points.py`, `pod_topology/plugin_columns.py`, `topology/network_topology.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Protocol, TypeAlias

from projections.plugin import Plugin, Quota
from projections.policy.policy import RECLAIMING
from scheduling.shortage import Shortage

if TYPE_CHECKING:
    from projections.cluster import Cluster
    from projections.pod_class import Amounts
    from projections.pod_groups import PodGroup
    from projections.pods import Charge, Pod
    from projections.queues import Queue
    from scheduling.quota.fair_tree import FairTree
    from scheduling.quota.reclaimable import ReclaimableResources
    from scheduling.quota.reclaiming import RemainingCharges
    from scheduling.victims.preemptor import Preemptor

Vote: TypeAlias = Shortage | Literal["permit", "abstain"]


# Pod groups


class FaultGrace(Plugin):
    """Hook: how long pods that are deleted after a fault may take to end."""

    @property
    @abstractmethod
    def grace_ns(self) -> int:
        """Return the time until such pods are deleted by force, where the policy states none."""


class JobEnqueueable(Plugin):
    """Hook: admission of a pod group to its queue. The first shortage refuses it; after a permit in a tier later tiers
    are not asked."""

    FLAG = "enableJobEnqueued"
    votes_by_limits: ClassVar[bool] = False
    """Whether the plugin keeps quotas and permits every group for which its limits (`Quota.admission_limit`) have room."""

    @abstractmethod
    def may_enqueue(
        self, cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup
    ) -> Vote:
        """Return the vote on a group. `reclaimable` is what evictions could release for it."""


class ClusterQuota(JobEnqueueable):
    """Hook: admission by what the whole cluster can reserve. A group that is refused for a resource awaits
    `cluster-quota/NAME` (`events/requeue.py`), and is not asked again before its minimum can be reserved."""

    @abstractmethod
    def awaited(self, group: PodGroup, name: str) -> int:
        """Return how much of a resource is reserved for a group."""

    @abstractmethod
    def available(self, cluster: Cluster, name: str) -> int:
        """Return how much of a resource can still be reserved; negative if more than allowed is."""


class JobPipelined(Plugin):
    """Hook: whether a gang may hold the room found for only some of its pods. The first tier with votes decides."""

    FLAG = "enableJobPipelined"

    @abstractmethod
    def may_hold_part(self, cluster: Cluster, group: PodGroup) -> bool:
        """Return whether the group may hold a part of what it needs."""


# Queues


class QueueKey(Protocol):
    """The value by which a plugin sorts a queue."""

    def compare(self, other: QueueKey) -> int:
        """Return a negative number if this queue comes first, a positive one if the other does."""


class _NoOrder:
    """The key of queues that are not ordered."""

    def compare(self, _other: QueueKey) -> int:
        """Return 0: neither comes first."""
        return 0


class QueueOrder(Plugin):
    """Hook: the order of queues."""

    FLAG = "enableQueueOrder"
    keeps_fair_tree: bool = False
    """Whether queues are compared by their places in the tree of shares (`scheduling/quota/fair_tree.py`)."""

    @abstractmethod
    def queue_key(self, cluster: Cluster, fair: FairTree | None, queue: Queue) -> QueueKey:
        """Return the value by which a queue is sorted. `fair` is the tree of shares, if one is kept."""


# Victims


class VictimFilter(Plugin):
    """Hook: which candidates may be evicted. The plugins of a tier must agree; the first tier that agrees on any
    victim decides."""

    actions: ClassVar[tuple[str, ...]] = ()
    """The evicting actions whose victims it filters."""
    compares_groups: ClassVar[bool] = False
    """Whether it compares pod groups with one another, and not only pods or queues."""
    prevents_reclaim_back: ClassVar[bool] = False
    """Whether what it agrees on cannot be taken back by the group that loses it."""
    takes_surplus_only: ClassVar[bool] = False
    """Whether only groups with more pods than minMember give victims."""
    takes_lower_priority_only: ClassVar[bool] = False
    """Whether only groups of lower priority give victims."""

    def filters(self, action: str) -> bool:
        """Return whether it filters the victims of an action."""
        flag = "enableReclaimable" if action in RECLAIMING else "enablePreemptable"
        return action in self.actions and self.takes_part(flag)

    @abstractmethod
    def victims(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that the plugin accepts as victims, in the order given."""


# Nodes


# Quotas


class QuotaRules(Quota, QueueOrder):
    """Hook: the limits of queues while a cycle decides. This class is the rule without a quota plugin."""

    ancestor_reclaim_level: int = 0
    """Number of levels of ancestor queues that are compared for reclaiming."""
    protects_deserved: bool = False
    """Whether a queue that has no more than it deserves loses nothing to others."""
    keeps_reclaimed: ClassVar[bool] = False
    """Whether what a queue may reclaim can never be reclaimed back, because it deserves all of it."""
    compares_shares: ClassVar[bool] = False
    """Whether a queue that deserves only a part of a request may reclaim it from queues with a larger share."""

    @property
    def limits_pods(self) -> bool:
        """Return whether quotas also limit placement, and not only admission."""
        return not self.charges_resources or self.takes_part("enabledAllocatable")

    def queue_key(self, cluster: Cluster, fair: FairTree | None, queue: Queue) -> QueueKey:
        """Return a key by which all queues are equal."""
        return _NoOrder()

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
    return rules if isinstance(rules, QuotaRules) else NO_RULES


def keeps_fair_tree(cluster: Cluster) -> bool:
    """Return whether queues are compared by their places in a tree of shares."""
    return any(isinstance(one, QueueOrder) and one.keeps_fair_tree for one in cluster.plugins.all)
