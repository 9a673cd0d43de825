"""The preemptor: one pending pod that needs room used by other pods, with the trial of its whole group."""

from functools import cached_property

from projections import quota_charging
from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Charge, Pod
from projections.policy.policy import RECLAIMING
from projections.queues import add
from projections.shares import EQUAL, dominant
from scheduling.group_trial import GroupTrial
from scheduling.quota.fair_tree import FairTree
from scheduling.quota.queue_order import keeps_fair_tree
from scheduling.quota.reclaiming import Reclaiming
from scheduling.victim_eligibility import eviction_limits
from scheduling.work_budget import Work


class Preemptor:
    """A pod that preempts or reclaims, its action, and the victims and placements chosen for its group so far."""

    def __init__(
        self,
        action: str,
        trial: GroupTrial,
        pod: Pod,
        fair: FairTree,
        work: Work,
        *,
        is_within: bool = False,
        takes_protected: bool = False,
        wanted: tuple[Pod, ...] = (),
    ) -> None:
        self.action = action
        """The action: to preempt takes victims of the same queue, to reclaim those of other queues."""
        self.trial = trial
        self.pod = pod
        self.is_within = is_within
        """True if the victims are pods of the group itself, rather than of other groups."""
        self.takes_protected = takes_protected
        """True if protected pods may be victims, as far as their queues hold more than they deserve."""
        self.wanted = wanted
        """The pods that are placed together, if room is needed for more than this pod."""
        self.is_reclaiming = action in RECLAIMING
        """True if the victims are of other queues."""
        self.cluster = trial.cluster
        self.limits = eviction_limits(trial.cluster, action)
        """What the action may not evict."""
        self.reclaiming = Reclaiming(trial.cluster)
        """The rules by which queues lose pods to others."""
        self.fair = fair
        """The tree of shares."""
        self.work = work
        """The work of the cycle."""
        self.group = trial.group
        """The group of the pod."""
        self.queue = trial.cluster.queues[trial.group.queue]
        """The queue of the group."""

    @cached_property
    def asked(self) -> Charge:
        """Return what the queue would be charged."""
        if not self.wanted:
            return quota_charging.requested(self.cluster, self.pod.pod_class)
        total: Amounts = {}
        for pod in self.wanted:
            add(total, quota_charging.requested(self.cluster, pod.pod_class), 1)
        return tuple(total.items())

    @property
    def equivalence_class(self) -> tuple[object, ...] | None:
        """Return a key that is equal for preemptors for which the same nodes can be freed, pod affinity and spread aside;
        None if that depends on more.

        None if PodDisruptionBudgets, recently failed evictions, ages or shares of queues decide, and once the trial holds
        evictions. (Quotas: see `PreemptionSearch`.)
        """
        cluster, group = self.cluster, self.group
        if self.action != "preempt" or self.is_within or self.trial.placed or self.trial.evicted:
            return None
        if cluster.budgets.all or cluster.eviction_backoff:
            return None
        if keeps_fair_tree(cluster) or cluster.plugins.quota.keeps_tree:
            return None
        if not all(any(one.prevents_reclaim_back for one in tier) for tier in self.limits.tiers):
            return None
        pod_class, held = self.pod.pod_class, tuple(sorted(group.held.items()))
        # With a share of nothing, before or with this pod, ages can decide (`drf`).
        totals = cluster.cluster_totals.totals
        is_tied = bool(held) or dominant(dict(pod_class.request), totals) <= EQUAL
        return pod_class.index, group.queue, group.priority, held, group.key if is_tied else ""

    def quota_victims(self, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that the quota plugin lets their queues lose, in the order given."""
        gone = self.trial.lost_by_lineage
        return self.reclaiming.victims(self.queue, self.asked, candidates, gone)

    def comes_before(self, group: PodGroup) -> bool:
        """Return True if the preemptor's group has a higher priority than another one, or an equal one and is older."""
        return _rank(self.group) < _rank(group)


def _rank(group: PodGroup) -> tuple[int, int, str]:
    return -group.priority, group.observed.created_ns, group.key
