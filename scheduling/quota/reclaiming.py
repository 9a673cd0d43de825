"""Reclaim by quota: which queues may reclaim, which may lose pods, and which pods those are.

The rules of each quota plugin are its own (`QuotaRules` in `scheduling/quota/quota_rules.py`). Whatever they say, a queue
keeps its guarantee.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from projections.cluster import Cluster
from projections.pod_class import Amounts
from projections.pods import Charge, Pod
from projections.queues import Queue
from scheduling.quota import quota_check
from scheduling.quota.ledger_journal import LedgerJournal
from scheduling.quota.quota_rules import RemainingCharges, quota_of
from scheduling.victim_eligibility import eviction_limits


def _is_reclaimable(queue: Queue) -> bool:
    return queue.facts is None or queue.facts.is_reclaimable


def shared_ancestors(queue: Queue, other: Queue) -> int:
    """Return the number of common ancestors: the more, the earlier the other queue loses pods (Volcano's order of
    victims)."""
    theirs = {one.name for one in other.lineage[1:]}
    return sum(one.name in theirs for one in queue.lineage[1:])


class Reclaiming:
    """Which queues may reclaim and which lose pods to others, by the quota plugin of the policy in force."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rules = quota_of(cluster)

    def may_reclaim(self, queue: Queue, request: Charge, extra: Mapping[str, int]) -> bool:
        """Return True if pods of other queues may be evicted for a pod with this request; `extra` is what its gang took
        already."""
        return not self.why_denied(queue, request, extra)

    def why_denied(self, queue: Queue, request: Charge, extra: Mapping[str, int]) -> str:
        """Return why no pod of another queue may be evicted for a pod with this request; empty if it may."""
        short = quota_check.why_queue_closed(self._cluster, queue)
        if short is not None:
            return short.message
        rules = self._rules
        if not rules.is_named or not rules.takes_part("enablePreemptive"):
            return ""
        return rules.reclaim_denied(self._cluster, queue, request, extra)

    def can_donate(self, queue: Queue) -> bool:
        """Return True if a queue could have anything reclaimable. False means that it has nothing."""
        if not _is_reclaimable(queue):
            return False
        return not self._protects_deserved() or self._rules.exceeds_deserved(self._cluster, queue)

    def is_within_deserved(self, queue: Queue, request: Charge, extra: Mapping[str, int]) -> bool:
        """Return True if the queue stays within what it deserves of all that a pod is charged for."""
        rules = self._rules
        deserved = rules.deserved(self._cluster, queue)
        request = rules.relevant_to_deserved(request, deserved)
        return bool(request) and all(
            quota_check.used(queue, name, extra) + amount <= deserved.get(name, 0)
            for name, amount in request
        )

    def share_with(self, queue: Queue, more: Mapping[str, int]) -> Fraction:
        """Return the queue's largest used / entitled, with `more` added to what it is charged now."""
        cluster = self._cluster
        most = Fraction(0)
        deserved = self._rules.deserved(cluster, queue)
        for name in dict.fromkeys((*deserved, *queue.allocated, *more)):
            entitled = deserved.get(name) or cluster.plugins.quota.limit(cluster, queue, name)
            if entitled:
                have = queue.sum_of("allocated", name) + more.get(name, 0)
                most = max(most, Fraction(have, entitled))
        return most

    def victims(
        self,
        queue: Queue,
        request: Charge,
        candidates: Sequence[Pod],
        gone: Mapping[str, Amounts] | None = None,
    ) -> list[Pod]:
        """Return the candidates that may be evicted for a pod of `queue`, in the order given.

        `gone` is what queues and their descendants are charged for pods that are victims already.
        """
        rules, left = self._rules, RemainingCharges(self._cluster, gone or {})
        if not rules.is_named:
            return list(candidates)
        chosen: list[Pod] = []
        for pod in candidates:
            theirs = left.queue_of(pod)
            if left.keeps_guarantee(theirs, pod) and rules.is_victim(left, pod, queue, request):
                left.evict(pod)
                chosen.append(pod)
        return chosen

    def _protects_deserved(self) -> bool:
        """Return True if a queue that has no more than it deserves loses nothing to others: the quota plugin says so, or
        it alone decides."""
        rules = self._rules
        return rules.protects_deserved or (
            rules.protects_deserved_alone
            and not eviction_limits(self._cluster, "reclaim").compares_groups
        )


class DonorQueues:
    """The queues that could have anything reclaimable.

    Kept up from the journal of changed ledgers; counted again if the policy, the queues themselves, or what all of
    them deserve has changed.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._journal = LedgerJournal(cluster)
        self._names: dict[str, None] = {}
        self._sorted: tuple[str, ...] | None = None
        self._all: frozenset[str] | None = None

    @property
    def names(self) -> Mapping[str, None]:
        """Return the names of these queues."""
        changed = self._journal.read()
        if changed is None:
            self._recount()
            return self._names
        for name in changed:
            self._update(name)
        return self._names

    def has_other_than(self, queue: str) -> bool:
        """Return True if there is such a queue other than this one."""
        names = self.names
        return len(names) > (queue in names)

    @property
    def all(self) -> frozenset[str]:
        """Return the names of these queues as a set."""
        names = self.names
        if self._all is None:
            self._all = frozenset(names)
        return self._all

    def others(self, queue: str) -> tuple[str, ...]:
        """Return these queues without one, sorted."""
        names = self.names
        if self._sorted is None:
            self._sorted = tuple(sorted(names))
        if queue not in names:
            return self._sorted
        return tuple([name for name in self._sorted if name != queue])

    def _recount(self) -> None:
        can_donate, queues = Reclaiming(self._cluster).can_donate, self._cluster.queues
        donors = [name for name, queue in queues.items() if can_donate(queue)]
        self._names, self._sorted, self._all = dict.fromkeys(donors), None, None

    def _update(self, name: str) -> None:
        queue = self._cluster.queues.get(name)
        is_donor = queue is not None and Reclaiming(self._cluster).can_donate(queue)
        if is_donor == (name in self._names):
            return
        self._sorted = self._all = None
        if is_donor:
            self._names[name] = None
        else:
            del self._names[name]
