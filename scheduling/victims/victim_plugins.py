"""Votes: which of the candidates the plugins let go.

The plugins of a tier must agree; the first tier that agrees on anybody decides (Volcano's preemptable and
reclaimable functions). So that nothing goes back and forth without end, three things hold besides:

- what the quota plugin says of reclaiming holds in whatever tier it stands;
- where priorities count, no tier evicts a group of higher priority;
- where no plugin of the deciding tier puts one group before another, it is not taken from an older group; nor from
  a queue with a smaller share, unless the queue that asks is within what it deserves of all that it asks for, or
  the one that loses the pod could not reclaim for it again.
"""

from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeAlias

from projections.pod_class import Amounts
from projections.pod_groups import PodGroup
from projections.pods import Pod
from projections.policy import Plugin, Policy
from projections.shares import dominant, with_more
from scheduling.quota.reclaiming import (
    is_within_deserved,
    may_reclaim,
    reclaimable,
    share_with,
)
from scheduling.victim_eligibility import priority_bound, voters
from scheduling.victims.preemptor import Claim
from scheduling.work import FAIR, FAIR_AGAIN

Vote: TypeAlias = Callable[[Claim, list[Pod]], list[Pod]]
"""The candidates that a plugin lets go, in the order given."""

CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
QUOTAS: Final = ("capacity", "proportion")
_SYSTEM: Final = "kube-system"
_EQUAL: Final = Fraction(1, 1_000_000)
"""Shares that differ by no more are equal to drf."""


def released(claim: Claim, candidates: list[Pod]) -> list[Pod]:
    """The candidates that may be evicted, in the order given."""
    groups, tiers = claim.cluster.groups, voters(claim.policy, claim.action)
    is_bound = claim.is_reclaiming and any(one.name in QUOTAS for tier in tiers for one in tier)
    bound = priority_bound(claim.policy, claim.action, claim.group.priority)
    if bound is not None and not claim.is_within:
        candidates = [pod for pod in candidates if groups[pod.group_key].priority < bound]
    for tier in tiers:
        agreed = candidates
        for plugin in tier:
            vote = _VOTES[plugin.name]
            chosen = {pod.facts.uid: None for pod in vote(claim, candidates)}
            agreed = [pod for pod in agreed if pod.facts.uid in chosen]
        if is_bound:
            agreed = _by_quota(claim, agreed)
        if agreed and not is_ordered(claim, [one.name for one in tier]):
            agreed = _behind(claim, agreed)
        if agreed:
            return agreed
    return []


def is_ordered(claim: Claim, names: list[str]) -> bool:
    """Whether what these plugins agree on cannot be asked back.

    With `gang`, pods beyond the need of their gang go to a gang that is not whole, if only such starve.
    """
    if claim.is_within or any(name in ("priority", "drf") for name in names):
        return True
    if claim.is_reclaiming and _is_entitled_to_all(claim):
        return True
    return "gang" in names and any(one.name == "gang" for one in _starving_tier(claim.policy))


def _is_entitled_to_all(claim: Claim) -> bool:
    quota = claim.policy.quota
    if quota == "proportion" or quota != "capacity":
        return quota == "proportion"
    return is_within_deserved(claim.cluster, claim.queue, claim.asked, claim.trial.extra)


def _behind(claim: Claim, candidates: list[Pod]) -> list[Pod]:
    """To preempt: pods of groups that are less urgent, or younger. To reclaim: of queues that have a larger share
    left or could not reclaim for the pod again, and under `capacity-card` of what they have beyond their quota."""
    cluster, extra = claim.cluster, claim.trial.extra
    groups = cluster.groups
    if not claim.is_reclaiming:
        return [pod for pod in candidates if _is_later(claim, groups[pod.group_key])]
    asked = claim.asked
    if not claim.policy.quota:
        return []  # No plugin says what queues deserve: each could take it back.
    if claim.policy.quota != "capacity":
        is_entitled = is_within_deserved(cluster, claim.queue, asked, extra)
        return _by_quota(claim, candidates) if is_entitled else []
    ours = share_with(cluster, claim.queue, with_more(dict(extra), asked))
    gone: dict[str, dict[str, int]] = {}
    found: list[Pod] = []
    for pod in candidates:
        name = groups[pod.group_key].queue
        left = with_more(gone.get(name) or claim.trial.given(name), pod.charge or ())
        if ours < _share_left(claim, name) or not _could_ask_back(claim, pod, name, left):
            gone[name] = left
            found.append(pod)
    return found


def _could_ask_back(claim: Claim, pod: Pod, queue: str, given: dict[str, int]) -> bool:
    """Whether the queue of a pod, having `given` this pod among others, would be entitled to reclaim for it."""
    extra = {name: -amount for name, amount in given.items()}
    return may_reclaim(claim.cluster, claim.cluster.queue(queue), pod.charge or (), extra)


def _share_left(claim: Claim, name: str) -> Fraction:
    given = {one: -amount for one, amount in claim.trial.given(name).items()}
    return share_with(claim.cluster, claim.cluster.queue(name), given)


