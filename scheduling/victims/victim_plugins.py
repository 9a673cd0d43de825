"""Victim plugins: which of the candidates may be evicted.

The plugins of a tier must agree; the first tier that agrees on any victim decides (Volcano's preemptable and
reclaimable functions). To prevent endless mutual eviction, three rules hold besides:

- the quota plugin's filter for reclaim applies in whichever tier it is;
- if priorities count, no tier evicts a group of higher priority;
- if no plugin of the deciding tier orders groups, pods of older groups are not evicted; nor pods of a queue with
a smaller share, unless the preemptor's queue stays within what it deserves of all that it requests, or the
victim's queue could not reclaim for the pod again.
"""

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction

from projections.plugin import JobStarving
from projections.pods import Pod
from projections.shares import with_more
from scheduling.quota.quota_rules import QuotaRules, quota_of
from scheduling.victim_eligibility import VictimLimits
from scheduling.victims.preemptor import Preemptor


class VictimFilter(VictimLimits):
    """Hook: which candidates may be evicted. The plugins of a tier must agree; the first tier that agrees on any
    victim decides."""

    @abstractmethod
    def victims(self, preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that the plugin accepts as victims, in the order given."""


class VictimPlugins:
    """The plugins that filter the victims of one preemptor."""

    def __init__(self, preemptor: Preemptor) -> None:
        self._preemptor = preemptor
        cluster, limits = preemptor.cluster, preemptor.limits
        self._groups, self._rules = cluster.groups, quota_of(cluster)
        self._reclaiming = preemptor.reclaiming
        self.tiers = tuple(
            [tuple([one for one in tier if isinstance(one, VictimFilter)]) for tier in limits.tiers]
        )
        self._is_bound_by_quota = preemptor.is_reclaiming and any(
            isinstance(one, QuotaRules) for tier in self.tiers for one in tier
        )
        self._bound = limits.bound(preemptor.group.priority)

    def eligible(self, candidates: list[Pod]) -> list[Pod]:
        """Return the candidates that may be evicted, in the order given."""
        preemptor, groups, bound = self._preemptor, self._groups, self._bound
        if bound is not None and not preemptor.is_within:
            candidates = [pod for pod in candidates if groups[pod.group_key].priority < bound]
        for tier in self.tiers:
            agreed = candidates
            for plugin in tier:
                chosen = {pod.facts.uid: None for pod in plugin.victims(preemptor, candidates)}
                agreed = [pod for pod in agreed if pod.facts.uid in chosen]
            if self._is_bound_by_quota:
                agreed = preemptor.quota_victims(agreed)
            if agreed and not self._prevents_reclaim_back(tier):
                agreed = self._safe_from_reclaim_back(agreed)
            if agreed:
                return agreed
        return []

    def _prevents_reclaim_back(self, tier: Sequence[VictimFilter]) -> bool:
        """Return True if what these plugins agree on cannot be reclaimed back.

        With `gang`, pods beyond minMember go to a gang that is not complete, if only such gangs are starving.
        """
        preemptor = self._preemptor
        if preemptor.is_within or any(one.prevents_reclaim_back for one in tier):
            return True
        if preemptor.is_reclaiming and self._is_entitled_to_all():
            return True
        return any(one.takes_surplus_only for one in tier) and self._only_gangs_starve()

    def _only_gangs_starve(self) -> bool:
        """Return True if only groups below minMember are starving."""
        judges = self._preemptor.cluster.plugins.tiers_of(JobStarving)
        return bool(judges) and any(one.counts_min_member for one in judges[0])

    def _is_entitled_to_all(self) -> bool:
        preemptor, rules = self._preemptor, self._rules
        if rules.keeps_reclaimed or not rules.compares_shares:
            return rules.keeps_reclaimed
        return self._reclaiming.is_within_deserved(
            preemptor.queue, preemptor.asked, preemptor.trial.extra
        )

    def _safe_from_reclaim_back(self, candidates: list[Pod]) -> list[Pod]:
        """Return, for preempt, pods of groups of lower priority or younger ones; for reclaim, pods of queues that keep a
        larger share or could not reclaim for the pod again, and under `capacity-card` what they use beyond their
        quota."""
        preemptor, groups = self._preemptor, self._groups
        extra = preemptor.trial.extra
        if not preemptor.is_reclaiming:
            return [pod for pod in candidates if preemptor.comes_before(groups[pod.group_key])]
        asked = preemptor.asked
        if not self._rules.is_named:
            return []  # No plugin defines what queues deserve: each could reclaim it back.
        if not self._rules.compares_shares:
            is_entitled = self._reclaiming.is_within_deserved(preemptor.queue, asked, extra)
            return preemptor.quota_victims(candidates) if is_entitled else []
        ours = self._reclaiming.share_with(preemptor.queue, with_more(dict(extra), asked))
        gone: dict[str, dict[str, int]] = {}
        found: list[Pod] = []
        for pod in candidates:
            name = groups[pod.group_key].queue
            left = with_more(
                gone.get(name) or preemptor.trial.released_by_queue(name), pod.charge or ()
            )
            if ours < self._share_left(name) or not self._could_reclaim_back(pod, name, left):
                gone[name] = left
                found.append(pod)
        return found

    def _could_reclaim_back(self, pod: Pod, queue: str, given: dict[str, int]) -> bool:
        """Return True if the queue of a pod, after releasing `given` (this pod included), would be entitled to reclaim
        for it."""
        theirs = self._preemptor.cluster.queues[queue]
        extra = {name: -amount for name, amount in given.items()}
        return self._reclaiming.may_reclaim(theirs, pod.charge or (), extra)

    def _share_left(self, name: str) -> Fraction:
        cluster, trial = self._preemptor.cluster, self._preemptor.trial
        given = {one: -amount for one, amount in trial.released_by_queue(name).items()}
        return self._reclaiming.share_with(cluster.queues[name], given)
