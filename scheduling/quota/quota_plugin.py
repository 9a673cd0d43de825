"""What the plugins that keep quotas have in common: admission by their limits, the order of queues, reclaimed pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from projections.cluster import Cluster
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.queues import Queue
from scheduling.plugin import JobEnqueueable, QueueKey, QuotaRules, VictimFilter, Vote
from scheduling.quota.enqueue_check import vote_of_quota
from scheduling.quota.queue_order import QuotaQueueKey
from scheduling.quota.real_capability import update_guarantee_error, update_guarantee_errors
from scheduling.quota.reclaiming import victims_of_quota

if TYPE_CHECKING:
    from scheduling.quota.fair_tree import FairTree
    from scheduling.quota.reclaimable import ReclaimableResources
    from scheduling.victims.preemptor import Preemptor


class QuotaPlugin(QuotaRules, JobEnqueueable):
    """A plugin that keeps quotas."""

    votes_by_limits = True

    def may_enqueue(
        self, cluster: Cluster, reclaimable: ReclaimableResources, group: PodGroup
    ) -> Vote:
        """Vote by the limits of the queue and its ancestors."""
        return vote_of_quota(cluster, reclaimable, group)

    def queue_key(self, cluster: Cluster, fair: FairTree | None, queue: Queue) -> QueueKey:
        """Return priority and share, and whether the queue comes before others with an equal share."""
        return QuotaQueueKey(cluster, queue)


class ReclaimingQuota(QuotaPlugin, VictimFilter):
    """A plugin that keeps quotas and filters the victims of reclaim."""

    actions = ("reclaim", "gangreclaim")

    def queue_changed(self, cluster: Cluster, queue: Queue) -> None:
        """Determine whether the guarantee of a queue can be kept."""
        update_guarantee_error(cluster, queue)

    def cycle_opened(self, cluster: Cluster) -> None:
        """Determine which guarantees cannot be kept."""
        update_guarantee_errors(cluster)

    def victims(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that their queues may lose, in the order given."""
        return victims_of_quota(preemptor, candidates)