def _starving_tier(policy: Policy) -> list[Plugin]:
    for tier in policy.tiers:
        judges = [
            one
            for one in tier
            if one.name in ("gang", "priority") and one.takes_part("enableJobStarving")
        ]
        if judges:
            return judges
    return []


def _is_later(claim: Claim, group: PodGroup) -> bool:
    ours = claim.group
    return (-group.priority, group.created_ns, group.uid, group.key) > (
        -ours.priority,
        ours.created_ns,
        ours.uid,
        ours.key,
    )


def _by_priority(claim: Claim, candidates: list[Pod]) -> list[Pod]:
    """Pods of groups of lower priority; in one's own group, pods of lower priority."""
    if claim.is_within:
        ours = claim.pod.facts.task_priority
        return [pod for pod in candidates if pod.facts.task_priority < ours]
    groups = claim.cluster.groups
    return [pod for pod in candidates if groups[pod.group_key].priority < claim.group.priority]


def _by_gang(claim: Claim, candidates: list[Pod]) -> list[Pod]:
    """Pods that their gangs do not need."""
    spare: dict[str, int] = {}
    chosen: list[Pod] = []
    for pod in candidates:
        key = pod.group_key
        if key not in spare:
            group = claim.cluster.groups[key]
            have = group.ready_count - group.best_effort_count - len(claim.trial.taken.get(key, ()))
            spare[key] = have - group.min_available
        if spare[key] > 0:
            spare[key] -= 1
            chosen.append(pod)
    return chosen


def _by_conformance(claim: Claim, candidates: list[Pod]) -> list[Pod]:
    """Pods that the cluster itself does not run on."""
    return [
        pod
        for pod in candidates
        if pod.facts.priority_class not in CRITICAL and pod.facts.namespace != _SYSTEM
    ]


def _by_drf(claim: Claim, candidates: list[Pod]) -> list[Pod]:
    """Pods of groups that still hold as large a share without them as the one who asks would hold."""
    if claim.is_reclaiming:
        return _by_fair_tree(claim, candidates)
    groups, totals = claim.cluster.groups, claim.cluster.commons.totals
    ours = dict(claim.group.held)
    for pod, _ in claim.trial.placed:
        ours = with_more(ours, pod.pod_class.request)
    for pod in claim.trial.taken.get(claim.group.key, ()):
        ours = with_more(ours, pod.pod_class.request, -1)
    asked = dominant(with_more(ours, claim.pod.pod_class.request), totals)
    left: dict[str, dict[str, int]] = {}
    chosen: list[Pod] = []
    for pod in candidates:
        key = pod.group_key
        if key not in left:
            left[key] = dict(groups[key].held)
            for gone in claim.trial.taken.get(key, ()):
                left[key] = with_more(left[key], gone.pod_class.request, -1)
        without = with_more(left[key], pod.pod_class.request, -1)
        if asked <= dominant(without, totals) + _EQUAL:
            left[key] = without
            chosen.append(pod)
    return chosen


def _by_fair_tree(claim: Claim, candidates: list[Pod]) -> list[Pod]:
    """Pods of queues that still come after the queue that asks, once it has the pod and they lost theirs."""
    cluster, fair, trial = claim.cluster, claim.session.fair, claim.trial
    ours = dict(claim.group.held)
    for pod in (*[pod for pod, _ in claim.trial.placed], claim.pod):
        ours = with_more(ours, pod.pod_class.request)
    base = {key: _held_without(claim, key) for key in fair.moved_since(trial, trial.moved)}
    entered = fair.entered
    fair.change({**base, claim.group.key: ours})
    chosen: list[Pod] = []
    held: dict[str, Amounts] = {}
    """What the groups of candidates hold without this trial's choice."""
    for pod in candidates:
        group = cluster.groups[pod.group_key]
        before = fair.holds(group)
        held.setdefault(group.key, before)
        fair.change({group.key: with_more(before, pod.pod_class.request, -1)})
        if fair.key(claim.queue) < fair.key(cluster.queue(group.queue)):
            chosen.append(pod)
        else:
            fair.change({group.key: before})
    fair.change(held)
    looks = 1 + len(base) + 2 * len(candidates)
    claim.session.work.add(FAIR * looks + FAIR_AGAIN * (fair.entered - entered))
    return chosen


def _held_without(claim: Claim, key: str) -> Amounts:
    """What a group holds once its pods that would leave have left."""
    held = claim.cluster.groups[key].held
    for pod in claim.trial.taken.get(key, ()):
        held = with_more(held, pod.pod_class.request, -1)
    return held


def _by_quota(claim: Claim, candidates: list[Pod]) -> list[Pod]:
    """Pods that their queues must give up."""
    cluster = claim.cluster
    asked = claim.asked
    return reclaimable(cluster, claim.queue, asked, candidates, claim.trial.lost)


_VOTES: Final[dict[str, Vote]] = {
    "priority": _by_priority,
    "gang": _by_gang,
    "conformance": _by_conformance,
    "drf": _by_drf,
    "capacity": _by_quota,
    "proportion": _by_quota,
}
