"""What the plugins that keep quotas have in common: admission by their limits, the order of queues, reclaimed pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections import quota_charging
from projections.charging import ResourceCharging
from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.queues import Queue
from scheduling.quota.enqueue_check import JobEnqueueable, Vote
from scheduling.quota.queue_order import QueueKey, QueueOrder, QuotaQueueKey
from scheduling.quota.quota_check import may_enqueue
from scheduling.quota.quota_rules import QuotaRules
from scheduling.quota.real_capability import RealCapability
from scheduling.victims.preemptor import Preemptor
from scheduling.victims.victim_plugins import VictimFilter

if TYPE_CHECKING:
    from scheduling.quota.fair_tree import FairTree
    from scheduling.quota.reclaimable import ReclaimableResources


class QuotaPlugin(QuotaRules, QueueOrder, JobEnqueueable):
    """A plugin that keeps quotas."""

    votes_by_limits = True

    def may_enqueue(
        self, cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup
    ) -> Vote:
        """Vote by the limits of the queue and its ancestors; what evictions could release does not count as used."""
        asked = quota_charging.admission_request(cluster, group)
        if asked is None:
            return "permit"
        queue, yielded = cluster.queues[group.queue], reclaimable.yielded
        short = may_enqueue(cluster, queue, asked, yielded=yielded)
        if short is not None and cluster.policy.evicting:
            released = reclaimable.of_queue(group, asked)
            short = may_enqueue(cluster, queue, asked, released, yielded=yielded)
        return short or "permit"

    def queue_key(self, cluster: Cluster, fair: FairTree | None, queue: Queue) -> QueueKey:
        """Return priority and share, and whether the queue comes before others with an equal share."""
        return QuotaQueueKey(cluster, queue)


class ReclaimingQuota(QuotaPlugin, VictimFilter):
    """A plugin that keeps quotas of all resources and filters the victims of reclaim."""

    actions = ("reclaim", "gangreclaim")
    charging = ResourceCharging()
    counts_reclaimable = True
    checks_guarantees = True

    @property
    def limits_pods(self) -> bool:
        """Return whether the policy has them limit placement, too."""
        return self.takes_part("enabledAllocatable")

    def queue_changed(self, cluster: Cluster, queue: Queue) -> None:
        """Determine whether the guarantee of a queue can be kept."""
        RealCapability(cluster).update_guarantee_error(queue)

    def cycle_opened(self, cluster: Cluster) -> None:
        """Determine which guarantees cannot be kept."""
        RealCapability(cluster).update_guarantee_errors()

    def victims(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that their queues may lose, in the order given."""
        return preemptor.quota_victims(candidates)
