"""Rules of the quota plugin for reclaim: which queues may reclaim, and which pods are victims.

    preemptor: used + request <= real capability, and <= deserved: under `capacity` in one resource at least,
               under `proportion` in all
    victims  : pods of queues that have more than they deserve, as long as the queue keeps its guarantee

Under `capacity` a pod that uses nothing of what its queue deserves is a victim too, and a pod without a common
resource with the preemptor is none. Under `capacity-card` quotas are hard: a queue within its own quota may
reclaim, and usage beyond a quota may be reclaimed. In a tree of queues `ancestorReclaimLevel` is the number of
ancestor levels at which the same must hold (0: only the two queues are compared).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from projections.cluster import Cluster
from projections.deserved import deserved_of, real_capability
from projections.pod_class import Amounts
from projections.pods import Charge, Pod
from projections.policy import Policy
from projections.queue_tree import ROOT
from projections.queues import Queue
from scheduling.quota import quota_check
from scheduling.victim_eligibility import only_quota_decides


def may_reclaim(cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]) -> bool:
    """Return True if pods of other queues may be evicted for a pod with this request; `extra` is what its gang took
    already."""
    return not why_reclaim_denied(cluster, queue, request, extra)


def why_reclaim_denied(
    cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
) -> str:
    """Return why no pod of another queue may be evicted for a pod with this request; empty if it may."""
    quota = cluster.policy.quota
    short = quota_check.why_queue_closed(cluster, queue)
    if short is not None:
        return short.message
    if not quota or not cluster.policy.has(quota, "enablePreemptive"):
        return ""
    if quota != "capacity":
        short = quota_check.may_allocate(cluster, queue, request, extra)
        return "" if short is None else short.message
    short = _over_own_capability(cluster, queue, request, extra)
    if short is not None:
        return short.message
    if _deserves(cluster, queue, request, extra):
        return ""
    deserved = deserved_of(cluster, queue)
    asked = ", ".join(
        f"{name} total would be <{quota_check.amount_text(name, quota_check.used(queue, name, extra) + amount)}>,"
        f" but deserved is <{quota_check.amount_text(name, deserved.get(name, 0))}>"
        for name, amount in request
    )
    return f"Queue <{queue.name}> would exceed its deserved resources: {asked}"


def can_donate(cluster: Cluster, queue: Queue) -> bool:
    """Return True if a queue could have anything reclaimable. False means that it has nothing."""
    if not _is_reclaimable(queue):
        return False
    return not _protects_deserved(cluster.policy) or _exceeds_deserved(cluster, queue)


def donor_queues(cluster: Cluster, queue: str) -> Iterator[str]:
    """Yield the other queues that could have anything reclaimable for one queue."""
    is_kept = _protects_deserved(cluster.policy)
    for name, other in cluster.queues.items():
        if name == queue or not _is_reclaimable(other):
            continue
        if not is_kept or _exceeds_deserved(cluster, other):
            yield name


class DonorQueues:
    """The queues that could have anything reclaimable, cached for one log position."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._as_of = -1
        self._names: tuple[str, ...] = ()

    def has_other_than(self, queue: str) -> bool:
        """Return True if there is such a queue other than this one."""
        if self._as_of != self._cluster.position:
            self._as_of, self._names = (
                self._cluster.position,
                tuple(donor_queues(self._cluster, "")),
            )
        return len(self._names) > 1 or any(name != queue for name in self._names)


def _is_reclaimable(queue: Queue) -> bool:
    return queue.facts is None or queue.facts.is_reclaimable


def _exceeds_deserved(cluster: Cluster, queue: Queue) -> bool:
    """Return True if a queue has more than it deserves of anything; with cards, of anything that it deserves by
    name."""
    have = queue.allocated
    if cluster.policy.quota != "capacity-card":
        deserved = deserved_of(cluster, queue)
        return any(amount > deserved.get(name, 0) for name, amount in have.items())
    if not have or queue.facts is None:
        return False
    quota = queue.facts.quota
    for name, amount in quota.items():
        if 0 < amount < have.get(name, 0):
            return True
    return any(
        0 < amount < have.get(name, 0)
        for name, amount in queue.facts.deserved.items()
        if name not in quota
    )


def _protects_deserved(policy: Policy) -> bool:
    """Return True if a queue that has no more than it deserves loses nothing to others."""
    quota = policy.quota
    if quota == "capacity-card":
        return only_quota_decides(policy)
    return quota in ("capacity", "proportion") and policy.has(quota, "enableReclaimable")


def is_within_deserved(
    cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
) -> bool:
    """Return True if the queue stays within what it deserves of all that a pod is charged for.

    Under `capacity-card`: of all that it deserves by name.
    """
    deserved = deserved_of(cluster, queue)
    if cluster.policy.quota == "capacity-card":
        request = tuple(one for one in request if one[0] in deserved)
    return bool(request) and all(
        quota_check.used(queue, name, extra) + amount <= deserved.get(name, 0)
        for name, amount in request
    )


def share_with(cluster: Cluster, queue: Queue, more: Mapping[str, int]) -> Fraction:
    """Return the queue's largest used / entitled, with `more` added to what it is charged now."""
    most = Fraction(0)
    deserved = deserved_of(cluster, queue)
    for name in dict.fromkeys((*deserved, *queue.allocated, *more)):
        entitled = deserved.get(name) or quota_check.limit(cluster, queue, name)
        if entitled:
            have = queue.sum_of("allocated", name) + more.get(name, 0)
            most = max(most, Fraction(have, entitled))
    return most


