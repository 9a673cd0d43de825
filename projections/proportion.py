"""Compute what queues deserve under `proportion`: all resources by weight, up to their requests.

    remaining = total
    repeat: each unmet queue gets remaining x weight / weights of the unmet
            but at most its real capability and its request, and at least its guarantee;
            it is met once it has its request, or got nothing more
    until nothing remains or all queues are met

(Volcano's `proportion`.) Amounts are in millionths. They are computed at the start of a cycle if any input has
changed. The request of a queue is the sum over its allocated and pending pods.
"""

from typing import Final, Protocol

from msgspec import Struct

from projections.cluster_totals import ClusterTotals
from projections.pod_class import Amounts
from projections.policy import Policy
from projections.queues import Queue
from projections.wakeup_events import ALL_RESOURCES

WHOLE: Final = 1_000_000
"""Millionths per unit."""
_NEARLY: Final = 1_000
"""A remainder below this rounds up to a whole unit."""


class QueueDemand(Struct):
    """A queue with pod groups; all amounts in millionths."""

    name: str
    weight: int
    request: Amounts
    most: Amounts
    """Resource to real capability, if limited."""
    least: Amounts
    """Resource to guarantee."""


class ProportionState(Protocol):
    """The part of the cluster in which requests are kept."""

    policy: Policy
    cluster_totals: ClusterTotals
    queues: dict[str, Queue]
    changed_queues: dict[str, None]

    def mark_quota_released(self, queue: str, resource: str = ...) -> None:
        """Record that a queue may now admit pod groups that it did not admit before."""


def update_requests(cluster: ProportionState) -> None:
    """At the end of a record, wake all queues if the request of a queue changed, because what they deserve may
    change."""
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
    """Return what each queue deserves of the total, by resource."""
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
