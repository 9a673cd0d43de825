"""Victim plugins: which of the candidates may be evicted.

The plugins of a tier must agree; the first tier that agrees on any victim decides (Volcano's preemptable and
reclaimable functions). To prevent endless mutual eviction, three rules hold besides:

- the quota plugin's filter for reclaim applies in whichever tier it is;
- if priorities count, no tier evicts a group of higher priority;
- if no plugin of the deciding tier orders groups, pods of older groups are not evicted; nor pods of a queue with
a smaller share, unless the preemptor's queue stays within what it deserves of all that it requests, or the
victim's queue could not reclaim for the pod again.
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
    reclaimable_victims,
    share_with,
)
from scheduling.victim_eligibility import priority_bound, victim_plugin_tiers
from scheduling.victims.preemptor import Preemptor
from scheduling.work import FAIR, FAIR_AGAIN

VictimPlugin: TypeAlias = Callable[[Preemptor, list[Pod]], list[Pod]]
"""Returns the candidates that a plugin accepts as victims, in the order given."""

CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
QUOTAS: Final = ("capacity", "proportion")
_SYSTEM: Final = "kube-system"
_EQUAL: Final = Fraction(1, 1_000_000)
"""Shares that differ by no more are equal to `drf`."""


def eligible_victims(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Return the candidates that may be evicted, in the order given."""
    groups, tiers = (
        preemptor.cluster.groups,
        victim_plugin_tiers(preemptor.policy, preemptor.action),
    )
    is_bound = preemptor.is_reclaiming and any(one.name in QUOTAS for tier in tiers for one in tier)
    bound = priority_bound(preemptor.policy, preemptor.action, preemptor.group.priority)
    if bound is not None and not preemptor.is_within:
        candidates = [pod for pod in candidates if groups[pod.group_key].priority < bound]
    for tier in tiers:
        agreed = candidates
        for plugin in tier:
            vote = _PLUGINS[plugin.name]
            chosen = {pod.facts.uid: None for pod in vote(preemptor, candidates)}
            agreed = [pod for pod in agreed if pod.facts.uid in chosen]
        if is_bound:
            agreed = _by_quota(preemptor, agreed)
        if agreed and not prevents_reclaim_back(preemptor, [one.name for one in tier]):
            agreed = _safe_from_reclaim_back(preemptor, agreed)
        if agreed:
            return agreed
    return []


def prevents_reclaim_back(preemptor: Preemptor, names: list[str]) -> bool:
    """Return True if what these plugins agree on cannot be reclaimed back.

    With `gang`, pods beyond minMember go to a gang that is not complete, if only such gangs are starving.
    """
    if preemptor.is_within or any(name in ("priority", "drf") for name in names):
        return True
    if preemptor.is_reclaiming and _is_entitled_to_all(preemptor):
        return True
    return "gang" in names and any(one.name == "gang" for one in _starving_tier(preemptor.policy))


def _is_entitled_to_all(preemptor: Preemptor) -> bool:
    quota = preemptor.policy.quota
    if quota == "proportion" or quota != "capacity":
        return quota == "proportion"
    return is_within_deserved(
        preemptor.cluster, preemptor.queue, preemptor.asked, preemptor.overlay.extra
    )


