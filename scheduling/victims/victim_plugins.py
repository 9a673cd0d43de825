"""Victim plugins: which of the candidates may be evicted.

The plugins of a tier must agree; the first tier that agrees on any victim decides (Volcano's preemptable and
reclaimable functions). To prevent endless mutual eviction, three rules hold besides:

- the quota plugin's filter for reclaim applies in whichever tier it is;
- if priorities count, no tier evicts a group of higher priority;
- if no plugin of the deciding tier orders groups, pods of older groups are not evicted; nor pods of a queue with
a smaller share, unless the preemptor's queue stays within what it deserves of all that it requests, or the
victim's queue could not reclaim for the pod again.
"""

from collections.abc import Sequence
from fractions import Fraction

from projections.plugin import JobStarving
from projections.pods import Pod
from projections.shares import with_more
from scheduling.plugin import QuotaRules, VictimFilter, quota_of
from scheduling.quota.reclaiming import (
    is_within_deserved,
    may_reclaim,
    share_with,
    victims_of_quota,
)
from scheduling.victim_eligibility import priority_bound, victim_filter_tiers
from scheduling.victims.preemptor import Preemptor


def eligible_victims(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Return the candidates that may be evicted, in the order given."""
    groups = preemptor.cluster.groups
    tiers = victim_filter_tiers(preemptor.cluster, preemptor.action)
    is_bound = preemptor.is_reclaiming and any(
        isinstance(one, QuotaRules) for tier in tiers for one in tier
    )
    bound = priority_bound(preemptor.cluster, preemptor.action, preemptor.group.priority)
    if bound is not None and not preemptor.is_within:
        candidates = [pod for pod in candidates if groups[pod.group_key].priority < bound]
    for tier in tiers:
        agreed = candidates
        for plugin in tier:
            chosen = {pod.facts.uid: None for pod in plugin.victims(preemptor, candidates)}
            agreed = [pod for pod in agreed if pod.facts.uid in chosen]
        if is_bound:
            agreed = victims_of_quota(preemptor, agreed)
        if agreed and not prevents_reclaim_back(preemptor, tier):
            agreed = _safe_from_reclaim_back(preemptor, agreed)
        if agreed:
            return agreed
    return []


def prevents_reclaim_back(preemptor: Preemptor, tier: Sequence[VictimFilter]) -> bool:
    """Return True if what these plugins agree on cannot be reclaimed back.

    With `gang`, pods beyond minMember go to a gang that is not complete, if only such gangs are starving.
    """
    if preemptor.is_within or any(one.prevents_reclaim_back for one in tier):
        return True
    if preemptor.is_reclaiming and _is_entitled_to_all(preemptor):
        return True
    return any(one.takes_surplus_only for one in tier) and _only_gangs_starve(preemptor)


def _only_gangs_starve(preemptor: Preemptor) -> bool:
    """Return True if only groups below minMember are starving."""
    judges = preemptor.cluster.plugins.tiers_of(JobStarving)
    return bool(judges) and any(one.counts_min_member for one in judges[0])


def _is_entitled_to_all(preemptor: Preemptor) -> bool:
    rules = quota_of(preemptor.cluster)
    if rules.keeps_reclaimed or not rules.compares_shares:
        return rules.keeps_reclaimed
    return is_within_deserved(
        preemptor.cluster, preemptor.queue, preemptor.asked, preemptor.trial.extra
    )


def _safe_from_reclaim_back(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Return, for preempt, pods of groups of lower priority or younger ones; for reclaim, pods of queues that keep a
    larger share or could not reclaim for the pod again, and under `capacity-card` what they use beyond their
    quota."""
    cluster, extra = preemptor.cluster, preemptor.trial.extra
    groups = cluster.groups
    if not preemptor.is_reclaiming:
        return [pod for pod in candidates if preemptor.comes_before(groups[pod.group_key])]
    asked = preemptor.asked
    rules = quota_of(cluster)
    if not rules.is_named:
        return []  # No plugin defines what queues deserve: each could reclaim it back.
    if not rules.compares_shares:
        is_entitled = is_within_deserved(cluster, preemptor.queue, asked, extra)
        return victims_of_quota(preemptor, candidates) if is_entitled else []
    ours = share_with(cluster, preemptor.queue, with_more(dict(extra), asked))
    gone: dict[str, dict[str, int]] = {}
    found: list[Pod] = []
    for pod in candidates:
        name = groups[pod.group_key].queue
        left = with_more(
            gone.get(name) or preemptor.trial.released_by_queue(name), pod.charge or ()
        )
        if ours < _share_left(preemptor, name) or not _could_reclaim_back(
            preemptor, pod, name, left
        ):
            gone[name] = left
            found.append(pod)
    return found


def _could_reclaim_back(preemptor: Preemptor, pod: Pod, queue: str, given: dict[str, int]) -> bool:
    """Return True if the queue of a pod, after releasing `given` (this pod included), would be entitled to reclaim
    for it."""
    extra = {name: -amount for name, amount in given.items()}
    return may_reclaim(preemptor.cluster, preemptor.cluster.queues[queue], pod.charge or (), extra)


def _share_left(preemptor: Preemptor, name: str) -> Fraction:
    given = {one: -amount for one, amount in preemptor.trial.released_by_queue(name).items()}
    return share_with(preemptor.cluster, preemptor.cluster.queues[name], given)
