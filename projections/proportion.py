"""What queues deserve under `proportion`: all there is, by weight, as far as they ask for it.

    remaining = total
    repeat: each unmet queue gets remaining x weight / weights of the unmet
            but not more than its real capability, nor than it asks for, nor less than its guarantee;
            it is met once it has all it asks for, or got nothing more
    until nothing remains or nobody is unmet

(Volcano's `proportion`.) It is counted in millionths and found anew as a cycle opens, if anything that it
follows from is another than before. Requests are what pods have and wait for, in all groups of a queue.
"""

from typing import Final, Protocol

from msgspec import Struct

from projections.cluster_totals import ClusterTotals
from projections.pod_class import Amounts
from projections.policy import Policy
from projections.queues import Queue
from projections.wakeup_events import ALL_RESOURCES

WHOLE: Final = 1_000_000
"""Millionths in one."""
_NEARLY: Final = 1_000
"""What lacks no more of a whole counts as one."""


class QueueDemand(Struct):
    """A queue that asks for something, all amounts in millionths."""

    name: str
    weight: int
    request: Amounts
    most: Amounts
    """Resource to real capability, where that is a limit."""
    least: Amounts
    """Resource to guarantee."""


class ProportionState(Protocol):
    """The part of the cluster in which requests are heeded."""

    policy: Policy
    cluster_totals: ClusterTotals
    queues: dict[str, Queue]
    changed_queues: dict[str, None]

    def mark_quota_released(self, queue: str, resource: str = ...) -> None:
        """Remember that a queue may now admit what it could not before."""


def update_requests(cluster: ProportionState) -> None:
    """After a record: where the requests of a queue are others, all queues may deserve something else."""
    if cluster.policy.quota != "proportion":
        return
    known = cluster.cluster_totals.requests
    for name in cluster.changed_queues:
        queue = cluster.queues.get(name)
        request = {} if queue is None else queue.request
        if known.get(name, {}) != request:
            known[name] = request
            cluster.mark_quota_released("", ALL_RESOURCES)
        if not request:
            known.pop(name, None)


def compute_deserved(total: Amounts, asking: list[QueueDemand]) -> dict[str, Amounts]:
    """What each queue deserves of the total, by resource."""
    remaining = {name: amount * WHOLE for name, amount in total.items()}
    deserved: dict[str, Amounts] = {one.name: {} for one in asking}
    unmet = asking
    while unmet and any(remaining.values()):
        weights = sum(one.weight for one in unmet)
        increase: Amounts = {}
        still: list[QueueDemand] = []
        for one in unmet:
            before = deserved[one.name]
            after = _raised(one, before, remaining, weights)
            deserved[one.name] = after
            for name in {**before, **after}:
                more = after.get(name, 0) - before.get(name, 0)
                increase[name] = increase.get(name, 0) + more
            is_met = all(after.get(name, 0) >= amount for name, amount in one.request.items())
            if not is_met and after != before:
                still.append(one)
        unmet = still
        remaining = {
            name: max(amount - increase.get(name, 0), 0) for name, amount in remaining.items()
        }
    return {
        name: {one: (amount + _NEARLY) // WHOLE for one, amount in amounts.items()}
        for name, amounts in deserved.items()
    }


def _raised(one: QueueDemand, before: Amounts, remaining: Amounts, weights: int) -> Amounts:
    after: Amounts = {}
    for name in {**remaining, **one.least}:
        amount = before.get(name, 0) + remaining.get(name, 0) * one.weight // weights
        amount = min(amount, one.most.get(name, amount), one.request.get(name, 0))
        after[name] = max(amount, one.least.get(name, 0))
    return after