def _safe_from_reclaim_back(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Return, for preempt, pods of groups of lower priority or younger ones; for reclaim, pods of queues that keep a
    larger share or could not reclaim for the pod again, and under `capacity-card` what they use beyond their
    quota."""
    cluster, extra = preemptor.cluster, preemptor.overlay.extra
    groups = cluster.groups
    if not preemptor.is_reclaiming:
        return [pod for pod in candidates if _is_later(preemptor, groups[pod.group_key])]
    asked = preemptor.asked
    if not preemptor.policy.quota:
        return []  # No plugin defines what queues deserve: each could reclaim it back.
    if preemptor.policy.quota != "capacity":
        is_entitled = is_within_deserved(cluster, preemptor.queue, asked, extra)
        return _by_quota(preemptor, candidates) if is_entitled else []
    ours = share_with(cluster, preemptor.queue, with_more(dict(extra), asked))
    gone: dict[str, dict[str, int]] = {}
    found: list[Pod] = []
    for pod in candidates:
        name = groups[pod.group_key].queue
        left = with_more(
            gone.get(name) or preemptor.overlay.released_by_queue(name), pod.charge or ()
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
    given = {one: -amount for one, amount in preemptor.overlay.released_by_queue(name).items()}
    return share_with(preemptor.cluster, preemptor.cluster.queues[name], given)


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


def _is_later(preemptor: Preemptor, group: PodGroup) -> bool:
    ours = preemptor.group
    return (-group.priority, group.created_ns, group.uid, group.key) > (
        -ours.priority,
        ours.created_ns,
        ours.uid,
        ours.key,
    )


def _by_priority(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Accept pods of groups of lower priority; within the group, pods of lower priority."""
    if preemptor.is_within:
        ours = preemptor.pod.facts.task_priority
        return [pod for pod in candidates if pod.facts.task_priority < ours]
    groups = preemptor.cluster.groups
    return [pod for pod in candidates if groups[pod.group_key].priority < preemptor.group.priority]


def _by_gang(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Accept pods beyond minMember of their gangs."""
    spare: dict[str, int] = {}
    chosen: list[Pod] = []
    for pod in candidates:
        key = pod.group_key
        if key not in spare:
            group = preemptor.cluster.groups[key]
            have = (
                group.ready_count
                - group.best_effort_count
                - len(preemptor.overlay.evicted_by_group.get(key, ()))
            )
            spare[key] = have - group.min_available
        if spare[key] > 0:
            spare[key] -= 1
            chosen.append(pod)
    return chosen


def _by_conformance(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Accept pods that are not critical to the cluster itself."""
    return [
        pod
        for pod in candidates
        if pod.facts.priority_class not in CRITICAL and pod.facts.namespace != _SYSTEM
    ]


def _by_drf(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Accept pods of groups whose share without them is still at least the preemptor's share with its pod."""
    if preemptor.is_reclaiming:
        return _by_fair_tree(preemptor, candidates)
    groups, totals = preemptor.cluster.groups, preemptor.cluster.cluster_totals.totals
    ours = dict(preemptor.group.held)
    for pod, _ in preemptor.overlay.placed:
        ours = with_more(ours, pod.pod_class.request)
    for pod in preemptor.overlay.evicted_by_group.get(preemptor.group.key, ()):
        ours = with_more(ours, pod.pod_class.request, -1)
    asked = dominant(with_more(ours, preemptor.pod.pod_class.request), totals)
    left: dict[str, dict[str, int]] = {}
    chosen: list[Pod] = []
    for pod in candidates:
        key = pod.group_key
        if key not in left:
            left[key] = dict(groups[key].held)
            for gone in preemptor.overlay.evicted_by_group.get(key, ()):
                left[key] = with_more(left[key], gone.pod_class.request, -1)
        without = with_more(left[key], pod.pod_class.request, -1)
        if asked <= dominant(without, totals) + _EQUAL:
            left[key] = without
            chosen.append(pod)
    return chosen


def _by_fair_tree(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Accept pods of queues that still come after the preemptor's queue, once it has the pod and they lost theirs."""
    cluster, fair, overlay = preemptor.cluster, preemptor.session.fair, preemptor.overlay
    ours = dict(preemptor.group.held)
    for pod in (*[pod for pod, _ in preemptor.overlay.placed], preemptor.pod):
        ours = with_more(ours, pod.pod_class.request)
    base = {
        key: _held_without(preemptor, key) for key in fair.changed_since(overlay, overlay.moved)
    }
    entered = fair.entered
    fair.assume({**base, preemptor.group.key: ours})
    chosen: list[Pod] = []
    held: dict[str, Amounts] = {}
    """What the groups of candidates hold without the victims chosen here."""
    for pod in candidates:
        group = cluster.groups[pod.group_key]
        before = fair.assumed(group)
        held.setdefault(group.key, before)
        fair.assume({group.key: with_more(before, pod.pod_class.request, -1)})
        if fair.key(preemptor.queue) < fair.key(cluster.queues[group.queue]):
            chosen.append(pod)
        else:
            fair.assume({group.key: before})
    fair.assume(held)
    looks = 1 + len(base) + 2 * len(candidates)
    preemptor.session.work.add(FAIR * looks + FAIR_AGAIN * (fair.entered - entered))
    return chosen


def _held_without(preemptor: Preemptor, key: str) -> Amounts:
    """Return what a group holds once its victims have terminated."""
    held = preemptor.cluster.groups[key].held
    for pod in preemptor.overlay.evicted_by_group.get(key, ()):
        held = with_more(held, pod.pod_class.request, -1)
    return held


def _by_quota(preemptor: Preemptor, candidates: list[Pod]) -> list[Pod]:
    """Accept pods that the quota plugin lets their queues lose."""
    cluster = preemptor.cluster
    asked = preemptor.asked
    return reclaimable_victims(
        cluster, preemptor.queue, asked, candidates, preemptor.overlay.lost_by_lineage
    )


_PLUGINS: Final[dict[str, VictimPlugin]] = {
    "priority": _by_priority,
    "gang": _by_gang,
    "conformance": _by_conformance,
    "drf": _by_drf,
    "capacity": _by_quota,
    "proportion": _by_quota,
}