def _over_own_capability(
    cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]
) -> quota_check.Shortage | None:
    """Return a shortage if the queue itself may not use that much. Its ancestors may be full: victims may come from
    them."""
    for name, amount in request:
        most = None if queue.facts is None else real_capability(cluster, queue, name)
        total = quota_check.used(queue, name, extra) + amount
        if most is not None and total > most:
            return quota_check.shortage(queue, name, amount, total, most)
    return None


def _deserves(cluster: Cluster, queue: Queue, request: Charge, extra: Mapping[str, int]) -> bool:
    for one in (queue, *_ancestors(cluster, queue)):
        deserved = deserved_of(cluster, one)
        if any(
            name in deserved and quota_check.used(one, name, extra) + amount <= deserved[name]
            for name, amount in request
        ):
            return True
    return False


def _ancestors(cluster: Cluster, queue: Queue) -> tuple[Queue, ...]:
    """Return the ancestors that count, nearest first."""
    level = cluster.policy.capacity.ancestor_reclaim_level
    return tuple(one for one in queue.lineage[1 : 1 + level] if one.name != ROOT)


def reclaimable_victims(
    cluster: Cluster,
    queue: Queue,
    request: Charge,
    candidates: Sequence[Pod],
    gone: Mapping[str, Amounts] | None = None,
) -> list[Pod]:
    """Return the candidates that may be evicted for a pod of `queue`, in the order given.

    `gone` is what queues and their descendants are charged for pods that are victims already.
    """
    left = _RemainingCharges(cluster, gone or {})
    quota = cluster.policy.quota
    rules = {"capacity": _by_capacity, "proportion": _by_deserved, "capacity-card": _by_deserved}
    if quota not in rules:
        return list(candidates)
    chosen: list[Pod] = []
    for pod in candidates:
        theirs = left.queue_of(pod)
        if left.keeps_guarantee(theirs, pod) and rules[quota](left, pod, queue, request):
            left.evict(pod)
            chosen.append(pod)
    return chosen


class _RemainingCharges:
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
            self.has(queue, name) - takes.get(name, 0) >= amount
            for name, amount in guarantee.items()
        )

    def exceeds(self, queue: Queue, deserved: Amounts, names: Iterable[str]) -> bool:
        """Return True if a queue has more than it deserves of at least one of these."""
        return any(self.has(queue, name) > deserved.get(name, 0) for name in names)


def _by_deserved(left: _RemainingCharges, pod: Pod, queue: Queue, request: Charge) -> bool:
    del queue, request
    theirs = left.queue_of(pod)
    deserved = deserved_of(left.cluster, theirs)
    names = dict.fromkeys((*theirs.allocated, *deserved))
    if left.cluster.policy.quota == "capacity-card":
        names = dict.fromkeys(name for name, _ in pod.charge or () if name in deserved)
    return left.exceeds(theirs, deserved, names)


def _by_capacity(left: _RemainingCharges, pod: Pod, queue: Queue, request: Charge) -> bool:
    cluster, theirs = left.cluster, left.queue_of(pod)
    asked = [name for name, amount in request if amount]
    names = [name for name, amount in pod.charge or () if amount]
    if not any(name in asked for name in names):
        return False
    relevant = _relevant(deserved_of(cluster, theirs), names)
    if relevant:
        if not left.exceeds(theirs, deserved_of(cluster, theirs), relevant):
            return False
    elif _neither_deserves_any(cluster, queue, theirs, asked):
        return False
    return all(
        _exceeds_above(left, above, names)
        for above in _ancestors_not_shared(cluster, queue, theirs)
    )


def _relevant(deserved: Amounts, names: Iterable[str]) -> list[str]:
    return [name for name in names if deserved.get(name)]


def _neither_deserves_any(
    cluster: Cluster, queue: Queue, theirs: Queue, asked: Iterable[str]
) -> bool:
    """Return True if both are below one ancestor and neither deserves any of it: then neither may reclaim from the
    other."""
    shared = {one.name for one in _ancestors(cluster, queue)}
    related = any(one.name in shared for one in _ancestors(cluster, theirs))
    return related and not _relevant(deserved_of(cluster, queue), asked)


def _ancestors_not_shared(cluster: Cluster, queue: Queue, theirs: Queue) -> list[Queue]:
    """Return the ancestors of the victim's queue, level by level, that are not ancestors of the preemptor's queue."""
    level = cluster.policy.capacity.ancestor_reclaim_level
    ours, others = queue.lineage[1 : 1 + level], theirs.lineage[1 : 1 + level]
    return [
        one
        for index, one in enumerate(others)
        if one.name != ROOT and (index >= len(ours) or ours[index] is not one)
    ]


def _exceeds_above(left: _RemainingCharges, above: Queue, names: list[str]) -> bool:
    deserved = deserved_of(left.cluster, above)
    relevant = _relevant(deserved, names)
    return not relevant or left.exceeds(above, deserved, relevant)


def shared_ancestors(queue: Queue, other: Queue) -> int:
    """Return the number of common ancestors: the more, the earlier the other queue loses pods (Volcano's order of
    victims)."""
    theirs = {one.name for one in other.lineage[1:]}
    return sum(one.name in theirs for one in queue.lineage[1:])
